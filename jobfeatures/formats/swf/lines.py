"""Parses lines of SWF into jobs, strictly or tolerantly, and formats jobs as lines. Streaming, pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.swf.fields import FIELDS, IS_TIME, UNKNOWN, Number, SwfJob
from jobfeatures.formats.swf.header import Header, parse_comment, parse_later_comment

COLUMNS: Final = len(FIELDS)
CPU: Final = FIELDS.index("cpu_secs")  # an average over processors: of most lines the only fraction
LARGEST: Final = 2**63 - 1
MAX_DIGITS: Final = 40
MAX_LINE_CHARACTERS: Final = 4096
BOM: Final = "\ufeff"
LEAST: Final = 5  # fields without which a line says nothing
STATUS: Final = FIELDS.index("status")
_UNKNOWN_JOB = (UNKNOWN,) * COLUMNS

# What a tolerant reader repairs; each is counted under its name.
TOO_MANY = "more than 18 fields: the first 18 were taken"
TOO_FEW = "fewer than 18 fields: the others were taken as unknown"
NOT_WHOLE = "a number with decimals where a whole one belongs: it was rounded"
NO_ID = "a job's, user's or queue's number with decimals: it was taken as unknown"
NEGATIVE = "a negative number other than -1: it was taken as unknown"
_IDS = frozenset({"user", "group", "executable", "queue", "partition", "preceding"})


class SwfReader:
    """Reads one log in SWF. Iterate over the reader, only once, to get the jobs.

    `header` holds the comments at the top of the log from the beginning, others once they have been read. A
    strict reader raises ParseError at the first fault. A tolerant reader repairs what it can, and counts the
    repairs by kind in `repaired`. It skips other faulty lines, counts them in `skipped`, and stores the first
    `KEPT` of them in `rejected`.
    """

    KEPT = 1000

    def __init__(
        self, lines: Iterable[str], *, source: str = "", strict: bool = False, keep_text: bool = False
    ) -> None:
        """With `keep_text`, `texts` has for each job (the text before it, its line), in order."""
        self._lines = enumerate(lines, 1)
        self.texts: deque[tuple[str, str]] | None = deque() if keep_text else None
        self._between: list[str] = []  # comments and empty lines since the last job
        self._strict = strict
        self._first: tuple[int, str] | None = None
        self._has_jobs = False
        self.source = source
        self.header = Header(source)
        self.line = 0  # of the job given last
        self.repaired: dict[str, int] = {}
        self.skipped = 0
        self.rejected: list[Rejected] = []
        self._read_top()

    def __iter__(self) -> Iterator[SwfJob]:
        make = SwfJob._make
        if self._first is not None:
            number, line = self._first
            self._first = None
            yield from self._job(number, line)
        for number, line in self._lines:
            fields = line.split()
            if len(fields) == COLUMNS and line.isascii() and "_" not in line:  # int() reads 1_0 and ١ too
                cpu = fields[CPU]
                try:
                    is_decimal = "." in cpu and len(cpu) <= MAX_DIGITS and len(line) <= MAX_LINE_CHARACTERS
                    if is_decimal:
                        fields[CPU] = "0"
                    values: list[Number] = list(map(int, fields))
                    if is_decimal:
                        values[CPU] = float(cpu)
                except ValueError:
                    pass
                else:
                    if min(values) >= UNKNOWN and max(values) <= LARGEST and not -1 < values[CPU] < 0:
                        self.line = number
                        if self.texts is not None:
                            self._keep(line)
                        yield make(values)
                        continue
            yield from self._job(number, line)

    def _read_top(self) -> None:
        """Read up to the first line that is neither empty nor a comment."""
        for number, line in self._lines:
            text = line.removeprefix(BOM).strip()
            if not text or text.startswith(";"):
                self._pass_over(text, line, number)
            else:
                self._first = (number, line.removeprefix(BOM))
                self._has_jobs = True
                return

    def _pass_over(self, text: str, line: str, number: int) -> None:
        """Process a comment or an empty line."""
        if self.texts is not None:
            self._between.append(line)
        if text:
            add = parse_later_comment if self._has_jobs else parse_comment
            add(text, self.header, number)

    def _keep(self, line: str) -> None:
        if self.texts is not None:
            self.texts.append(("".join(self._between), line))
            self._between.clear()

    @property
    def trailing(self) -> str:
        """Return the comments and empty lines since the last job that was read; "" unless `keep_text`."""
        return "".join(self._between)

    def _job(self, number: int, line: str) -> Iterator[SwfJob]:
        """Return the job of a line that is not plain; none for a comment, or one that is skipped."""
        text = line.strip()
        if not text or text.startswith(";"):
            self._pass_over(text, line, number)
            return
        try:
            job, repairs = parse_job(text, source=self.source, line=number)
        except ParseError as error:
            if self._strict:
                raise
            self.skipped += 1
            if len(self.rejected) < self.KEPT:
                self.rejected.append(Rejected.from_error(error))
            return
        if repairs and self._strict:
            raise ParseError(repairs[0].partition(":")[0], source=self.source, line=number, text=text)
        for repair in repairs:
            self.repaired[repair] = self.repaired.get(repair, 0) + 1
        self.line = number
        self._keep(line)
        yield job


def parse_job(text: str, *, source: str = "", line: int = 0) -> tuple[SwfJob, list[str]]:
    """Parse one line into a job; also return texts that describe the repairs that were needed.

    Source: The Standard Workload Format, "The Data Fields": 18 numbers, such as ``15 599850 192180 3477 4 -1
    -1 4 53940 -1 1 12 12 -1 -1 -1 -1 -1``. Raises ParseError if one of the first five fields or the status is
    missing or not a number. Any other field may be unknown.
    """
    words = text.split(None, COLUMNS)
    if len(text) > MAX_LINE_CHARACTERS:
        raise ParseError(
            f"line exceeds {MAX_LINE_CHARACTERS} characters", source=source, line=line, text=text
        )
    repairs = []
    if len(words) > COLUMNS:
        repairs.append(TOO_MANY)
        words = words[:COLUMNS]
    elif len(words) < LEAST:
        raise ParseError(f"line has {len(words)} fields, not 18", source=source, line=line, text=text)
    elif len(words) < COLUMNS:
        repairs.append(TOO_FEW)
    values: list[Number] = list(_UNKNOWN_JOB)
    for place, word in enumerate(words):
        value = parse_number(word)
        if value is None and len(words) == COLUMNS and place >= LEAST and place != STATUS:
            repairs.append(f"{FIELDS[place]} is no number: it was taken as unknown")
            value = UNKNOWN
        if value is None:
            raise ParseError("not a number", source=source, line=line, field=FIELDS[place], text=word)
        name = FIELDS[place]
        if not IS_TIME[place] and isinstance(value, float):
            if not value.is_integer():
                if name in {"number", "status"}:
                    raise ParseError("not a whole number", source=source, line=line, field=name, text=word)
                repairs.append(f"{name}: {NO_ID if name in _IDS else NOT_WHOLE}")
                value = UNKNOWN if name in _IDS else value
            value = round(value)
        if value < 0 and value != UNKNOWN:
            repairs.append(f"{name}: {NEGATIVE}")
            value = UNKNOWN
        values[place] = value
    return SwfJob._make(values), repairs


def parse_number(word: str) -> Number | None:
    """Parse a number in digits 0 to 9, with or without sign, decimals and exponent: 12, -1, 0.5, 1e3.

    An integer without decimals or exponent becomes an int, others a float. Returns None for any other text,
    such as ``inf``, ``nan`` or ``1_0``; for more than 40 characters; and beyond ±(2⁶³ − 1).
    """
    if not word.isascii() or "_" in word or len(word) > MAX_DIGITS:
        return None
    try:
        value: Number = int(word)
    except ValueError:
        try:
            value = float(word)
        except ValueError:
            return None
        if not math.isfinite(value):
            return None
    return value if abs(value) <= LARGEST else None


def format_job(job: SwfJob) -> str:
    """Format a job as a line without a newline; only numbers that are not whole have decimals."""
    return "%s %s %s %s %s %s %s %s %s %s %s %s %s %s %s %s %s %s" % job  # noqa: UP031  # twice as fast
