"""One batch system's accounting: answers to queries for Sonar documents, used for schedule quality too."""

from __future__ import annotations

import threading
from typing import NamedTuple

from jobfeatures.batch.source import ClusterSource
from jobfeatures.joblogs.loggedjob import Accounting


class Answered(NamedTuple):
    """An answer of accounting, and the start (Unix time) of the period that it covers."""

    accounting: Accounting
    since_secs: float


class AccountingFeed:
    """Queries accounting for Sonar documents, and keeps the latest answer until schedule quality takes it."""

    def __init__(self, source: ClusterSource) -> None:
        self.name = source.name
        self._source = source
        self._lock = threading.Lock()
        self._latest: Answered | None = None

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Query accounting for jobs since a Unix time, keep the answer and return it. Raises SourceError."""
        accounting = self._source.poll_accounting(since_secs)
        with self._lock:
            self._latest = Answered(accounting, since_secs)
        return accounting

    def take(self) -> Answered | None:
        """Return the latest answer and forget it; None if it was taken before, or there is none."""
        with self._lock:
            latest, self._latest = self._latest, None
        return latest
