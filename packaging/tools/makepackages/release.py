"""What is released, by whom and when."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Release:
    """What is released, by whom and when; `epoch` is the time of all files."""

    version: str
    revision: str
    summary: str
    description: str
    maintainer: str
    epoch: int


def date_of(epoch: int) -> str:
    """Return a day as rpm's changelog has it."""
    return time.strftime("%a %b %d %Y", time.gmtime(epoch))
