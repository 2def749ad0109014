"""By how much a batch system's clock is before the node's: pure."""

from __future__ import annotations

MAX_DOUBT_SECS = 4.0  # an answer that took longer to come tells too little


class ClockDifference:
    """Keeps an estimate that agrees with the latest answer; it moves only where it must."""

    def __init__(self) -> None:
        self.ahead_secs: float | None = None

    def learn(
        self, clock_secs: float, *, asked_secs: float, answered_secs: float, resolution_secs: float = 1.0
    ) -> None:
        """Take what the other clock showed, rounded down, between two times of ours (all epoch)."""
        low, high = clock_secs - answered_secs, clock_secs + resolution_secs - asked_secs
        if answered_secs < asked_secs or high - low > MAX_DOUBT_SECS:
            return  # our clock was set, or the answer was long on its way
        if self.ahead_secs is None or not low <= self.ahead_secs <= high:
            self.ahead_secs = (low + high) / 2
