"""One batch system's accounting for those who ask: what one has read serves another."""

from __future__ import annotations

import threading
from typing import NamedTuple, Protocol

from jobfeatures.joblog import Accounting


class AccountingSource(Protocol):
    """What is needed of a batch system here."""

    name: str

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the records of jobs that were pending, running or ended at `since_secs` or later."""


class Answered(NamedTuple):
    """An answer of accounting, and since when it reports jobs."""

    accounting: Accounting
    since_secs: float


class AccountingFeed:
    """Asks for one, and keeps the answer for another. The last answer only: they are large."""

    def __init__(self, source: AccountingSource, *, is_taken: bool = True) -> None:
        """`is_taken` says whether there is another."""
        self.name = source.name
        self._is_taken = is_taken
        self._source = source
        self._lock = threading.Lock()
        self._latest: Answered | None = None

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Ask; raises SourceError."""
        accounting = self._source.poll_accounting(since_secs)
        if self._is_taken:
            with self._lock:
                self._latest = Answered(accounting, since_secs)
        return accounting

    def take(self) -> Answered | None:
        """Return the latest answer, once."""
        with self._lock:
            latest, self._latest = self._latest, None
        return latest
