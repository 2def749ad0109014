"""Units of kernel figures, and the resources for which the kernel reports pressure."""

from __future__ import annotations

import os

TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
RESOURCES = ("cpu", "memory", "io")  # whose pressure is reported
