"""What is wrong with a log, line by line: pure.

Errors break what the format promises of lines and of values that were
measured; warnings are what a reader can live with. Sources: The Standard
Workload Format, "The Data Fields", "Consistency and data quality", "Header
Comments".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from jobfeatures.errors import ParseError
from jobfeatures.formats.swf.fields import FIELDS, PARTIAL, STATUSES, UNKNOWN, SwfJob
from jobfeatures.formats.swf.header import LABELS, Header, Preemption, Size, parse_comment, parse_date
from jobfeatures.formats.swf.lines import NEGATIVE, parse_job

ERROR = "error"
WARNING = "warning"
MEASURED = ("submit_secs", "wait_secs", "run_secs", "processors")


class Fault(NamedTuple):
    """One fault. `line` 0 is the log as a whole; faults of one `rule` are alike."""

    level: str
    rule: str
    line: int
    message: str


class _Seen:
    """What the lines so far add up to."""

    def __init__(self) -> None:
        self.records = 0
        self.numbers: set[int] = set()
        self.last: SwfJob | None = None
        self.last_end: float = 0
        self.has_parts = False


def check_log(lines: Iterable[str], *, source: str = "") -> Iterator[Fault]:
    """Return all faults in the order of the lines, those of the log as a whole last."""
    header = Header(source)
    seen = _Seen()
    limits: _Limits | None = None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(";"):
            parse_comment(text, header, number)
            if limits is not None:
                limits = None  # a comment among the jobs may say more
            continue
        if not text:
            continue
        if limits is None:
            limits = _Limits(header)
        try:
            job, repairs = parse_job(text, source=source, line=number)
        except ParseError as error:
            field = f"{error.field}: " if error.field else ""
            yield Fault(ERROR, "not a job", number, f"{field}{error.reason}")
            continue
        for repair in repairs:
            if repair != NEGATIVE:  # which _check_values names by field
                yield Fault(ERROR, "fields", number, repair.partition(":")[0])
        yield from _check_values(text, number)
        yield from _check_place(job, number, seen, limits)
        yield from _check_limits(job, number, limits)
        _note(job, seen)
    yield from _check_header(header, seen)


class _Limits:
    """What the header promises of every line; what of it cannot be read is reported with the header."""

    def __init__(self, header: Header) -> None:
        self.processors = _total(header, "MaxProcs") or _total(header, "MaxNodes")
        self.run_secs = _total(header, "MaxRuntime")
        self.memory_kib = _total(header, "MaxMemory")
        self.queues = _numbers(header, "Queue")
        self.partitions = _numbers(header, "Partition")
        overuse = header.value("AllowOveruse")
        self.overuse = overuse is None or overuse.value.strip().lower() != "no"
        try:
            self.preemption = header.preemption()
        except ParseError:
            self.preemption = None

    @property
    def may_repeat(self) -> bool:
        return self.preemption in {Preemption.YES, Preemption.DOUBLE}


def _check_values(text: str, number: int) -> Iterator[Fault]:
    """Find negative numbers other than −1: errors where they were measured, else warnings."""
    for name, word in zip(FIELDS, text.split(), strict=False):
        if word.startswith("-") and float(word) < 0 and float(word) != UNKNOWN:
            level = ERROR if name in MEASURED else WARNING
            yield Fault(level, "negative value", number, f"{name} is {word}")


def _check_place(job: SwfJob, number: int, seen: _Seen, limits: _Limits) -> Iterator[Fault]:
    last = seen.last
    if job.status not in STATUSES:
        yield Fault(WARNING, "status", number, f"status {job.status} is none of -1 and 0 to 5")
    if job.number in seen.numbers:
        follows = last is not None and last.number == job.number
        if not (follows and limits.may_repeat):
            yield Fault(ERROR, "number repeated", number, f"job {job.number} was there before")
    elif job.number < 1:
        yield Fault(ERROR, "number", number, f"job {job.number}: numbers count from 1")
    elif last is not None and job.number != last.number + 1:
        how = "out of order" if job.number < last.number else "not the next"
        yield Fault(WARNING, "number sequence", number, f"job {job.number} after {last.number}: {how}")
    is_later_part = job.status in PARTIAL and job.number in seen.numbers
    if job.submit_secs == UNKNOWN:
        if not is_later_part:
            yield Fault(ERROR, "no submit time", number, "submit_secs is -1")
    elif last is not None and job.submit_secs < last.submit_secs and not is_later_part:
        yield Fault(
            ERROR, "order", number, f"submitted at {job.submit_secs}, after a job of {last.submit_secs}"
        )
    if job.preceding != UNKNOWN and job.preceding not in seen.numbers:
        yield Fault(WARNING, "preceding job", number, f"preceding job {job.preceding} is not before it")


def _check_limits(job: SwfJob, number: int, limits: _Limits) -> Iterator[Fault]:
    if limits.processors is not None and job.processors > limits.processors:
        yield Fault(
            ERROR, "processors", number, f"{job.processors} processors of {limits.processors} of the machine"
        )
    if limits.run_secs is not None and job.run_secs > limits.run_secs:
        yield Fault(WARNING, "MaxRuntime", number, f"ran {job.run_secs} s of {limits.run_secs} allowed")
    if limits.memory_kib is not None and job.memory_kib > limits.memory_kib:
        yield Fault(WARNING, "MaxMemory", number, f"used {job.memory_kib} KiB of {limits.memory_kib} allowed")
    if not limits.overuse and job.requested_secs != UNKNOWN and job.run_secs > job.requested_secs:
        yield Fault(
            WARNING, "AllowOveruse", number, f"ran {job.run_secs} s of {job.requested_secs} requested"
        )
    if job.run_secs > 0 and job.processors == 0:
        yield Fault(WARNING, "no processors", number, "ran on 0 processors")
    for name, value, known in (
        ("queue", job.queue, limits.queues),
        ("partition", job.partition, limits.partitions),
    ):
        if known and value != UNKNOWN and value not in known:
            yield Fault(WARNING, f"unknown {name}", number, f"{name} {value} is not in the header")


def _note(job: SwfJob, seen: _Seen) -> None:
    seen.records += 1
    seen.numbers.add(job.number)
    seen.has_parts = seen.has_parts or job.status in PARTIAL
    if job.submit_secs != UNKNOWN:
        seen.last = job
        seen.last_end = max(seen.last_end, job.submit_secs + max(0, job.wait_secs) + max(0, job.run_secs))


def _check_header(header: Header, seen: _Seen) -> Iterator[Fault]:
    known = {each.label for each in header.comments}
    for label in ("Version", "UnixStartTime", "TimeZoneString", "MaxProcs"):
        if label not in known and not (label == "MaxProcs" and "MaxNodes" in known):
            yield Fault(WARNING, "header", 0, f"{label} is missing")
    for each in header.comments:
        if each.label and each.label not in LABELS.values():
            yield Fault(WARNING, "header label", each.line, f"{each.label} is no label of the format")
    zone = header.value("TimeZone")
    if zone is not None:
        yield Fault(WARNING, "header", zone.line, "TimeZone is deprecated, TimeZoneString replaces it")
    yield from _check_readable(header)
    counts = {"MaxRecords": seen.records, "MaxJobs": len(seen.numbers)}
    for label, count in counts.items():
        promised = _total(header, label)
        if promised is not None and promised != count:
            yield Fault(WARNING, "header count", 0, f"{label} is {promised}, there are {count}")
    for label, kind in (("MaxQueues", "Queue"), ("MaxPartitions", "Partition")):
        promised, named = _total(header, label), _numbers(header, kind)
        if promised is not None and named and promised != len(named):
            yield Fault(WARNING, "header count", 0, f"{label} is {promised}, {kind} names {len(named)}")
    if seen.has_parts and "Preemption" not in known:
        yield Fault(WARNING, "header", 0, "status 2, 3 or 4 without Preemption: taken as exit codes")
    yield from _check_times(header, seen)


def _check_readable(header: Header) -> Iterator[Fault]:
    asked: list[Callable[[], object]] = [functools.partial(header.size, label) for label in _SIZES]
    asked += [header.preemption, header.start_secs, header.zone, header.queues, header.partitions]
    for ask in asked:
        try:
            ask()
        except ParseError as error:
            yield Fault(WARNING, "header value", error.line, f"{error.field}: {error.reason}")


def _check_times(header: Header, seen: _Seen) -> Iterator[Fault]:
    times: tuple[tuple[str, float], ...] = (("StartTime", 0), ("EndTime", seen.last_end))
    for label, secs in times:
        comment = header.value(label)
        if comment is None:
            continue
        try:
            stated = parse_date(comment)
            meant = header.wall_clock(secs)
        except (ParseError, ValueError, OverflowError, OSError) as error:
            reason = error.reason if isinstance(error, ParseError) else str(error)
            yield Fault(WARNING, "header value", comment.line, f"{label}: {reason}")
            continue
        if meant is not None and (label == "StartTime" or seen.records):
            yield from _compare(label, stated, meant.replace(tzinfo=None), comment.line)


def _compare(label: str, stated: datetime, meant: datetime, line: int) -> Iterator[Fault]:
    if abs((stated - meant).total_seconds()) >= 1:
        source = "UnixStartTime" if label == "StartTime" else "the last end"
        yield Fault(
            WARNING, "header time", line, f"{label} is {stated}, {source} is {meant:%Y-%m-%d %H:%M:%S}"
        )


_SIZES = (
    "MaxJobs",
    "MaxRecords",
    "MaxNodes",
    "MaxProcs",
    "MaxRuntime",
    "MaxMemory",
    "MaxQueues",
    "MaxPartitions",
)


def _total(header: Header, label: str) -> int | None:
    try:
        size: Size | None = header.size(label)
    except ParseError:
        return None
    return None if size is None else size.total


def _numbers(header: Header, label: str) -> frozenset[int]:
    try:
        return frozenset(header.queues() if label == "Queue" else header.partitions())
    except ParseError:
        return frozenset()
