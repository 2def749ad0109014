"""Limits how often log messages are repeated. Pure.

A message is written the first time, then once a minute with the number of its repetitions. The same holds for
messages of one kind, which differ only in numbers or arguments, beyond DISTINCT of them in a minute.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

PERIOD_SECS = 60.0
DISTINCT = 10  # different messages of one kind that are written in a period
MAX_KINDS = 256
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")

Item = TypeVar("Item")


def without_numbers(text: str) -> str:
    """Return a message with all numbers replaced by 0: messages that are then the same are of one kind."""
    return _NUMBERS.sub("0", text)


@dataclass(slots=True)
class _Kind(Generic[Item]):
    until_secs: float
    written: set[str]
    repeated: set[str] = field(default_factory=set)
    held: int = 0
    last: Item | None = None


class RepeatLimits(Generic[Item]):
    """Decides which log messages to write. Times are those of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind[Item]] = {}

    @property
    def is_holding(self) -> bool:
        """Return whether messages have been held back whose number has not been logged yet."""
        return any(kind.held for kind in self._kinds.values())

    def admit(self, kind: Hashable, text: str, item: Item, now_secs: float) -> bool:
        """Return whether to write a message now; if not, `item` is kept for `take_due`.

        `kind` is equal for messages that differ only in numbers; `text` is the message.
        """
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
        """Return the messages that are due now: of each kind the last one, and how many were held back.

        A kind is due a minute after one of its messages was written, or reported here.
        """
        due = [name for name, kind in self._kinds.items() if kind.until_secs <= now_secs]
        if len(self._kinds) >= MAX_KINDS and not due:
            due = list(self._kinds)  # too many kinds: end their minutes early
        reported: list[tuple[Item, int]] = []
        for name in due:
            kind = self._kinds[name]
            if kind.last is None:
                del self._kinds[name]
                continue
            reported.append((kind.last, kind.held))
            self._kinds[name] = _Kind(now_secs + PERIOD_SECS, kind.repeated)
        return reported
