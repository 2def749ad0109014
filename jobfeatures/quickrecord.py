"""Frozen records that are made by the hundred thousand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field, fields, make_dataclass
from itertools import repeat
from operator import attrgetter
from typing import Any, TypeVar

Record = TypeVar("Record", bound=type)
T = TypeVar("T")


def quickly_made(cls: Record) -> Record:
    """Return a frozen dataclass that the type checker alone keeps frozen: it is made in a third of the time.

    Its own way to set each field sets what can never be set again by a call; of fifty fields that takes
    longer than all that is done with the record afterwards.
    """
    like = [
        (each.name, Any, field(default=each.default, default_factory=each.default_factory))
        for each in fields(cls)
    ]
    made = make_dataclass(cls.__name__, like, kw_only=True, eq=False, repr=False)
    cls.__init__ = made.__init__  # type: ignore[misc]  # it sets the very same fields
    del cls.__setattr__, cls.__delattr__
    values = attrgetter(*(each.name for each in fields(cls)))
    in_order: Any = make_dataclass(
        cls.__name__, [(each.name, Any) for each in fields(cls)], eq=False, repr=False
    )
    cls._set_in_order = in_order.__init__  # type: ignore[attr-defined]

    def reduce(self: Any) -> tuple[Any, ...]:  # what a dataclass brings along takes twice as long
        return _made_again, (cls, values(self))

    cls.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    return cls


def made_of_columns(cls: type[T], count: int, columns: Mapping[str, Iterable[Any]]) -> list[T]:
    """Return records of columns, by field: calls would take five times as long.

    What has no column has its default; every field needs one of the two.
    """
    made = [cls.__new__(cls) for _ in range(count)]
    values = (columns.get(each.name) or repeat(each.default) for each in fields(cls))  # type: ignore[arg-type]
    deque(map(cls._set_in_order, made, *values), 0)  # type: ignore[attr-defined]
    return made


def _made_again(cls: Any, values: tuple[Any, ...]) -> Any:
    made = cls.__new__(cls)
    cls._set_in_order(made, *values)
    return made
