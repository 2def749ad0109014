"""One batch system's accounting, queried once for two consumers."""

from __future__ import annotations

import threading
from typing import NamedTuple

from jobfeatures.batch.source import ClusterSource
from jobfeatures.joblogs.loggedjob import Accounting


class Answered(NamedTuple):
    """An accounting answer, and the start of the time that it covers."""

    accounting: Accounting
    since_secs: float


class AccountingFeed:
    """Queries for one consumer and keeps the answer for another; only the last one: answers are large."""

    def __init__(self, source: ClusterSource) -> None:
        self.name = source.name
        self._source = source
        self._lock = threading.Lock()
        self._latest: Answered | None = None

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Query accounting; raises SourceError."""
        accounting = self._source.poll_accounting(since_secs)
        with self._lock:
            self._latest = Answered(accounting, since_secs)
        return accounting

    def take(self) -> Answered | None:
        """Return the latest answer, and only once."""
        with self._lock:
            latest, self._latest = self._latest, None
        return latest
