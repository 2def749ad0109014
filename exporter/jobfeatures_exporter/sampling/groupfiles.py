"""The files of one control group, read again and again; what is not there is asked for more rarely."""

from __future__ import annotations

import enum
import errno
import os
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

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


class _File(KeptFile):
    """A file, what it said last and what that meant; and when to look for it again."""

    def __init__(self, path: str, budget: DescriptorBudget) -> None:
        super().__init__(path, budget)
        self.data: bytes | None = None
        self.value: Any = None
        self.gap = 1
        self.next_look = 0


class GroupFiles:
    """Reads files by path. A controller that is enabled later is noticed within `MAX_GAP_LOOKS` looks."""

    def __init__(self, budget: DescriptorBudget, unreadable: Unreadable, *, first_look: int = 0) -> None:
        self._budget = budget
        self._unreadable = unreadable
        self._files: dict[str, _File] = {}
        self._look = first_look

    def begin_look(self) -> None:
        """Count the looks at the group."""
        self._look += 1

    def read(self, path: str, parse: Callable[[str], Parsed], *, every: int = 1) -> Parsed | Absence | None:
        """Return what a file says; None where it cannot be read, which is counted.

        Where nothing much changes, it is read at `every` so many looks only, and
        said to be the same in between; 0 is never again once it has been read.
        """
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = _File(path, self._budget)
        elif self._look < file.next_look:
            return ABSENT
        elif every != 1 and file.data is not None and (not every or self._look % every):
            known: Parsed = file.value
            return known
        try:
            data = file.read()
            if data != file.data:
                file.value = parse(data.decode("ascii", "replace"))
                file.data = data
        except (OSError, ParseError) as error:
            file.data = None
            if isinstance(error, OSError) and error.errno in NOT_OFFERED:
                file.next_look = self._look + file.gap
                file.gap = min(2 * file.gap, MAX_GAP_LOOKS)
                return ABSENT
            self._unreadable.add(f"job_{os.path.basename(path).replace('.', '_')}", error)
            return None
        file.gap = 1
        value: Parsed = file.value
        return value

    def are_same(self, paths: Iterable[str], *, every: int) -> bool:
        """Tell whether files say what they said, which then was the look; never at each `every`th."""
        if (self._look + 1) % every == 0:
            return False
        try:
            for path in paths:
                file = self._files.get(path)
                if file is None or file.data is None or file.read() != file.data:
                    return False
        except OSError:  # the look that follows meets it again
            return False
        self._look += 1
        return True

    def read_known(self, path: str, parse: Callable[[str], Parsed], *, every: int = 1) -> Parsed | None:
        """Return what a file says; None where it is not there or cannot be read."""
        value = self.read(path, parse, every=every)
        return None if value is ABSENT else value

    def forget(self, directory: str) -> None:
        """Close the files of a directory that has gone."""
        for path in [each for each in self._files if os.path.dirname(each) == directory]:
            self._files.pop(path).close()

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files.values():
            file.close()
        self._files.clear()
