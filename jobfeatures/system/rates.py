"""Limits rates of requests by token buckets: pure arithmetic on given times."""

from __future__ import annotations

from collections.abc import Hashable

BURST_SECS = 2.0  # a full bucket holds the requests of so many seconds
MAX_NAMES = 10_000


class Rates:
    """Token buckets by name, each of which allows `per_sec` requests a second on average.

    A full bucket allows `per_sec` times `burst_secs` requests at once.
    """

    def __init__(self, per_sec: float, burst_secs: float = BURST_SECS) -> None:
        self._per_sec = per_sec
        self._burst_secs = burst_secs
        self._buckets: dict[Hashable, tuple[float, float]] = {}  # what is left, and since when

    def take(self, name: Hashable, now_secs: float, cost: float = 1.0) -> bool:
        """Take `cost` tokens from a name's bucket at a monotonic time; return whether that is allowed.

        It is allowed if the bucket holds `cost` tokens. If even a full bucket holds fewer, it has to be full.
        """
        most = self._per_sec * self._burst_secs
        if name not in self._buckets and len(self._buckets) >= MAX_NAMES:
            self._forget(now_secs)
        before, since_secs = self._buckets.get(name, (most, now_secs))
        left = min(most, before + (now_secs - since_secs) * self._per_sec)
        may = left >= min(cost, most)  # at a low rate, an expensive request waits for a full bucket
        self._buckets[name] = left - cost if may else left, now_secs
        return may

    def _forget(self, now_secs: float) -> None:
        """Drop the buckets that are full by now: new ones would be the same."""
        self._buckets = {
            name: bucket for name, bucket in self._buckets.items() if now_secs - bucket[1] < self._burst_secs
        }
