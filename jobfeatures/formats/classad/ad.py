"""What an ad is, in whichever form it was written. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1  # what an integer of the language can be


class Special(enum.Enum):
    """The two literals that are no value."""

    UNDEFINED = "undefined"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Expression:
    """What has to be evaluated to have a value, as it was written."""

    text: str


Value = str | int | float | bool | Special | Expression


@dataclass(frozen=True, slots=True)
class ClassAd:
    """One ad. `values` is by the name in lower case: names know no case."""

    values: Mapping[str, Value] = field(default_factory=dict)

    def value(self, name: str) -> Value:
        """Return what stands there, `Special.UNDEFINED` where nothing does."""
        return self.values.get(name.lower(), Special.UNDEFINED)

    def text(self, name: str) -> str | None:
        """Return a string, None where there is none of this name."""
        value = self.values.get(name.lower())
        return value if isinstance(value, str) else None

    def integer(self, name: str) -> int | None:
        """Return an integer, None where there is none of this name."""
        value = self.values.get(name.lower())
        return value if isinstance(value, int) and not isinstance(value, bool) else None
