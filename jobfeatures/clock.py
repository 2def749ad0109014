"""The only place that reads a clock. Everything else is given one, or a time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the rest of the code may know about time."""

    def now_secs(self) -> float:
        """Return seconds since the epoch; jumps when the machine's clock is set."""

    def monotonic_secs(self) -> float:
        """Return seconds since some fixed point; never goes back."""


class SystemClock:
    """The machine's clocks."""

    def now_secs(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic_secs(self) -> float:
        """Return seconds of a clock that never goes back."""
        return time.monotonic()
