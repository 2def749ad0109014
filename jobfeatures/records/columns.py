"""Columns of records' values, and how to keep many of them in little memory. Pure."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any


def are_same(column: Sequence[Any]) -> bool:
    """Return whether all values are the same, also in their type: 1 equals 1.0."""
    first = column[0]
    return column.count(first) == len(column) and len({*map(type, column)}) == 1


def pack(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Return columns that are not empty as bytes, a third of what their objects take.

    Of equal values one stays; not of tuples, whose values may differ in type.
    """
    told = {
        name: column[:1] if type(column[0]) is not tuple and are_same(column) else column
        for name, column in columns.items()
    }
    return pickle.dumps(told, pickle.HIGHEST_PROTOCOL)


def unpack(packed: bytes, count: int) -> dict[str, Sequence[Any]]:
    """Return the columns of `count` values each that `pack` made bytes of in this process or its files."""
    told = pickle.loads(packed)  # noqa: S301  # our own
    return {name: column * count if len(column) == 1 else column for name, column in told.items()}
