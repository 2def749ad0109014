"""Reads the machine's clock. No other module does: each is passed a `Clock`, or a time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time; passed to whatever needs it, so that tests can set the time."""

    def now_secs(self) -> float:
        """Return seconds since the epoch; it jumps when the machine's clock is set."""

    def monotonic_secs(self) -> float:
        """Return seconds since an arbitrary point; never goes back."""


class SystemClock:
    """The clocks of this machine."""

    def now_secs(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic_secs(self) -> float:
        """Return seconds since an arbitrary point; never goes back."""
        return time.monotonic()
