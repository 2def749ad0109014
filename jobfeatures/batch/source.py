"""What a batch system has to offer, and the thread that keeps asking it.

A source answers with a whole `JobTable` or raises `SourceError`. Its keeper
asks it in the background, keeps the last good table through failures, and
hands it out without a lock: readers see one table or the next, never a mix.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from jobfeatures.clock import Clock
from jobfeatures.errors import SourceError
from jobfeatures.model import JobKey, JobTable

log = logging.getLogger(__name__)


class BatchSource(Protocol):
    """One way to learn about the jobs of this node. Instances are used by one thread at a time."""

    name: str
    is_local: bool  # asking costs nobody but this node: a folder, not a controller

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return what is known now.

        A source that is asked job by job asks about these: `seen` are jobs that
        live on the node, by their control groups; `claimed` are jobs that have
        published directories, which proves nothing. `taken_at_secs` is the time
        before asking. Raises SourceError; bad records go into
        `JobTable.rejected`.
        """

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Call `notify`, from any thread, when asking again is worth it, until the context is left."""


class PolledSource:
    """Base of sources that have nothing to watch."""

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Watch nothing."""
        del notify
        return nullcontext()


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """What a keeper tells of its source; replaced as a whole."""

    name: str
    table: JobTable | None = None
    failures: int = 0
    rejected: int = 0  # records skipped, over all polls
    last_error: str = ""  # empty while the latest poll succeeded

    def age_secs(self, now_secs: float) -> float | None:
        """Return the age of the table in use, None before the first one."""
        return None if self.table is None else max(0.0, now_secs - self.table.taken_at_secs)


class SourceKeeper:
    """Asks one source: at once, then every `interval_secs` ± `jitter`, and sooner when told, within limits.

    `min_interval_secs` separates two polls whatever happens: a node on which
    jobs start every second must not ask the controller every second.
    """

    def __init__(
        self,
        source: BatchSource,
        clock: Clock,
        *,
        interval_secs: float,
        min_interval_secs: float,
        jitter: float = 0.1,
        seen: Callable[[], Collection[JobKey]] = frozenset,
        claimed: Callable[[], Collection[JobKey]] = frozenset,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._interval_secs = interval_secs
        self._min_interval_secs = min_interval_secs
        self._jitter = jitter
        self._seen = seen
        self._claimed = claimed
        self._on_change = on_change
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source-{source.name}", daemon=True)
        self.status = SourceStatus(source.name)

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def stop(self, timeout_secs: float = 5.0) -> None:
        """Stop asking; a poll that hangs is left behind."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_secs)

    def refresh(self) -> None:
        """Ask again as soon as the limits allow."""
        self._wake.set()

    def poll_once(self) -> None:
        """Ask now, in this thread, and keep the answer or the failure."""
        try:
            table = self._source.poll_jobs(self._seen(), self._claimed())
        except SourceError as error:
            self._failed(str(error))
        except Exception as error:  # supervised: one source must not end the daemon
            log.exception("source failed unexpectedly", extra={"source": self._source.name})
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self.status.last_error:
                log.info("source answers again", extra={"source": self._source.name})
            for rejected in table.rejected:
                log.warning("record skipped: %s", rejected, extra={"source": self._source.name})
            old = self.status
            self.status = replace(
                old, table=table, rejected=old.rejected + len(table.rejected), last_error=""
            )
            self._on_change()

    def _failed(self, reason: str) -> None:
        if reason != self.status.last_error:  # once per kind of failure, not once a minute
            log.warning("source failed: %s", reason, extra={"source": self._source.name})
        self.status = replace(self.status, failures=self.status.failures + 1, last_error=reason)

    def _run(self) -> None:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._source.watch(self._wake.set))
            except Exception:  # supervised: without a watch there are still polls
                log.exception("cannot watch for changes", extra={"source": self._source.name})
            while not self._stopping.is_set():
                self._wake.clear()
                self.poll_once()
                if self._stopping.wait(self._min_interval_secs):
                    return
                spread = 1 + random.uniform(-self._jitter, self._jitter)  # noqa: S311  # not a secret
                self._wake.wait(max(0.0, self._interval_secs * spread - self._min_interval_secs))
