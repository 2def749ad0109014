"""Estimate how far a batch system's clock is ahead of the node's: pure."""

from __future__ import annotations

MAX_DOUBT_SECS = 4.0  # a wider interval is too inaccurate to learn from


class ClockDifference:
    """An estimate that is consistent with the latest answer, and changes only when it is not."""

    def __init__(self) -> None:
        self.ahead_secs: float | None = None

    def learn(
        self, clock_secs: float, *, asked_secs: float, answered_secs: float, resolution_secs: float = 1.0
    ) -> None:
        """Learn what the other clock showed, rounded down, between two times of our own clock (all epoch)."""
        low, high = clock_secs - answered_secs, clock_secs + resolution_secs - asked_secs
        if answered_secs < asked_secs or high - low > MAX_DOUBT_SECS:
            return  # our clock was set back, or the answer took too long
        if self.ahead_secs is None or not low <= self.ahead_secs <= high:
            self.ahead_secs = (low + high) / 2
