"""Attributes of an ad as counts, times and texts; unknown, zero and malformed are distinguished. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobfeatures.batch.basics import Note
from jobfeatures.errors import Rejected
from jobfeatures.formats.classad.ad import ClassAd, Expression, Special, Value

Evaluate = Callable[[Expression, ClassAd], Value]


class Fields:
    """Reads one ad. An attribute without a value is None; so is a malformed one, which goes to `note`.

    Expressions have no value without `evaluate`.
    """

    def __init__(
        self, ad: ClassAd, *, source: str = "", note: Note = lambda _: None, evaluate: Evaluate | None = None
    ) -> None:
        self.ad = ad
        self._source = source
        self._note = note
        self._evaluate = evaluate

    def _value(self, name: str, is_valid: Callable[[Any], bool], reason: str) -> Any:
        """Return a value; report an invalid one with `reason`, and return None."""
        value = self.ad.value(name)
        if isinstance(value, Expression) and self._evaluate is not None:
            value = self._evaluate(value, self.ad)
        if isinstance(value, Special | Expression):
            return None
        if is_valid(value):
            return value
        self._note(Rejected(self._source, reason, field=name, text=str(value)))
        return None

    def text(self, name: str) -> str | None:
        """Return a string; None for an empty one."""
        return self._value(name, lambda value: isinstance(value, str), "not a string") or None

    def integer(self, name: str) -> int | None:
        """Return a whole number; reals are rounded down."""
        value = self._value(name, _is_number, "not a number")
        return None if value is None else int(value // 1)

    def count(self, name: str, unit: int = 1) -> int | None:
        """Return a non-negative number, multiplied by `unit`."""
        value = self.integer(name)
        if value is not None and value < 0:
            self._note(Rejected(self._source, "negative", field=name, text=str(value)))
            return None
        return None if value is None else value * unit

    def epoch(self, name: str) -> int | None:
        """Return a time (epoch); None for 0, a future event."""
        return self.count(name) or None

    def seconds(self, name: str) -> int | float | None:
        """Return a duration in seconds, with its fraction."""
        value: int | float | None = self._value(
            name, lambda value: _is_number(value) and value >= 0, "not a duration"
        )
        return value

    def flag(self, name: str) -> bool | None:
        """Return a boolean."""
        value: bool | None = self._value(name, lambda value: isinstance(value, bool), "not a boolean")
        return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
