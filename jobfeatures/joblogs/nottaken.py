"""Counts fields of a log's job records that are not read, or that cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import Notes

V = TypeVar("V")
NOTHING = frozenset({"", "0", "NONE", "none", "Unknown", "UNKNOWN", "N/A", "(null)", "undefined"})


class TrackingDict(dict[str, V]):
    """A dictionary of a record's values that remembers, in `names`, which of its keys were looked up."""

    def __init__(self, values: Any = ()) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> V:
        """Return a value, and note that its name was looked up."""
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value or the default, and note that its name was looked up."""
        self.names.add(name)
        return super().get(name, default)

    def left(self) -> Iterator[str]:
        """Yield the names of values that hold information (`holds_information`) but were never looked up."""
        return (
            getattr(name, "written", name)
            for name, value in self.items()
            if name not in self.names and holds_information(value)
        )


def holds_information(value: Any) -> bool:
    """Return whether a value holds information: it is not empty, zero, −1 or one of the words in NOTHING.

    A list or an object holds information if one of its values does.
    """
    if isinstance(value, dict):
        if value.get("set") is False:
            return value.get("infinite") is True
        return any(map(holds_information, value.values()))
    if isinstance(value, list):
        return any(map(holds_information, value))
    if isinstance(value, str):
        return value not in NOTHING and value.strip("0.") != ""
    return bool(value) and value != -1


def count_not_taken(notes: Notes, *asked: TrackingDict[Any]) -> None:
    """Count, in `notes.not_taken`, the values of records that hold information but were not looked up."""
    for each in asked:
        notes.not_taken.update(each.left())


def without_unreadable(
    make: Callable[[], V], values: dict[str, Any], needed: Collection[str], notes: Notes
) -> V:
    """Return what `make` makes of the dictionary `values`, without the values that it cannot read.

    If `make` raises ParseError, the value that the error names is removed and counted in `notes`, and `make`
    is called again. ParseError is passed on if the value is among `needed`, or is not in `values`. Nested
    values are named by their paths, such as ``time.elapsed``.
    """
    missed: list[tuple[str, Any]] = []
    while True:
        try:
            found = make()
        except ParseError as error:
            place, name = values, error.field
            while name not in place and isinstance(inner := place.get(name.partition(".")[0]), dict):
                place, name = inner, name.partition(".")[2]
            if error.field in needed or name not in place:
                raise
            missed.append((error.field, error.text or place[name]))
            del place[name]
        else:
            for field, text in missed:
                notes.count_unread(field, str(text))
            return found


def count_unreadable(faults: Iterable[Rejected], needed: Collection[str], notes: Notes) -> Rejected | None:
    """Count the unreadable values of one record in `notes`, and return None.

    If one of them is `needed`, nothing is counted, and its fault is returned.
    """
    found = {each.field: each for each in faults}
    fault = next((each for name, each in found.items() if name in needed), None)
    for name, each in found.items() if fault is None else ():
        notes.count_unread(name, each.text)
    return fault
