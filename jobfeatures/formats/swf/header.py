"""Parses and formats the header comments of SWF. Source: The Standard Workload Format, "Header Comments"."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from jobfeatures.errors import ParseError

T = TypeVar("T")

TEXTS: Final = (
    "Version", "Computer", "Installation", "Acknowledge", "Information", "Conversion", "MaxJobs",
    "MaxRecords", "Preemption", "UnixStartTime", "TimeZone", "TimeZoneString", "StartTime", "EndTime",
    "MaxNodes", "MaxProcs", "MaxRuntime", "MaxMemory", "AllowOveruse", "MaxQueues", "Queues", "Queue",
    "MaxPartitions", "Partitions", "Partition", "Note",
)  # fmt: skip
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # in any language
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
UTC_NAMES: Final = frozenset({"UTC", "GMT", "UCT", "Z"})
LABELS: Final = {label.lower(): label for label in TEXTS}
_LABEL = re.compile(r";([ \t]*)([A-Za-z][A-Za-z0-9_]{0,40})[ \t]*:[ \t]*(.*)\Z")
_SIZE = re.compile(r"([0-9]{1,18})[ \t]*(?:\((.*)\))?\s*\Z", re.DOTALL)
_NUMBERED = re.compile(r"(-?[0-9]{1,9})(?:[ \t]+(?:-[ \t]+)?|\Z)(\S+)?")
# "the exact meaning is determined by a header comment": requested times are CPU times of a processor.
_CPU_TIME = re.compile(
    r"\brequest(?:ed)?\s+(?:run\s?)?times?\s+(?:\w+\s+){0,2}?(?:is|are|means?|denotes?)\s"
    r"(?!\s*(?:not|no|un\w+)\b)(?:(?!\bwall|\.\s).)*?\bcpu\b",
    re.IGNORECASE | re.DOTALL,
)
_DATE = re.compile(
    r"([A-Z][a-z]{2}) ([A-Z][a-z]{2}) +([0-9]{1,2}) ([0-9]{2}:[0-9]{2}:[0-9]{2}) (\S+) ([0-9]{4})\Z"
)


class Preemption(enum.Enum):
    """The values of the comment Preemption: whether jobs were swapped out, and how the log shows it."""

    NO = "No"
    YES = "Yes"  # each part is a line of its own
    DOUBLE = "Double"  # a line that sums the job up, then its parts
    TIME_SLICING = "TS"


@dataclass(frozen=True, slots=True)
class Size:
    """A number of nodes or processors from a header; `parts`, if listed, has it for each partition."""

    total: int
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """One header comment: a label and a value of one or more lines, or free text with an empty label."""

    label: str
    value: str
    line: int = field(default=0, compare=False)


@dataclass(slots=True)
class Header:
    """The header comments of a log in SWF, in order. A value is parsed only when its method is called."""

    source: str = ""
    comments: list[Comment] = field(default_factory=list)
    time_zero: str | None = field(default=None, compare=False, repr=False)  # once it was told again

    def values(self, label: str) -> list[Comment]:
        """Return all comments that have this label."""
        return [each for each in self.comments if each.label == label]

    def value(self, label: str) -> Comment | None:
        """Return the last comment that has this label, or None. A later comment corrects earlier ones."""
        found = self.values(label)
        return found[-1] if found else None

    def readable(self, read: Callable[[Header], T | None]) -> T | None:
        """Return `read(self)`, or None if it raises ParseError; `check` reports such errors."""
        try:
            return read(self)
        except ParseError:
            return None

    def size(self, label: str) -> Size | None:
        """Return the value of the comment `label`, MaxNodes or MaxProcs.

        Returns None if it is absent, empty, ``N/A``, ``unknown`` or −1. Raises ParseError if it is no number.
        """
        comment = self.value(label)
        if comment is None or comment.value.upper() in {"N/A", "", "-1", "UNKNOWN"}:
            return None
        match = _SIZE.match(comment.value)
        if match is None:
            raise self._error(comment, "must be a number, or one with its parts, such as 128 (64, 64)")
        words = (match[2] or "").replace(",", " ").split()
        are_parts = all(word.isascii() and word.isdigit() and len(word) < 19 for word in words)
        return Size(int(match[1]), tuple(map(int, words)) if are_parts else ())

    def preemption(self) -> Preemption | None:
        """Return the value of the comment Preemption, None if it is absent; ParseError for an unknown one."""
        comment = self.value("Preemption")
        if comment is None:
            return None
        for each in Preemption:
            if comment.value.strip().lower() == each.value.lower():
                return each
        raise self._error(comment, "must be No, Yes, Double or TS")

    def requests_cpu_time(self) -> bool:
        """Return whether a comment says that requested times are average CPU times, not wall clock times."""
        return any(_CPU_TIME.search(each.value) for each in self.comments if each.label in {"", "Note"})

    def start_secs(self) -> int | None:
        """Return the log's time zero in epoch seconds, from UnixStartTime; None without this comment.

        Raises ParseError if the comment is not a number.
        """
        comment = self.value("UnixStartTime")
        if comment is None:
            return None
        if not re.fullmatch(r"[0-9]{1,12}", comment.value):
            raise self._error(comment, "not seconds since the epoch")
        return int(comment.value)

    def zone(self) -> tzinfo | None:
        """Return the log's time zone from the comment TimeZoneString, else from the deprecated TimeZone.

        Returns None without these comments. Raises ParseError for an unknown zone.
        """
        comment = self.value("TimeZoneString")
        if comment is not None:
            try:
                return ZoneInfo(comment.value)
            except (KeyError, OSError, ValueError, RecursionError):  # the last: hundreds of slashes
                raise self._error(comment, "no such time zone") from None
        comment = self.value("TimeZone")
        if comment is None:
            return None
        match = re.match(r"([+-]?[0-9]{1,6})(?:\s|#|\Z)", comment.value)
        if match is None or abs(int(match[1])) >= 86400:
            raise self._error(comment, "not a number of seconds east of Greenwich")
        return timezone(timedelta(seconds=int(match[1])))

    def wall_clock(self, secs: float) -> datetime | None:
        """Convert a time of the log (seconds since its time zero) to local date and time.

        Returns None if the header has no start or no time zone. Source: "Usage of the TimeZone and
        TimeZoneString fields": localtime of UnixStartTime + time.
        """
        start_secs, zone = self.start_secs(), self.zone()
        if start_secs is None or zone is None:
            return None
        return datetime.fromtimestamp(start_secs + secs, zone)

    def numbered(self, label: str) -> dict[int, str]:
        """Return the names, by number, that the header gives to queues or partitions.

        `label` is the label of the comments that do so, Queue or Partition. Raises ParseError for a comment
        that does not begin with a number.
        """
        found: dict[int, str] = {}
        for comment in self.values(label):
            match = _NUMBERED.match(comment.value)
            if match is None:
                raise self._error(comment, "does not begin with a number")
            found[int(match[1])] = match[2] or ""
        return found

    def _error(self, comment: Comment, reason: str) -> ParseError:
        return ParseError(
            reason, source=self.source, line=comment.line, field=comment.label, text=comment.value
        )


def parse_comment(line: str, header: Header, number: int = 0) -> None:
    """Add one comment line, which begins with ``;``, to a header; `number` is the line's number in the log.

    A comment has a label, such as ``; MaxNodes: 184 ( 6, 171, 7)``; the label may be indented. A line that is
    indented by more than one blank and has no known label continues the comment before it. Any other line
    without a label is kept as free text.
    """
    body = line.strip()
    match = _LABEL.match(body)
    if match is not None:
        indent, word, value = match.groups()
        label = LABELS.get(word.lower())
        if label is None and len(indent) <= 1 and "\t" not in indent and word[0].isupper():
            label = word  # one of the log's own
        if label is not None and not value.startswith("//"):
            header.comments.append(Comment(label, value.strip(), number))
            return
    text = body[1:]
    is_indented = text.startswith("\t") or (text[:1] == " " and not text[:2].strip())
    if is_indented and text.strip() and header.comments:
        last = header.comments[-1]
        if last.label:
            header.comments[-1] = Comment(last.label, f"{last.value}\n{text.strip()}", last.line)
            return
    header.comments.append(Comment("", text.strip(), number))


def parse_later_comment(line: str, header: Header, number: int = 0) -> None:
    """Add a comment line that stands behind jobs. Raises ParseError if another log begins with it."""
    parse_comment(line, header, number)
    comment = header.comments[-1]
    if comment.label != "UnixStartTime":
        return
    if header.time_zero is None:
        earlier = (each for each in reversed(header.comments[:-1]) if each.label == comment.label)
        header.time_zero = next(earlier, comment).value
    if comment.value != header.time_zero:
        reason = "another log begins here, with a time zero of its own: each log needs its own file"
        raise ParseError(reason, source=header.source, line=number, field=comment.label, text=comment.value)


def format_header(header: Header) -> list[str]:
    """Return the lines of a header, from which `parse_comment` reads an equal header."""
    lines = []
    for each in header.comments:
        if not each.label:
            lines.append(f"; {each.value}".rstrip())
            continue
        first, *more = each.value.split("\n")
        lines.append(f"; {each.label}: {first}".rstrip())
        lines += [f";\t\t{line}" for line in more]
    return lines


def format_date(moment: datetime) -> str:
    """Format a date as date(1) prints it, the form of the header comments StartTime and EndTime."""
    day, month = DAYS[moment.weekday()], MONTHS[moment.month - 1]
    return f"{day} {month} {moment.day:02} {moment:%H:%M:%S} {moment.tzname()} {moment.year}"


class HeaderTime(NamedTuple):
    """A date and time of day in a header, with the abbreviation of its time zone.

    Abbreviations of time zones are ambiguous, except UTC.
    """

    clock: datetime
    zone: str

    def is_at(self, meant: datetime) -> bool:
        """Return whether this date, taken as one in the zone of `meant` or in UTC, is the time `meant`."""
        if self.zone in UTC_NAMES:
            return abs((self.clock.replace(tzinfo=UTC) - meant).total_seconds()) < 1
        others = {(meant + timedelta(days=days)).tzname() for days in (-183, 183)} - {meant.tzname()}
        return abs((self.clock - meant.replace(tzinfo=None)).total_seconds()) < 1 and self.zone not in others


def parse_date(comment: Comment) -> HeaderTime:
    """Parse a StartTime or EndTime comment, such as ``Tue Feb 21 18:44:15 IST 2006``. Raises ParseError."""
    match = _DATE.match(comment.value.strip())
    if match is not None and match[2] in MONTHS:
        hour, minute, second = map(int, match[4].split(":"))
        month = MONTHS.index(match[2]) + 1
        with contextlib.suppress(ValueError):  # no such day
            clock = datetime(int(match[6]), month, int(match[3]), hour, minute, second)  # noqa: DTZ001
            return HeaderTime(clock, match[5])
    raise ParseError(
        "must be a date in the format of date(1)", line=comment.line, field=comment.label, text=comment.value
    )
