"""When the next document is due. Pure."""

from __future__ import annotations

import math


def compute_next_secs(now_secs: float, interval_secs: float) -> float:
    """Return the first multiple of an interval after a time, both since the epoch: nodes keep step (UTC)."""
    due_secs = (math.floor(now_secs / interval_secs) + 1) * interval_secs
    return due_secs if due_secs > now_secs else due_secs + interval_secs
