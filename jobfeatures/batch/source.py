"""The interface of a batch system's sources, and the thread that polls them.

A poll of a source returns a whole `JobTable` or raises `SourceError`. A `Keeper` polls in the background,
keeps the last good table through failures, and hands it out without a lock: readers see one table or the
next, never a mixture.

A `BatchSource` reports one node's jobs, a `ClusterSource` those of the whole cluster; only the controller
role polls the latter.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

from jobfeatures.errors import Rejected, SourceError
from jobfeatures.records.model import Cluster, JobKey, JobTable
from jobfeatures.system.clock import Clock, SystemClock
from jobfeatures.system.rounds import Round, Rounds

if TYPE_CHECKING:  # only cluster sources need these
    from jobfeatures.joblogs.loggedjob import Accounting
    from jobfeatures.records.administration import FairShares, Licences, Reservations, Scheduler

log = logging.getLogger(__name__)

HASTE_SECS = 1.0  # least interval between polls for jobs that start
JITTER = 0.1  # fraction of the poll interval by which a poll may come early
SKIPPED_SECS = 600.0  # a record that was not rejected again for so long is no trouble any more


class BatchSource(Protocol):
    """A source of this node's jobs. Each instance is used by one thread at a time.

    `is_local`: a poll reads only files on this node, and queries no controller.
    """

    name: str
    is_local: bool  # polling loads only this node: it reads a folder and queries no controller

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs of this node. Raises SourceError if there is no answer.

        `seen` are jobs that have processes on the node. `claimed` are jobs that have published directories or
        empty control groups, which does not prove that they run. A source that queries job by job queries
        both. The table's `taken_at_secs` is the time just before the query; malformed records go into
        `JobTable.rejected`.
        """

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Return a context manager within which any thread calls `notify` if the jobs may have changed."""


def watch_nothing(notify: Callable[[], None]) -> AbstractContextManager[object]:
    """Return a context manager within which `notify` is never called: for sources that cannot notify."""
    del notify
    return nullcontext()


class PolledSource:
    """Base class of sources that cannot notify of changes: they are polled at intervals only."""

    watch = staticmethod(watch_nothing)


class ClusterSource(Protocol):
    """A source for the whole cluster. Each method raises SourceError if there is no answer.

    In the answers, malformed records are in `rejected`, and `taken_at_secs` is the time just before the
    query. Methods may be called by different threads at once.
    """

    name: str

    def poll_queue(self) -> JobTable:
        """Return the jobs that are pending, running or ended recently."""

    def poll_cluster(self) -> Cluster:
        """Return the nodes and partitions."""

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the records of jobs that were pending or running, or ended, since `since_secs` (epoch)."""


@runtime_checkable
class HistorySource(Protocol):
    """A source that can be queried for a part of the accounting history, without job steps."""

    def poll_history(self, since_secs: float, until_secs: float) -> Accounting:
        """Return the records of jobs that were pending or running, or ended, between two times (epoch)."""


@runtime_checkable
class UserSource(Protocol):
    """A source that can be queried for one user's jobs only. Each method raises SourceError."""

    def find_user(self, job_id: str) -> str | None:
        """Return the name of a job's user; None if the batch system does not know the job."""

    def poll_user_queue(self, user: str) -> JobTable:
        """Return one user's jobs that are pending, running or ended recently."""

    def poll_user_history(self, user: str, since_secs: float) -> Accounting:
        """Return records of a user's jobs that were pending, running or ended since `since_secs` (epoch)."""


@runtime_checkable
class AdministrationSource(Protocol):
    """A source that reports scheduler, licences, shares and reservations. Each method raises SourceError."""

    def poll_scheduler(self) -> Scheduler:
        """Return the load of the controller and its schedulers."""

    def poll_licences(self) -> Licences:
        """Return the software licences that the batch system counts."""

    def poll_shares(self) -> FairShares:
        """Return the fair shares of accounts and users."""

    def poll_reservations(self) -> Reservations:
        """Return the reservations that are not over."""


class KeptAnswer(Protocol):
    """What an answer of a source must have for a `Keeper` to keep it: a time, and its rejected records."""

    @property
    def taken_at_secs(self) -> float:
        """Return the time just before the query (epoch seconds)."""

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """Return the records that were skipped."""


AnswerT = TypeVar("AnswerT", bound=KeptAnswer)


@dataclass(frozen=True, slots=True)
class KeeperStatus(Generic[AnswerT]):
    """A keeper's latest answer and the health of its source; immutable, replaced after each poll.

    `rejected` counts the malformed records in all polls, `skipped` has the recent ones, the newest last.
    `failures` counts failed polls; `last_error` is "" if the latest poll succeeded.
    """

    name: str
    table: AnswerT | None = None
    failures: int = 0
    rejected: int = 0  # records skipped, over all polls
    skipped: tuple[Rejected, ...] = ()  # those of the last SKIPPED_SECS, the newest last
    last_error: str = ""  # empty if the latest poll succeeded
    failing_since_secs: float | None = None  # epoch: the first failure since the last answer

    def age_secs(self, now_secs: float) -> float | None:
        """Return the age of the latest answer in seconds; None before the first. `now_secs` is epoch time."""
        return None if self.table is None else max(0.0, now_secs - self.table.taken_at_secs)

    def failing_secs(self, now_secs: float) -> float | None:
        """Return for how many seconds the source has been failing; None while it answers."""
        since = self.failing_since_secs
        return None if since is None else max(0.0, now_secs - since)


