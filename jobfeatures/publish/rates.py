"""How often somebody may ask: pure arithmetic on times that are given."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

BURST_SECS = 2.0  # what is saved while nothing is asked
MAX_NAMES = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    filled_at_secs: float


class Rates:
    """Requests by name, each at most `per_sec` on average, those of `burst_secs` at once after a pause."""

    def __init__(self, per_sec: float, burst_secs: float = BURST_SECS) -> None:
        self._per_sec = per_sec
        self._burst_secs = burst_secs
        self._buckets: dict[Hashable, _Bucket] = {}

    def take(self, name: Hashable, now_secs: float, cost: float = 1.0) -> bool:
        """Return whether a request of this cost may be answered at a time of a clock that never goes back."""
        most = self._per_sec * self._burst_secs
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= MAX_NAMES:
                self._forget(now_secs)
            bucket = self._buckets[name] = _Bucket(most, now_secs)
        left = min(most, bucket.left + (now_secs - bucket.filled_at_secs) * self._per_sec)
        bucket.filled_at_secs = now_secs
        bucket.left = left
        if left < min(cost, most):  # at a low rate a costly request waits for a full bucket
            return False
        bucket.left = left - cost
        return True

    def _forget(self, now_secs: float) -> None:
        """Drop the names whose buckets are full by now: they would be made anew as they are."""
        self._buckets = {
            name: bucket
            for name, bucket in self._buckets.items()
            if now_secs - bucket.filled_at_secs < self._burst_secs
        }
