"""Which log messages are written when they repeat: pure.

A message is written when it comes first, then once a minute with how often it came meanwhile. So are messages
of one kind, which differ in their numbers or arguments, when there are more than a few of them in a minute.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

PERIOD_SECS = 60.0
DISTINCT = 10  # messages of one kind that are written in a period
MAX_KINDS = 256
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")

Item = TypeVar("Item")


def without_numbers(text: str) -> str:
    """Return what messages of a kind have in common though they were put together before they were given."""
    return _NUMBERS.sub("0", text)


@dataclass(slots=True)
class _Kind(Generic[Item]):
    until_secs: float
    written: set[str]
    repeated: set[str] = field(default_factory=set)
    held: int = 0
    last: Item | None = None


class RepeatLimits(Generic[Item]):
    """Decides on each message. Times are those of a clock that never goes back."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind[Item]] = {}

    @property
    def is_holding(self) -> bool:
        """Return whether there is something to be reported later."""
        return any(kind.held for kind in self._kinds.values())

    def admit(self, kind: Hashable, text: str, item: Item, now_secs: float) -> bool:
        """Return whether to write a message now; else `item` is kept as the last of its kind."""
        known = self._kinds.get(kind)
        if known is None:
            self._kinds[kind] = _Kind(now_secs + PERIOD_SECS, {text})
            return True
        if text in known.written:
            known.repeated.add(text)
        elif len(known.written) < DISTINCT:
            known.written.add(text)
            return True
        known.held += 1
        known.last = item
        return False

    def take_due(self, now_secs: float) -> list[tuple[Item, int]]:
        """Return the last of each kind whose minute is over, and how many were held back; forget the rest."""
        due = [name for name, kind in self._kinds.items() if kind.until_secs <= now_secs]
        if len(self._kinds) >= MAX_KINDS and not due:
            due = list(self._kinds)  # their minutes end early
        reported: list[tuple[Item, int]] = []
        for name in due:
            kind = self._kinds[name]
            if kind.last is None:
                del self._kinds[name]
                continue
            reported.append((kind.last, kind.held))
            self._kinds[name] = _Kind(now_secs + PERIOD_SECS, kind.repeated)
        return reported
