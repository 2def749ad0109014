"""The files of one control group, read again and again; what is not there is asked for more rarely."""

from __future__ import annotations

import enum
import errno
import os
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import VANISHED, DescriptorBudget, KeptFile, Unreadable

Parsed = TypeVar("Parsed")

MAX_GAP_LOOKS = 64
# A file of pressure is there, and cannot be read, where the kernel was started without it.
NOT_OFFERED = VANISHED | {errno.EOPNOTSUPP}


class Absence(enum.Enum):
    """What is read of a file that is not there, which is no failure."""

    ABSENT = enum.auto()


ABSENT: Final = Absence.ABSENT


class GroupFile(KeptFile, Generic[Parsed]):
    """A file, what it said last and what that meant; and when to look for it again."""

    __slots__ = ("_data", "_files", "_gap", "_next_look", "_parse", "_value")

    def __init__(
        self, path: str, parse: Callable[[str], Parsed], files: GroupFiles, budget: DescriptorBudget
    ) -> None:
        super().__init__(path, budget)
        self._parse = parse
        self._files = files
        self._data: bytes | None = None
        self._value: Parsed | None = None
        self._gap = 1
        self._next_look = 0

    def said(self, *, every: int = 1) -> Parsed | Absence | None:
        """Return what it says; None where it cannot be read, which is counted.

        Where nothing much changes, it is read at `every` so many looks only, and
        said to be the same in between; 0 is never again once it has been read.
        """
        look = self._files.look
        if self._data is None:
            if look < self._next_look:
                return ABSENT
        elif every != 1 and (not every or look % every):
            return self._value
        try:
            data = self.read(rarely=every != 1)
            if data != self._data:
                self._value = self._parse(data.decode("ascii", "replace"))
                self._data = data
        except (OSError, ParseError) as error:
            self._data = None
            if isinstance(error, OSError) and error.errno in NOT_OFFERED:
                self._next_look = look + self._gap
                self._gap = min(2 * self._gap, MAX_GAP_LOOKS)
                return ABSENT
            kind = f"job_{os.path.basename(self.path).replace('.', '_')}"
            self._files.unreadable.add(kind, error)
            return None
        self._gap = 1
        return self._value

    def known(self, *, every: int = 1) -> Parsed | None:
        """Return what it says; None where it is not there or cannot be read."""
        value = self.said(every=every)
        return None if value is ABSENT else value

    @property
    def is_known(self) -> bool:
        """Return whether it was there when it was read last."""
        return self._data is not None

    def is_same(self) -> bool:
        """Tell whether it says what it said. Raises OSError."""
        return self._data is not None and self.read() == self._data


class _NoFile(GroupFile[Any]):
    """Stands for a file where there can be none."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def said(self, *, every: int = 1) -> Absence:
        return ABSENT

    is_known = False

    def is_same(self) -> bool:
        return False


NO_FILE: Final[GroupFile[Any]] = _NoFile()


class GroupFiles:
    """Files by path; who reads them counts the looks in `look`.

    A controller that is enabled later is noticed within `MAX_GAP_LOOKS` looks.
    """

    def __init__(self, budget: DescriptorBudget, unreadable: Unreadable, *, first_look: int = 0) -> None:
        self._budget = budget
        self._files: dict[str, GroupFile[object]] = {}
        self.unreadable = unreadable
        self.look = first_look

    def file(self, path: str, parse: Callable[[str], Parsed]) -> GroupFile[Parsed]:
        """Return a file that is to be read again and again."""
        file = GroupFile(path, parse, self, self._budget)
        self._files[path] = file  # type: ignore[assignment]  # nobody takes anything out again
        return file

    def forget(self, directory: str) -> None:
        """Close the files of a directory that has gone."""
        for path in [each for each in self._files if os.path.dirname(each) == directory]:
            self._files.pop(path).close()

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files.values():
            file.close()
