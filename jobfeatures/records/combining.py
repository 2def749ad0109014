"""Values put together: those of one key in a list; the sum and the largest of those known. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Number = TypeVar("Number", int, float)


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key, all in the order of the pairs."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def sum_known(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of the values that are known, None if none is."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def max_known(*values: Number | None) -> Number | None:
    """Return the largest of the values that are known, None if none is."""
    return max((value for value in values if value is not None), default=None)
