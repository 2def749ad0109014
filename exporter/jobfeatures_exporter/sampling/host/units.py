"""What the kernel counts in, and of what."""

from __future__ import annotations

import os

TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
RESOURCES = ("cpu", "memory", "io")  # whose pressure is reported
