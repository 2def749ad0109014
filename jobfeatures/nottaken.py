"""Finds the fields of a log's job records that were not read, and so are lost in a conversion. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from jobfeatures.joblog import Notes

V = TypeVar("V")
NOTHING = frozenset({"", "0", "NONE", "none", "Unknown", "UNKNOWN", "N/A", "(null)", "undefined"})


class Asked(dict[str, V]):
    """Values by name; it remembers the names that were read."""

    def __init__(self, values: Any = ()) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> V:
        """Return a value."""
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        self.names.add(name)
        return super().get(name, default)

    def left(self) -> Iterator[str]:
        """Yield the names of values that are not empty and were not read."""
        return (name for name, value in self.items() if name not in self.names and says_something(value))


def says_something(value: Any) -> bool:
    """Return whether a value is neither empty, zero, nor in NOTHING, and not made of such values alone."""
    if isinstance(value, dict):
        if value.get("set") is False:
            return value.get("infinite") is True
        return any(map(says_something, value.values()))
    if isinstance(value, list):
        return any(map(says_something, value))
    if isinstance(value, str):
        return value not in NOTHING and value.strip("0.") != ""
    return bool(value) and value != -1


def count_not_taken(notes: Notes | None, *asked: Asked[Any]) -> None:
    """Count the values that were not read."""
    if notes is not None:
        for each in asked:
            notes.not_taken.update(each.left())
