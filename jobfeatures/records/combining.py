"""Combines values: groups them by key; computes sum, minimum and maximum where some may be unknown. Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Number = TypeVar("Number", int, float)


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key as a list; keys and values are in the order of the pairs."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def sum_known(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of the values that are not None; None if all are."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def sum_all(values: Collection[Number | None]) -> Number | None:
    """Return the sum of the values; None if one of them is None, or if there are no values."""
    return None if None in values else sum_known(values)


def min_known(*values: Number | None) -> Number | None:
    """Return the smallest of the values that are not None; None if all are."""
    return min((value for value in values if value is not None), default=None)


def max_known(*values: Number | None) -> Number | None:
    """Return the largest of the values that are not None; None if all are."""
    return max((value for value in values if value is not None), default=None)
