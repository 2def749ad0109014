"""What a batch system has to offer, and the thread that keeps asking it.

A source answers with a whole `JobTable` or raises `SourceError`. Its keeper
asks it in the background, keeps the last good table through failures, and
hands it out without a lock: readers see one table or the next, never a mix.

A `BatchSource` reports one node's jobs, a `ClusterSource` of the whole
cluster; only the controller role asks the latter.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

from jobfeatures.clock import Clock, SystemClock
from jobfeatures.errors import Rejected, SourceError
from jobfeatures.model import Cluster, JobKey, JobTable

if TYPE_CHECKING:  # of clusters alone
    from jobfeatures.administration import FairShares, Licences, Reservations, Scheduler
    from jobfeatures.joblog import Accounting

log = logging.getLogger(__name__)

HASTE_SECS = 1.0  # between two polls for jobs that start
JITTER = 0.1  # of the time between two polls


class BatchSource(Protocol):
    """One way to learn about the jobs of this node. Instances are used by one thread at a time."""

    name: str
    is_local: bool  # asking costs nobody but this node: a folder, not a controller

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return what is known now.

        A source that is asked job by job asks about these: `seen` are jobs that live on the node, by their
        processes; `claimed` are jobs that have published directories or empty control groups, which proves
        nothing. `taken_at_secs` is the time before asking. Raises SourceError; bad records go into
        `JobTable.rejected`.
        """

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Call `notify`, from any thread, when asking again is worth it, until the context is left."""


def watch_nothing(notify: Callable[[], None]) -> AbstractContextManager[object]:
    """Watch nothing."""
    del notify
    return nullcontext()


class PolledSource:
    """Base of sources that have nothing to watch."""

    watch = staticmethod(watch_nothing)


class ClusterSource(Protocol):
    """One way to learn about a whole cluster. Each method raises SourceError if nothing was answered.

    Bad records go into `rejected`; `taken_at_secs` is the time before asking.
    Methods may be called by different threads at once.
    """

    name: str

    def poll_queue(self) -> JobTable:
        """Return the jobs that are pending, running or ended a short time ago."""

    def poll_cluster(self) -> Cluster:
        """Return the nodes and partitions."""

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the records of jobs that were pending, running or ended at `since_secs` or later."""


@runtime_checkable
class HistorySource(Protocol):
    """A batch system that can be asked for parts of its history, without steps of jobs."""

    def poll_history(self, since_secs: float, until_secs: float) -> Accounting:
        """Return the records of jobs that were pending, running or ended between two times."""


@runtime_checkable
class UserSource(Protocol):
    """A source that can be asked about one user's jobs alone. Each method raises SourceError."""

    def find_user(self, job_id: str) -> str | None:
        """Return whose job it is, None where nobody knows it."""

    def poll_user_queue(self, user: str) -> JobTable:
        """Return one user's jobs that are pending, running or ended a short time ago."""

    def poll_user_history(self, user: str, since_secs: float) -> Accounting:
        """Return the records of one user's jobs that were pending, running or ended since then."""


@runtime_checkable
class AdministrationSource(Protocol):
    """A source that tells what administrators look at. Each method raises SourceError."""

    def poll_scheduler(self) -> Scheduler:
        """Return how busy the controller and its schedulers are."""

    def poll_licences(self) -> Licences:
        """Return the licences."""

    def poll_shares(self) -> FairShares:
        """Return the shares of accounts and users."""

    def poll_reservations(self) -> Reservations:
        """Return the reservations that are not over."""


class Answer(Protocol):
    """What a keeper needs of an answer."""

    @property
    def taken_at_secs(self) -> float:
        """Return the time before asking."""

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """Return the records that were skipped."""


AnswerT = TypeVar("AnswerT", bound=Answer)


@dataclass(frozen=True, slots=True)
class KeeperStatus(Generic[AnswerT]):
    """What a keeper reports about its source; replaced as a whole."""

    name: str
    table: AnswerT | None = None
    failures: int = 0
    rejected: int = 0  # records skipped, over all polls
    last_error: str = ""  # empty while the latest poll succeeded
    failing_since_secs: float | None = None  # epoch: when it failed first since the last answer

    def age_secs(self, now_secs: float) -> float | None:
        """Return the age of the table in use, None before the first one."""
        return None if self.table is None else max(0.0, now_secs - self.table.taken_at_secs)

    def failing_secs(self, now_secs: float) -> float | None:
        """Return for how long it has failed, None while it answers."""
        since = self.failing_since_secs
        return None if since is None else max(0.0, now_secs - since)


