"""One batch system's accounting, queried by one consumer, whose answers another one uses too."""

from __future__ import annotations

import threading
from typing import NamedTuple

from jobfeatures.batch.source import ClusterSource
from jobfeatures.joblogs.loggedjob import Accounting


class Answered(NamedTuple):
    """An accounting answer, and the start (Unix time) of the period that was asked for."""

    accounting: Accounting
    since_secs: float


class AccountingFeed:
    """Queries for one consumer and keeps the last answer for another: only one, as answers are large."""

    def __init__(self, source: ClusterSource) -> None:
        self.name = source.name
        self._source = source
        self._lock = threading.Lock()
        self._latest: Answered | None = None

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Query accounting for jobs since a Unix time, and keep the answer. Raises SourceError."""
        accounting = self._source.poll_accounting(since_secs)
        with self._lock:
            self._latest = Answered(accounting, since_secs)
        return accounting

    def take(self) -> Answered | None:
        """Return the latest answer and forget it; None if there is no new one."""
        with self._lock:
            latest, self._latest = self._latest, None
        return latest
