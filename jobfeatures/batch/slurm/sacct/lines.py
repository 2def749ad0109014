"""Splits lines of ``sacct -P`` into rows with as many fields as the header has names.

sacct escapes nothing: a name may contain the delimiter and newlines. A row with too many fields is repaired
if only one column is free text. A row on several lines is joined if none of these lines looks like a row
itself. A repaired row with anything unreadable is rejected, as are all other lines that make no row. A log
made with ``--json``, or with a ``--delimiter`` that no name has, loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from jobfeatures.errors import ParseError

BATCH = 256  # lines; a few batches fit into a processor's cache
MAX_PIECES = 64  # lines per row
KNOWN = frozenset(
    {
        *("Account", "AllocCPUS", "AllocNodes", "AllocTRES", "CPUTime", "CPUTimeRAW", "Cluster"),
        *("Elapsed", "ElapsedRaw", "Eligible", "End", "ExitCode", "GID", "Group", "JobID"),
        *("JobIDRaw", "JobName", "MaxRSS", "NCPUS", "NNodes", "NTasks", "NodeList", "Partition"),
        *("Priority", "QOS", "ReqCPUS", "ReqMem", "ReqNodes", "ReqTRES", "Reservation", "Start"),
        *("State", "Submit", "Suspended", "SystemCPU", "Timelimit", "TimelimitRaw", "TotalCPU"),
        *("UID", "User", "UserCPU"),
    }
)
FREE_TEXT = frozenset(
    {
        *("AdminComment", "Comment", "Constraints", "Container", "Extra", "JobName", "StdErr"),
        *("StdIn", "StdOut", "SubmitLine", "SystemComment", "WCKey", "WorkDir"),
    }
)
_HEADER = re.compile(r"([A-Za-z]{2,32})([^A-Za-z0-9 ]{1,8})[A-Za-z]")


def parse_header(line: str) -> tuple[str, list[str]]:
    """Return the delimiter and the column names. Raises ParseError if the line is not a header."""
    line = line.lstrip("\ufeff").rstrip("\r\n")
    match = _HEADER.match(line)
    names = line.split(match[2]) if match else []
    if match is None or not {"JobID", "JobIDRaw"} & set(names) or len(KNOWN & set(names)) < 2:
        raise ParseError("first line must be sacct's header of field names", line=1, text=line)
    return match[2], names


def is_header(line: str) -> bool:
    """Return whether a line is sacct's header of field names."""
    try:
        parse_header(line)
    except ParseError:
        return False
    return True


class Rows:
    """Splits a log's lines after the header into batches of rows.

    The errors of lines that make no row are in `rejected`, the line numbers of repaired rows in `repaired`.
    """

    def __init__(self, lines: Iterable[str], delimiter: str, names: Sequence[str]) -> None:
        self.rejected: list[ParseError] = []
        self.repaired: set[int] = set()  # lines of this batch that had more fields
        self._lines = iter(lines)
        self._delimiter = delimiter
        self._names = list(names)
        free = [place for place, name in enumerate(names) if name in FREE_TEXT]
        self._free = frozenset(free)
        self._mendable = free[0] if len(free) == 1 else None
        self._has_other_columns = False  # behind a further header, of another log

    def batches(self) -> Iterator[tuple[Sequence[int], Sequence[Sequence[str]]]]:
        """Yield, for each batch of rows, line numbers (the header has 1) and a list of texts per column."""
        number = 2
        kept: list[tuple[int, str]] = []
        while True:
            lines = list(islice(self._lines, BATCH))
            columns = None if kept else self._split(lines)
            if columns is not None:
                yield range(number, number + len(lines)), columns
            else:
                kept += enumerate((line.rstrip("\r\n") for line in lines), number)
                numbers, rows, kept = self._mend(kept, is_end=not lines)
                yield numbers, list(zip(*rows, strict=True))
            if not lines:
                return
            number += len(lines)

    def _split(self, lines: Sequence[str]) -> list[list[str]] | None:
        """Return the fields of `lines` by column if each line is a complete row, else None.

        Splits all lines at once, with a newline as an additional last column.
        """
        text = "".join(lines)
        if not text.endswith("\n") or "\r" in text or "JobID" in text or self._has_other_columns:
            return None
        mark, width = self._delimiter, len(self._names) + 1
        fields = text.replace("\n", f"{mark}\n{mark}").split(mark)
        if len(fields) != len(lines) * width + 1 or fields[width - 1 :: width].count("\n") != len(lines):
            return None
        return [fields[place:-1:width] for place in range(width - 1)]

    def _mend(
        self, lines: list[tuple[int, str]], *, is_end: bool
    ) -> tuple[list[int], list[list[str]], list[tuple[int, str]]]:
        """Return the complete rows' line numbers and fields, and the lines of a last row not complete yet."""
        numbers: list[int] = []
        rows: list[list[str]] = []
        place = 0
        while place < len(lines):
            number, line = lines[place]
            if (begins := "JobID" in line and is_header(line)) or self._has_other_columns:
                if begins:
                    self._has_other_columns = parse_header(line) != (self._delimiter, self._names)
                if self._has_other_columns and line:
                    what = "further header with other columns" if begins else "row of a further header"
                    reason = f"{what}: convert it and its rows as a log of their own"
                    self.rejected.append(ParseError(reason, line=number, text=line))
                place += 1
                continue
            fields = line.split(self._delimiter)
            missing = len(self._names) - len(fields)
            pieces = 1
            if missing > 0 and line:
                if not is_end and len(lines) - place < MAX_PIECES:
                    return numbers, rows, lines[place:]
                pieces, joined = self._join([each for _, each in lines[place : place + MAX_PIECES]])
                fields = joined or fields
            elif missing < 0 and self._mendable is not None:
                self.repaired.add(number)
                end = self._mendable - missing + 1
                fields[self._mendable : end] = [self._delimiter.join(fields[self._mendable : end])]
            place += pieces
            if len(fields) == len(self._names):
                numbers.append(number)
                rows.append(fields)
            elif line:
                what = "more" if missing < 0 else "fewer"
                self.rejected.append(ParseError(f"{what} fields than the header has", line=number, text=line))
        return numbers, rows, []

    def _join(self, lines: Sequence[str]) -> tuple[int, list[str] | None]:
        """Return on how many of `lines` the first row is, and its fields.

        The row must break in a free-text column, and ends with the line that has all missing fields. Returns
        (1, None) where a line in between could be a row of its own, which may be forged.
        """
        first = lines[0].split(self._delimiter)
        cut = len(first) - 1
        if cut not in self._free:
            return 1, None
        wanted = len(self._names) - cut
        for count, line in enumerate(lines[1:], 2):
            fields = line.split(self._delimiter)
            if len(fields) == len(self._names):
                break
            if len(fields) == wanted:
                text = "\n".join([first[cut], *lines[1 : count - 1], fields[0]])
                return count, [*first[:cut], text, *fields[1:]]
        return 1, None
