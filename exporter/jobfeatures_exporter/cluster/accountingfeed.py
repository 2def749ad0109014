"""One batch system's accounting, queried once for two consumers."""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol

from jobfeatures.joblogs.loggedjob import Accounting


class AccountingSource(Protocol):
    """What the feed needs of a batch system."""

    name: str

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the records of jobs that were pending, running or ended at `since_secs` or later."""


class Answered(NamedTuple):
    """An accounting answer, and the start of the time that it covers."""

    accounting: Accounting
    since_secs: float


class AccountingFeed:
    """Queries for one consumer and keeps the answer for another; only the last one: answers are large."""

    def __init__(self, source: AccountingSource, *, is_taken: bool = True) -> None:
        """`is_taken` says whether there is a second consumer."""
        self.name = source.name
        self._is_taken = is_taken
        self._source = source
        self._lock = threading.Lock()
        self._latest: Answered | None = None

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Query accounting; raises SourceError."""
        accounting = self._source.poll_accounting(since_secs)
        if self._is_taken:
            with self._lock:
                self._latest = Answered(accounting, since_secs)
        return accounting

    def take(self) -> Answered | None:
        """Return the latest answer, and only once."""
        with self._lock:
            latest, self._latest = self._latest, None
        return latest
