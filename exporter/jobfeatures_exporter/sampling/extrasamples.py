"""Decides when to take extra samples between the regular ones. No I/O."""

from __future__ import annotations

from collections import deque

BURST_SAMPLES = 8  # extra samples in a burst
KEPT_SAMPLES = 4  # of them, kept for urgent ones
SAMPLES_PER_SEC = 2.0  # sustained rate of extra samples
FIRST_AGAIN_SECS = 0.5


class ExtraSamples:
    """Decides when extra samples are due. Times are in monotonic seconds.

    A sample is due at once when a job begins or is about to end. A new job is sampled again after 0.5, 1, 2 …
    seconds, until this gap reaches the regular interval: so any job is sampled in the second half of its
    life. These later samples, and one after a control group was removed, are postponed in favour of urgent
    ones if there are too many: at most `BURST_SAMPLES` are taken in a row, and `SAMPLES_PER_SEC` a second on
    average.
    """

    def __init__(self, interval_secs: float) -> None:
        self._interval_secs = interval_secs
        self._young: deque[tuple[float, float]] = deque()  # when due, and the gap that follows
        self._wanted = False
        self._wanted_later = False
        self._tokens = float(BURST_SAMPLES)
        self._refilled_at = float("-inf")

    def began(self, now_secs: float) -> None:
        """Record that a job has begun."""
        self._wanted = True
        # Jobs that begin within half a second share their follow-up samples.
        if not any(gap == FIRST_AGAIN_SECS for _, gap in self._young):
            self._young.append((now_secs + FIRST_AGAIN_SECS, FIRST_AGAIN_SECS))

    def ending(self) -> None:
        """Record that a job is about to end."""
        self._wanted = True

    def ended(self) -> None:
        """Record that a job's control group was removed."""
        self._wanted_later = True

    def is_due(self, now_secs: float) -> bool:
        """Return whether an extra sample is due now. If so, the caller must take it: it is not due again."""
        self._refill(now_secs)
        for _ in range(len(self._young)):
            due_secs, gap_secs = self._young.popleft()
            if due_secs > now_secs:
                self._young.append((due_secs, gap_secs))
                continue
            self._wanted_later = True
            if gap_secs * 2 < self._interval_secs:
                self._young.append((now_secs + gap_secs, gap_secs * 2))
        if self._tokens < self._needed():
            return False
        self._tokens -= 1
        self._wanted = self._wanted_later = False
        return True

    def wait_secs(self, now_secs: float) -> float | None:
        """Return the seconds until the next extra sample is due; None: not before a job begins or ends."""
        self._refill(now_secs)
        times = [due_secs - now_secs for due_secs, _ in self._young]
        if self._wanted or self._wanted_later:
            times.append((self._needed() - self._tokens) / SAMPLES_PER_SEC)
        return max(0.0, min(times)) if times else None

    def _needed(self) -> float:
        if self._wanted:
            return 1.0
        return float(KEPT_SAMPLES) if self._wanted_later else float("inf")

    def _refill(self, now_secs: float) -> None:
        passed_secs = now_secs - self._refilled_at
        self._tokens = min(float(BURST_SAMPLES), self._tokens + passed_secs * SAMPLES_PER_SEC)
        self._refilled_at = now_secs
