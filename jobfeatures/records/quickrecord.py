"""Makes frozen dataclasses that are fast to construct, for programs that create hundreds of thousands."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, make_dataclass
from functools import cache
from itertools import repeat
from operator import attrgetter
from typing import Any, TypeVar

Record = TypeVar("Record", bound=type)
T = TypeVar("T")


def quickly_made(cls: Record) -> Record:
    """Make a frozen dataclass three times faster to construct: a class decorator.

    Afterwards only the type checker forbids changes of fields. The `__init__` of a frozen dataclass calls
    `object.__setattr__` for each field; with fifty fields that takes longer than all later use of the record.
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
    """Construct `count` records of a class from one column of values per field, 5 times faster than by calls.

    Fields without a column get their default; each field needs a column or a default.
    """
    kind: Any = cls
    made = [*map(object.__new__, repeat(kind, count))]
    known = {name: column for name, column in columns.items() if column and name in kind.__slots__}
    deque(map(_setter_of(kind, (*known,)), made, *known.values()), 0)
    return made


@cache
def _setter_of(cls: Any, names: tuple[str, ...]) -> Callable[..., None]:
    """Return a function that sets the named fields of a record in order, and the others to defaults."""
    ways = {each.name: each.default for each in fields(cls)}
    lines = [f" self.{name} = {name if name in names else 'ways_' + name}" for name in ways]
    given: dict[str, Any] = {f"ways_{name}": default for name, default in ways.items()}
    exec(f"def setter(self, {', '.join(names)}):\n" + "\n".join(lines), given)  # noqa: S102  # like dataclasses
    setter: Callable[..., None] = given["setter"]
    return setter


def _made_again(cls: Any, values: tuple[Any, ...]) -> Any:
    made = cls.__new__(cls)
    cls._set_in_order(made, *values)
    return made
