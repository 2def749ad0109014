"""Rate limiting by token buckets: pure arithmetic on given times."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

BURST_SECS = 2.0  # a full bucket holds the requests of so many seconds
MAX_NAMES = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    filled_at_secs: float


class Rates:
    """One bucket per name: at most `per_sec` requests on average, and those of `burst_secs` in a burst."""

    def __init__(self, per_sec: float, burst_secs: float = BURST_SECS) -> None:
        self._per_sec = per_sec
        self._burst_secs = burst_secs
        self._buckets: dict[Hashable, _Bucket] = {}

    def take(self, name: Hashable, now_secs: float, cost: float = 1.0) -> bool:
        """Return whether a request of this cost may be answered now; `now_secs` is a monotonic clock's."""
        most = self._per_sec * self._burst_secs
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= MAX_NAMES:
                self._forget(now_secs)
            bucket = self._buckets[name] = _Bucket(most, now_secs)
        left = min(most, bucket.left + (now_secs - bucket.filled_at_secs) * self._per_sec)
        bucket.filled_at_secs = now_secs
        bucket.left = left
        if left < min(cost, most):  # at a low rate, an expensive request waits for a full bucket
            return False
        bucket.left = left - cost
        return True

    def _forget(self, now_secs: float) -> None:
        """Drop the buckets that are full by now: new ones would be the same."""
        self._buckets = {
            name: bucket
            for name, bucket in self._buckets.items()
            if now_secs - bucket.filled_at_secs < self._burst_secs
        }
