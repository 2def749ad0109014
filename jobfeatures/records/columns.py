"""Columns: one field's values of many records; and how to keep them in little memory. Pure."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any


def are_same(column: Sequence[Any]) -> bool:
    """Return whether all values of a non-empty column are equal and of one type: 1 is not the same as 1.0."""
    first = column[0]
    return column.count(first) == len(column) and len({*map(type, column)}) == 1


def pack(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Return columns, none of them empty, pickled as bytes: a third of the memory of their objects.

    A column of equal values is kept as one, unless they are tuples, whose items may differ in type.
    """
    shortened = {
        name: column[:1] if type(column[0]) is not tuple and are_same(column) else column
        for name, column in columns.items()
    }
    return pickle.dumps(shortened, pickle.HIGHEST_PROTOCOL)


def unpack(packed: bytes, count: int) -> dict[str, Sequence[Any]]:
    """Return the columns, of `count` values each, from bytes that `pack` has made in this process."""
    shortened = pickle.loads(packed)  # noqa: S301  # our own
    return {name: column * count if len(column) == 1 else column for name, column in shortened.items()}
