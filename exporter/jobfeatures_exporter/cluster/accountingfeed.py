"""Shares one batch system's accounting answers between its two users, so that nothing is queried twice.

Accounting is queried for the documents in the format of Sonar (a cluster monitor); the quality of the
schedule is computed from the same answers.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from jobfeatures.batch.source import ClusterSource
from jobfeatures.joblogs.loggedjob import Accounting


class Answered(NamedTuple):
    """One answer of accounting, which covers the time since `since_secs` (Unix time)."""

    accounting: Accounting
    since_secs: float


class AccountingFeed:
    """Queries accounting for Sonar documents, and keeps the latest answer until `take` is called."""

    def __init__(self, source: ClusterSource) -> None:
        self.name = source.name
        self._source = source
        self._lock = threading.Lock()
        self._latest: Answered | None = None

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Query accounting for the jobs that were pending, running or ended at a Unix time or later.

        The answer is returned, and also kept for `take`. Raises SourceError if accounting cannot be queried.
        """
        accounting = self._source.poll_accounting(since_secs)
        with self._lock:
            self._latest = Answered(accounting, since_secs)
        return accounting

    def take(self) -> Answered | None:
        """Return the latest answer and forget it; None if there is none, or it has been taken already."""
        with self._lock:
            latest, self._latest = self._latest, None
        return latest