SourceStatus = KeeperStatus[JobTable]


class Keeper(Generic[AnswerT]):
    """Asks one source: at once, then every `interval_secs` ± JITTER, and sooner on request, within limits.

    `min_interval_secs` separates two polls whatever happens: a node on which jobs start every second must not
    ask the controller every second. In haste, for a job whose prolog has left a question, HASTE_SECS do: a
    question a job at most, where the prologs would ask one each.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[], AnswerT],
        *,
        interval_secs: float,
        min_interval_secs: float,
        watch: Callable[[Callable[[], None]], AbstractContextManager[object]] = watch_nothing,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
        before_first: Callable[[], None] = lambda: None,
    ) -> None:
        """`before_first` is called in its thread before it asks for the first time, and may wait."""
        self._clock = clock or SystemClock()
        self._before_first = before_first
        self._ask = ask
        self._interval_secs = interval_secs
        self._min_interval_secs = min_interval_secs
        self._watch = watch
        self._on_change = on_change
        self._wake = threading.Event()
        self._haste = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)
        self.status: KeeperStatus[AnswerT] = KeeperStatus(name)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def stop(self, timeout_secs: float = 5.0) -> None:
        """Stop asking; a poll that hangs is left behind."""
        self._stopping.set()
        self._wake.set()
        self._haste.set()
        if self._thread.is_alive():
            self._thread.join(timeout_secs)

    @property
    def has_died(self) -> bool:
        """Return whether its thread has ended without being stopped; one that waits for an answer lives."""
        was_started = self._thread.ident is not None
        return was_started and not self._stopping.is_set() and not self._thread.is_alive()

    def refresh(self, *, in_haste: bool = False) -> None:
        """Ask again as soon as the limits allow."""
        self._wake.set()
        if in_haste:
            self._haste.set()

    def poll_once(self) -> None:
        """Ask now, in this thread, and keep the answer or the failure."""
        try:
            table = self._ask()
        except SourceError as error:
            self._failed(str(error))
        except Exception as error:  # supervised: one source must not end the daemon
            log.exception("source failed unexpectedly", extra={"source": self.status.name})
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self.status.last_error:
                log.info("source answers again", extra={"source": self.status.name})
            for rejected in table.rejected:
                log.warning("record skipped: %s", rejected, extra={"source": self.status.name})
            old = self.status
            self.status = replace(
                old,
                table=table,
                rejected=old.rejected + len(table.rejected),
                last_error="",
                failing_since_secs=None,
            )
            self._notify()

    def _notify(self) -> None:
        try:
            self._on_change()
        except Exception as error:  # supervised: an answer that cannot be used must not end the asking
            log.exception("answer cannot be used", extra={"source": self.status.name})
            self._failed(f"answer cannot be used: {type(error).__name__}: {error}")

    def _failed(self, reason: str) -> None:
        if reason != self.status.last_error:  # once per kind of failure, not once a minute
            log.warning("source failed: %s", reason, extra={"source": self.status.name})
        since = self.status.failing_since_secs
        self.status = replace(
            self.status,
            failures=self.status.failures + 1,
            last_error=reason,
            failing_since_secs=self._clock.now_secs() if since is None else since,
        )

    def _run(self) -> None:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._watch(self._wake.set))
            except Exception:  # supervised: without a watch there are still polls
                log.exception("cannot watch for changes", extra={"source": self.status.name})
            self._before_first()
            while not self._stopping.is_set():
                self._wake.clear()
                self._haste.clear()
                self.poll_once()
                if self._stopping.wait(min(HASTE_SECS, self._min_interval_secs)):
                    return
                self._haste.wait(max(0.0, self._min_interval_secs - HASTE_SECS))
                spread = 1 + random.uniform(-JITTER, JITTER)  # noqa: S311  # not a secret
                self._wake.wait(max(0.0, self._interval_secs * spread - self._min_interval_secs))
