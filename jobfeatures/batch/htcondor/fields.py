"""Attributes of an ad as counts, times and texts; unknown, zero and broken are distinguished. Pure."""

from __future__ import annotations

from collections.abc import Callable

from jobfeatures.errors import Rejected
from jobfeatures.formats.classad.ad import ClassAd, Expression, Special, Value

Evaluate = Callable[[Expression, ClassAd], Value]
Note = Callable[[Rejected], None]


def ignore(_: Rejected) -> None:
    """Take no note."""


class Fields:
    """Reads one ad. What has no value is None; so is what has a wrong one, which is reported to `note`.

    Where `evaluate` is given expressions have values, else they have none.
    """

    def __init__(
        self, ad: ClassAd, *, source: str = "", note: Note = ignore, evaluate: Evaluate | None = None
    ) -> None:
        self.ad = ad
        self._source = source
        self._note = note
        self._evaluate = evaluate

    def _value(self, name: str) -> str | int | float | bool | None:
        value = self.ad.value(name)
        if isinstance(value, Expression) and self._evaluate is not None:
            value = self._evaluate(value, self.ad)
        return None if isinstance(value, Special | Expression) else value

    def _refuse(self, name: str, reason: str, value: object) -> None:
        self._note(Rejected(self._source, reason, field=name, text=str(value)))

    def text(self, name: str) -> str | None:
        """Return a string; an empty one says nothing."""
        value = self._value(name)
        if value is None or isinstance(value, str):
            return value or None
        self._refuse(name, "not a string", value)
        return None

    def integer(self, name: str) -> int | None:
        """Return a whole number, a real one rounded down."""
        value = self._value(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value // 1)
        if value is not None:
            self._refuse(name, "not a number", value)
        return None

    def count(self, name: str, unit: int = 1) -> int | None:
        """Return a number that is not negative, times `unit`."""
        value = self.integer(name)
        if value is not None and value < 0:
            self._refuse(name, "negative", value)
            return None
        return None if value is None else value * unit

    def epoch(self, name: str) -> int | None:
        """Return a time; 0 stands for one that has not come."""
        return self.count(name) or None

    def seconds(self, name: str) -> int | float | None:
        """Return a duration, with its fraction where it has one."""
        value = self._value(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return value
        if value is not None:
            self._refuse(name, "not a duration", value)
        return None

    def flag(self, name: str) -> bool | None:
        """Return a boolean."""
        value = self._value(name)
        if value is None or isinstance(value, bool):
            return value
        self._refuse(name, "not a boolean", value)
        return None
