"""Reads the files of one control group at each sample; a missing file is tried again at growing intervals."""

from __future__ import annotations

import enum
import errno
import os
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import (
    NOT_OFFERED,
    DescriptorBudget,
    KeptFile,
    Unreadable,
    read_file,
)

Parsed = TypeVar("Parsed")

MAX_GAP_SAMPLES = 64


def read_processes(group: str) -> bytes:
    """Return the pids of the processes in a control group, one a line; empty for a threaded group.

    The kernel lists the pids of a threaded group only in the group above it (cgroup-v2.rst, "Threads").
    Raises OSError if unreadable.
    """
    try:
        return read_file(f"{group}/cgroup.procs")
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return b""


class Absence(enum.Enum):
    """The type of `ABSENT`, which stands for the value of a file that does not exist. That is no failure."""

    ABSENT = enum.auto()


ABSENT: Final = Absence.ABSENT


class GroupFile(KeptFile, Generic[Parsed]):
    """A file of a control group, with the value last read from it; a missing file is tried again later."""

    __slots__ = ("_data", "_files", "_gap", "_parse", "_retry_at", "_value", "_waits")

    def __init__(
        self, path: str, parse: Callable[[str], Parsed], files: GroupFiles, budget: DescriptorBudget
    ) -> None:
        super().__init__(path, budget)
        self._parse = parse
        self._files = files
        self._data: bytes | None = None
        self._value: Parsed | None = None
        self._gap = 1
        self._retry_at = 0
        self._waits = False  # whether the last value, if there is one, is returned without reading

    def value_or_absent(self, *, every: int = 1) -> Parsed | Absence | None:
        """Return the file's parsed value: `ABSENT` if there is no file, None if it cannot be read.

        With `every` > 1 the file is read once in that many samples, and the last value is returned in
        between. With `every` 0 it is read only once. A failure to read it is counted.
        """
        number = self._files.number
        if self._data is None:
            if number < self._retry_at:
                return ABSENT
        elif self._waits or (every != 1 and (not every or number % every)):
            return self._value
        try:
            data = self.read(rarely=every != 1)
            if data != self._data:
                self._value = self._parse(data.decode("ascii", "replace"))
                self._data = data
        except (OSError, ParseError) as error:
            self._data = None
            if isinstance(error, OSError) and error.errno in NOT_OFFERED:
                self._retry_at = number + self._gap
                self._gap = min(2 * self._gap, MAX_GAP_SAMPLES)
                return ABSENT
            kind = f"job_{os.path.basename(self.path).replace('.', '_')}"
            self._files.unreadable.add(kind, error)
            return None
        self._gap = 1
        return self._value

    def known(self, *, every: int = 1) -> Parsed | None:
        """Return the file's parsed value; None if it does not exist or cannot be read.

        `every` is as in `value_or_absent`.
        """
        value = self.value_or_absent(every=every)
        return None if value is ABSENT else value

    def wait(self, *, waits: bool) -> None:
        """Set whether later calls return the file's last value, if there is one, without reading it."""
        self._waits = waits

    @property
    def is_known(self) -> bool:
        """Return whether the last attempt to read the file succeeded."""
        return self._data is not None

    def is_same(self) -> bool:
        """Return whether the file still has the content last parsed. Raises OSError if it is unreadable."""
        return self._data is not None and self.read() == self._data

    def peek(self) -> Parsed | None:
        """Read the file and return its value, but keep the last one for later calls.

        None if the last attempt to read it failed. Raises OSError and ParseError if this one fails.
        """
        return None if self._data is None else self._parse(self.read().decode("ascii", "replace"))


class _NoFile(GroupFile[Any]):
    """Stands for a file that cannot exist."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def value_or_absent(self, *, every: int = 1) -> Absence:
        return ABSENT

    is_known = False

    def is_same(self) -> bool:
        return False

    def peek(self) -> None:
        return None


NO_FILE: Final[GroupFile[Any]] = _NoFile()


class GroupFiles:
    """The files of one control group, by path. Call `advance` at the beginning of each sample.

    A file that is missing, as its controller is off, is looked for again every `MAX_GAP_SAMPLES` samples or
    earlier.
    """

    def __init__(self, budget: DescriptorBudget, unreadable: Unreadable, *, first_number: int = 0) -> None:
        self._budget = budget
        self._files: dict[str, GroupFile[object]] = {}
        self.unreadable = unreadable
        self.number = first_number

    def advance(self) -> None:
        """Begin the next sample, which adds 1 to `number`."""
        self.number += 1

    def file(self, path: str, parse: Callable[[str], Parsed]) -> GroupFile[Parsed]:
        """Return an object to read the file at `path` repeatedly; `parse` makes its value from its text."""
        file = GroupFile(path, parse, self, self._budget)
        self._files[path] = file  # type: ignore[assignment]  # values are never read through this mapping
        return file

    def forget(self, directory: str) -> None:
        """Close the files of a removed directory, and remove them from this collection."""
        for path in [each for each in self._files if os.path.dirname(each) == directory]:
            self._files.pop(path).close()

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files.values():
            file.close()
