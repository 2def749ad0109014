"""Defines a ClassAd and its values, independent of the form in which it was written. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1  # range of ClassAd integers


class Special(enum.Enum):
    """Special values of attributes: the literals UNDEFINED and ERROR, and TOO_LONG.

    TOO_LONG stands for a value that is too long to be read.
    """

    UNDEFINED = "undefined"
    ERROR = "error"
    TOO_LONG = "too long"


@dataclass(frozen=True, slots=True)
class Expression:
    """The text of an expression that is not a literal; it is not evaluated."""

    text: str


class Name(str):
    """An attribute's name in lower case, as HTCondor compares names; `written` is the original spelling."""

    __slots__ = ("written",)
    written: str


@lru_cache(maxsize=4096)
def name_of(written: str) -> Name:
    """Return an attribute's name in lower case, the key under which `ClassAd.values` holds it."""
    name = Name(written.lower())
    name.written = written
    return name


Value = str | int | float | bool | Special | Expression


@dataclass(frozen=True, slots=True)
class ClassAd:
    """One ClassAd: its values by attribute name in lower case, because HTCondor ignores case."""

    values: Mapping[str, Value] = field(default_factory=dict)

    def value(self, name: str) -> Value:
        """Return an attribute's value, `Special.UNDEFINED` if it is absent."""
        return self.values.get(name.lower(), Special.UNDEFINED)

    def text(self, name: str) -> str | None:
        """Return a string attribute, None if it is absent or of another type."""
        value = self.values.get(name.lower())
        return value if isinstance(value, str) else None

    def integer(self, name: str) -> int | None:
        """Return an integer attribute, None if it is absent or of another type."""
        value = self.values.get(name.lower())
        return value if isinstance(value, int) and not isinstance(value, bool) else None