SourceStatus = KeeperStatus[JobTable]


class Keeper(Generic[AnswerT]):
    """Polls one source in the background, and keeps its latest answer in `status`.

    It polls at once, then every `interval_secs` less a random part up to JITTER, and on request. Polls are at
    least `min_interval_secs` apart: a node on which jobs start every second must not query the controller
    every second. If a prolog requests a poll because it does not query the batch system itself, HASTE_SECS
    between polls are enough: there is still at most one query per job.
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
        rounds: Rounds | None = None,
    ) -> None:
        """`before_first` is called in the keeper's thread before the first poll, and may block.

        `rounds`, if given, is a thread shared with other work; else the keeper has one of its own.
        """
        self._clock = clock or SystemClock()
        self._before_first = before_first
        self._ask = ask
        self._interval_secs = interval_secs
        self._min_interval_secs = min_interval_secs
        self._watch = watch
        self._on_change = on_change
        self._skipped: dict[Rejected, float] = {}  # when last (monotonic)
        self._watching: ExitStack | None = None
        hasty_secs = min(HASTE_SECS, min_interval_secs)
        self._round = Round(
            self._poll, least_secs=min_interval_secs, hasty_secs=hasty_secs, close=self._unwatch
        )
        self._is_alone = rounds is None
        self._rounds = rounds or Rounds(f"source-{name}")
        self.status: KeeperStatus[AnswerT] = KeeperStatus(name)

    def start(self) -> None:
        """Start polling."""
        self._rounds.add(self._round)
        if self._is_alone:
            self._rounds.start()

    def stop(self, timeout_secs: float = 5.0) -> None:
        """Stop polling; a poll that still hangs after `timeout_secs` is abandoned."""
        if self._is_alone:
            self._rounds.stop(timeout_secs)
        else:
            self._rounds.remove(self._round, timeout_secs)

    @property
    def has_died(self) -> bool:
        """Return whether the polling thread has ended without `stop`.

        A thread that is waiting for an answer has not ended.
        """
        return self._rounds.has_died

    def refresh(self, *, in_haste: bool = False) -> None:
        """Request a poll, to be made once `min_interval_secs` have passed since the last one.

        With `in_haste`, it is made once HASTE_SECS have passed.
        """
        self._round.want(in_haste=in_haste)

    def poll_once(self) -> None:
        """Poll now, in the calling thread, and store the answer or the failure."""
        try:
            table = self._ask()
        except SourceError as error:
            self._failed(str(error))
        except Exception as error:  # supervised: one source must not end the daemon
            log.exception("unexpected error in querying the batch system", extra={"source": self.status.name})
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self.status.last_error:
                log.info("the batch system answers again", extra={"source": self.status.name})
            self._note_skipped(table.rejected)
            old = self.status
            self.status = replace(
                old,
                table=table,
                rejected=old.rejected + len(table.rejected),
                skipped=tuple(self._skipped),
                last_error="",
                failing_since_secs=None,
            )
            self._notify()

    def _note_skipped(self, rejected: Collection[Rejected]) -> None:
        """Keep the records rejected within the last SKIPPED_SECS; log those that were not kept already."""
        now_secs = self._clock.monotonic_secs()
        known = {each: at for each, at in self._skipped.items() if now_secs - at < SKIPPED_SECS}
        for each in rejected:
            if known.pop(each, None) is None:
                log.warning("record skipped: %s", each, extra={"source": self.status.name})
            known[each] = now_secs
        self._skipped = known

    def _notify(self) -> None:
        try:
            self._on_change()
        except Exception as error:  # supervised: an answer that cannot be used must not end the polling
            log.exception("the source's answer cannot be used", extra={"source": self.status.name})
            self._failed(f"the answer cannot be used: {type(error).__name__}: {error}")

    def _failed(self, reason: str) -> None:
        if reason != self.status.last_error:  # once per kind of failure, not once a minute
            where = {"source": self.status.name}
            log.warning("no answer of the batch system: its last one is kept: %s", reason, extra=where)
        since = self.status.failing_since_secs
        self.status = replace(
            self.status,
            failures=self.status.failures + 1,
            last_error=reason,
            failing_since_secs=self._clock.now_secs() if since is None else since,
        )

    def _poll(self) -> float:
        """Poll, and return the seconds to the next time."""
        if self._watching is None:
            self._watching = ExitStack()
            try:
                self._watching.enter_context(self._watch(self._round.want))
            except Exception:  # supervised: without a watch there are still polls
                log.exception("cannot watch for changes, only poll", extra={"source": self.status.name})
            self._before_first()
        self.poll_once()
        return self._interval_secs * (1 - random.uniform(0, JITTER))  # noqa: S311  # not a secret

    def _unwatch(self) -> None:
        if self._watching is not None:
            self._watching.close()
