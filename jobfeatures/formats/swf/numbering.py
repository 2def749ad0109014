"""Numbers for the names of users, groups, programs, queues and partitions in SWF: pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from jobfeatures.formats.swf.fields import UNKNOWN
from jobfeatures.formats.swf.records import INTERACTIVE, KINDS, Names

NUMBER: Final = re.compile(r"[0-9]{1,19}\Z", re.ASCII)


class Numbers:
    """Numbers for names, from 1 in order of first use; names in `known` keep their numbers."""

    def __init__(self, known: Mapping[int, str] | None = None, *, are_numbers: bool = False) -> None:
        """`are_numbers`: a name that is not in `known` and consists of digits is its own number."""
        self.names: dict[str, int] = {name: number for number, name in (known or {}).items()}
        self.added: dict[str, int] = {}
        self._are_numbers = are_numbers
        self._most = max([0, *self.names.values()])

    def of(self, name: str | None) -> int:
        """Return the number of a name."""
        if name is None:
            return UNKNOWN
        if (found := self.names.get(name)) is not None:
            return found
        if self._are_numbers and NUMBER.match(name):
            found = self.names[name] = int(name)
            self._most = max(self._most, found)
        else:
            found = self._most = self._most + 1
            self.names[name] = self.added[name] = found
        return found

    def name_interactive(self, names: Iterator[str]) -> None:
        """Call queue 0 as the first of the queues that only interactive jobs are in, unless it has a name."""
        name = next(names, None)
        if name not in {None, str(INTERACTIVE)} and INTERACTIVE not in self.names.values():
            self.names.setdefault(name or "", INTERACTIVE)


Numbering = Mapping[str, Numbers]  # of one log, by kind


def numbering_of(names: Names | None) -> Numbering:
    """Return the numbers of a log, or none yet."""
    if names is None:
        return {kind: Numbers() for kind in KINDS}
    return {kind: Numbers(known, are_numbers=True) for kind, known in names.known.items()}
