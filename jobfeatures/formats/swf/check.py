"""Checks a log in SWF for faults, line by line. Pure.

Errors violate the format of lines or the rules for measured values; warnings are faults with which a reader
can cope. Sources: The Standard Workload Format, "The Data Fields", "Consistency and data quality", "Usage of
the Status field", "Header Comments"; docs/swf.md lists each sentence with its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Literal, NamedTuple, get_args

from jobfeatures.errors import ParseError
from jobfeatures.formats.swf.bursts import JoinedJob, join_bursts
from jobfeatures.formats.swf.endtimes import EndTimes
from jobfeatures.formats.swf.fields import (
    COMPLETED,
    CONTINUED,
    FAILED,
    FIELDS,
    LAST_COMPLETED,
    LAST_FAILED,
    PARTIAL,
    STATUSES,
    UNKNOWN,
    SwfJob,
)
from jobfeatures.formats.swf.header import LABELS, Header, Preemption, parse_comment, parse_date
from jobfeatures.formats.swf.lines import NEGATIVE, parse_job, parse_number

ERROR = "error"
WARNING = "warning"
NOTE = "note"  # no fault
MEASURED = ("submit_secs", "wait_secs", "run_secs", "processors")
VERSIONS = ("2", "2.0", "2.1", "2.2")
START_LABELS = ("UnixStartTime", "StartTime", "EndTime")
Rule = Literal[
    "not a job", "fields", "not ASCII", "negative value", "status", "number", "number repeated",
    "number sequence", "no submit time", "order", "first submit", "preceding job", "start", "think time",
    "processors", "no processors", "natural number", "numbering", "MaxRuntime", "MaxMemory", "AllowOveruse",
    "MaxQueues", "MaxPartitions", "unknown queue", "unknown partition", "last part", "summary", "model",
    "header", "header label", "header value", "header count", "header time",
]  # fmt: skip
RULES: Final[tuple[Rule, ...]] = get_args(Rule)


class SwfFault(NamedTuple):
    """One fault of a log.

    `level` is error or warning, `rule` the violated rule, `line` the line's number from 1. `line` is 0 if the
    fault concerns the entire log.
    """

    level: str
    rule: Rule
    line: int
    message: str


class _Seen:
    def __init__(self) -> None:
        self.records = 0
        self.ends = EndTimes()  # of all jobs
        self.group: list[tuple[int, SwfJob]] = []  # the lines of the job at hand, where one may have several
        self.last: SwfJob | None = None
        self.first: tuple[float, int] | None = None  # the earliest submission, and its line
        self.last_end: float = 0
        self.has_parts = False
        self.is_measured = False  # a wait or a status is known
        self.without_submission: list[SwfFault] = []  # no fault in a model
        self.named: dict[str, set[int]] = {"user": set(), "group": set(), "executable": set()}


def check_log(lines: Iterable[str], *, source: str = "") -> Iterator[SwfFault]:
    """Yield all faults of a log: first those of single lines, in order, then those of the entire log."""
    header = Header(source)
    seen = _Seen()
    limits: _Limits | None = None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(";"):
            if not text.isascii():
                yield SwfFault(WARNING, "not ASCII", number, "a comment that is not ASCII")
            parse_comment(text, header, number)
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
            yield SwfFault(ERROR, "not a job", number, f"{field}{error.reason}")
            continue
        for repair in repairs:
            if not repair.endswith(NEGATIVE):  # which _check_values names by field
                yield SwfFault(ERROR, "fields", number, repair.partition(":")[0])
        if seen.group and seen.group[0][1].number != job.number:
            yield from _close_group(seen, limits)
        yield from _check_values(text, number)
        yield from _check_number(job, number, seen, limits)
        if not (job.status in PARTIAL and job.number in seen.ends):  # later parts have no submit time
            yield from _check_submission(job, number, seen)
            yield from _check_predecessor(job, number, seen)
        yield from _check_limits(job, number, limits)
        yield from _check_use(job, number, limits)
        _note(job, number, seen, limits)
    yield from _close_group(seen, limits or _Limits(header))
    yield from _check_header(header, seen)


class _Limits:
    """Limits that the header sets for every line; unreadable ones are reported with the header's faults."""

    def __init__(self, header: Header) -> None:
        self.processors = _total(header, "MaxProcs") or _total(header, "MaxNodes")
        self.run_secs = _total(header, "MaxRuntime")
        self.memory_kib = _total(header, "MaxMemory")
        self.queues = _numbers(header, "Queue")
        self.partitions = _numbers(header, "Partition")
        self.max_queues = _total(header, "MaxQueues")
        self.max_partitions = _total(header, "MaxPartitions")
        overuse = header.value("AllowOveruse")
        self.overuse = overuse is None or overuse.value.strip().lower() != "no"
        self.preemption = header.readable(Header.preemption)

    @property
    def may_repeat(self) -> bool:
        return self.preemption in {Preemption.YES, Preemption.DOUBLE}


def _check_values(text: str, number: int) -> Iterator[SwfFault]:
    """Find negative numbers other than −1: errors where they were measured, else warnings."""
    for name, word in zip(FIELDS, text.split(), strict=False):
        if word.startswith("-") and (parse_number(word) or 0) < 0 and parse_number(word) != UNKNOWN:
            level = ERROR if name in MEASURED else WARNING
            yield SwfFault(level, "negative value", number, f"{name} is {word}")


def _check_number(job: SwfJob, number: int, seen: _Seen, limits: _Limits) -> Iterator[SwfFault]:
    last = seen.last
    if job.status not in STATUSES:
        yield SwfFault(WARNING, "status", number, f"status {job.status} is neither -1 nor 0 to 5")
    if job.number in seen.ends:
        before = seen.group[-1][1].status if seen.group else UNKNOWN
        is_over = before in {LAST_COMPLETED, LAST_FAILED}
        if not (limits.may_repeat and seen.group and job.status in PARTIAL) or is_over:
            yield SwfFault(ERROR, "number repeated", number, f"job {job.number} occurs twice")
    elif job.number < 1:
        yield SwfFault(ERROR, "number", number, f"job {job.number}: numbers count from 1")
    elif last is None and not seen.records and job.number != 1:
        yield SwfFault(WARNING, "number sequence", number, f"the first job is {job.number}, not 1")
    elif last is not None and job.number != last.number + 1:
        how = "out of order" if job.number < last.number else "not the next"
        yield SwfFault(WARNING, "number sequence", number, f"job {job.number} after {last.number}: {how}")


def _check_submission(job: SwfJob, number: int, seen: _Seen) -> Iterator[SwfFault]:
    last = seen.last
    if job.submit_secs == UNKNOWN:
        fault = SwfFault(ERROR, "no submit time", number, "submit_secs is -1")
        if job.preceding == UNKNOWN:
            yield fault
        else:  # "models can include … dependent jobs that don't have independent arrival times"
            seen.without_submission.append(fault)
    elif last is not None and job.submit_secs < last.submit_secs:
        yield SwfFault(
            ERROR, "order", number, f"submitted at {job.submit_secs}, after a job of {last.submit_secs}"
        )


def _check_predecessor(job: SwfJob, number: int, seen: _Seen) -> Iterator[SwfFault]:
    if job.preceding == UNKNOWN:
        if job.think_secs != UNKNOWN:
            yield SwfFault(
                WARNING, "think time", number, f"think time of {job.think_secs} s without a preceding job"
            )
        return
    if job.preceding not in seen.ends:
        yield SwfFault(WARNING, "preceding job", number, f"preceding job {job.preceding} is not before it")
        return
    end_secs = seen.ends[job.preceding]
    if end_secs is None or job.submit_secs == UNKNOWN:
        return
    start_secs = job.submit_secs + job.wait_secs
    if job.wait_secs != UNKNOWN and end_secs - start_secs >= 1:  # less is rounding
        how = f"started at {start_secs}, preceding job {job.preceding} ended at {end_secs}"
        yield SwfFault(ERROR, "start", number, how)
    if job.think_secs != UNKNOWN and abs(job.submit_secs - end_secs - job.think_secs) >= 1:
        how = f"submitted at {job.submit_secs}, not {job.think_secs} s after {end_secs}"
        yield SwfFault(WARNING, "think time", number, how)


def _check_limits(job: SwfJob, number: int, limits: _Limits) -> Iterator[SwfFault]:
    if limits.processors is not None and job.processors > limits.processors:
        yield SwfFault(
            ERROR,
            "processors",
            number,
            f"has {job.processors} processors, the machine only {limits.processors}",
        )
    if limits.run_secs is not None and job.run_secs > limits.run_secs:
        yield SwfFault(WARNING, "MaxRuntime", number, f"ran {job.run_secs} s, allowed are {limits.run_secs}")
    if limits.memory_kib is not None and job.memory_kib > limits.memory_kib:
        yield SwfFault(
            WARNING, "MaxMemory", number, f"used {job.memory_kib} KiB, allowed are {limits.memory_kib}"
        )
    for name in ("user", "group", "executable", "partition"):  # queue 0 is that of interactive jobs
        if getattr(job, name) == 0:
            yield SwfFault(WARNING, "natural number", number, f"{name} 0: numbers count from 1")
    if limits.queues and job.queue != UNKNOWN and job.queue not in limits.queues:
        yield SwfFault(WARNING, "unknown queue", number, f"queue {job.queue} is not in the header")
    if limits.partitions and job.partition != UNKNOWN and job.partition not in limits.partitions:
        yield SwfFault(
            WARNING, "unknown partition", number, f"partition {job.partition} is not in the header"
        )
    if limits.max_queues is not None and job.queue > limits.max_queues:
        yield SwfFault(WARNING, "MaxQueues", number, f"queue {job.queue} of at most {limits.max_queues}")
    if limits.max_partitions is not None and job.partition > limits.max_partitions:
        yield SwfFault(
            WARNING,
            "MaxPartitions",
            number,
            f"partition {job.partition} of at most {limits.max_partitions}",
        )


def _check_use(job: SwfJob, number: int, limits: _Limits) -> Iterator[SwfFault]:
    if job.run_secs > 0 and job.processors == 0:
        yield SwfFault(WARNING, "no processors", number, "ran on 0 processors")
    if limits.overuse:
        return
    for used, requested, how in (
        (job.run_secs, job.requested_secs, "ran {} s"),
        (job.processors, job.requested_processors, "had {} processors"),
        (job.memory_kib, job.requested_memory_kib, "used {} KiB per processor"),
    ):
        if requested != UNKNOWN and used > requested:
            yield SwfFault(WARNING, "AllowOveruse", number, f"{how.format(used)} of {requested} requested")


def _close_group(seen: _Seen, limits: _Limits) -> Iterator[SwfFault]:
    """Check a job that may have several lines, once all of them have been read."""
    lines = [line for line, _ in seen.group]
    for joined in join_bursts([job for _, job in seen.group], limits.preemption):
        if joined.parts:
            yield from _check_parts(joined, lines[0], lines[joined.lines - 1], limits)
            end_secs = joined.end_secs
            seen.ends[joined.job.number] = end_secs
            seen.last_end = max(seen.last_end, end_secs or 0)
        del lines[: joined.lines]
    seen.group.clear()


def _check_parts(joined: JoinedJob, first: int, last: int, limits: _Limits) -> Iterator[SwfFault]:
    job, parts = joined.job, joined.parts
    status = parts[-1].status
    if status == CONTINUED:
        yield SwfFault(
            WARNING,
            "last part",
            last,
            f"the status of the last part of job {job.number} says that it continues",
        )
    if joined.lines == len(parts):
        if limits.preemption is Preemption.DOUBLE:
            yield SwfFault(
                WARNING, "summary", first, f"job {job.number} has parts, but no line for the whole"
            )
        return
    run_secs = [part.run_secs for part in parts]
    if UNKNOWN not in run_secs and job.run_secs != UNKNOWN and abs(job.run_secs - sum(run_secs)) >= 1:
        how = f"job {job.number} ran {job.run_secs} s, its parts {sum(run_secs)} s"
        yield SwfFault(WARNING, "summary", first, how)
    if (job.status, status) in {(COMPLETED, LAST_FAILED), (FAILED, LAST_COMPLETED)}:
        yield SwfFault(
            WARNING, "summary", first, f"status is {job.status}, but that of its last part is {status}"
        )


def _note(job: SwfJob, number: int, seen: _Seen, limits: _Limits) -> None:
    seen.records += 1
    is_known = UNKNOWN not in {job.submit_secs, job.wait_secs, job.run_secs}
    seen.ends[job.number] = job.submit_secs + job.wait_secs + job.run_secs if is_known else None
    if limits.may_repeat:
        seen.group.append((number, job))
    seen.has_parts = seen.has_parts or job.status in PARTIAL
    seen.is_measured = seen.is_measured or job.wait_secs != UNKNOWN or job.status != UNKNOWN
    for name, values in seen.named.items():
        values.add(getattr(job, name))
    if job.submit_secs != UNKNOWN:
        seen.last = job
        if seen.first is None or job.submit_secs < seen.first[0]:
            seen.first = job.submit_secs, number
        seen.last_end = max(seen.last_end, job.submit_secs + max(0, job.wait_secs) + max(0, job.run_secs))


def _check_header(header: Header, seen: _Seen) -> Iterator[SwfFault]:
    known = {each.label for each in header.comments}
    is_model = seen.records > 0 and not seen.is_measured and known.isdisjoint(START_LABELS)
    if is_model:
        yield SwfFault(NOTE, "model", 0, "a model's log: no waits, no statuses, and no time in the header")
    else:
        yield from seen.without_submission
    if seen.first is not None and seen.first[0] != 0:
        secs, line = seen.first
        yield SwfFault(WARNING, "first submit", line, f"the first job is submitted at {secs}, not at 0")
    for name, numbers in seen.named.items():
        count = sum(each > 0 for each in numbers)
        if max(numbers, default=0) > count:
            yield SwfFault(
                WARNING,
                "numbering",
                0,
                f"{name}: the highest number is {max(numbers)}, but there are {count} different ones",
            )
    wanted = (
        ("Version", "MaxProcs") if is_model else ("Version", "UnixStartTime", "TimeZoneString", "MaxProcs")
    )
    for label in wanted:
        if label not in known and not (label == "MaxProcs" and "MaxNodes" in known):
            yield SwfFault(WARNING, "header", 0, f"{label} is missing")
    for each in header.comments:
        if each.label and each.label not in LABELS.values():
            yield SwfFault(WARNING, "header label", each.line, f"{each.label} is not a label of the format")
    zone = header.value("TimeZone")
    if zone is not None:
        yield SwfFault(WARNING, "header", zone.line, "TimeZone is deprecated, TimeZoneString replaces it")
    yield from _check_readable(header)
    if not seen.records:
        yield SwfFault(WARNING, "header count", 0, "the log has no jobs")
    counts = {"MaxRecords": seen.records, "MaxJobs": len(seen.ends)}
    for label, count in counts.items():
        promised = _total(header, label)
        if promised is not None and promised != count:
            yield SwfFault(WARNING, "header count", 0, f"{label} is {promised}, there are {count}")
    for label, kind in (("MaxQueues", "Queue"), ("MaxPartitions", "Partition")):
        promised, named = _total(header, label), _numbers(header, kind)
        if promised is not None and named and promised != len(named):
            yield SwfFault(WARNING, "header count", 0, f"{label} is {promised}, {kind} names {len(named)}")
    if seen.has_parts and not _Limits(header).may_repeat:
        yield SwfFault(
            WARNING, "header", 0, "status 2, 3 or 4 without Preemption Yes or Double: taken as exit codes"
        )
    yield from _check_times(header, seen)


def _check_readable(header: Header) -> Iterator[SwfFault]:
    asked: list[Callable[[], object]] = [partial(header.size, label) for label in _SIZES]
    asked += [header.preemption, header.start_secs, header.zone]
    asked += [partial(header.numbered, label) for label in ("Queue", "Partition")]
    for ask in asked:
        try:
            ask()
        except ParseError as error:
            yield SwfFault(WARNING, "header value", error.line, f"{error.field}: {error.reason}")
    for label, allowed in (
        ("Version", VERSIONS),
        ("AllowOveruse", ("yes", "no", "n/a", "-1", "unknown", "")),
    ):
        comment = header.value(label)
        if comment is not None and comment.value.strip().lower() not in allowed:
            wanted = "2, 2.1 or 2.2" if label == "Version" else "Yes or No"
            yield SwfFault(WARNING, "header value", comment.line, f"{label}: not {wanted}")
    for label in ("MaxNodes", "MaxProcs"):
        comment, size = header.value(label), header.readable(partial(Header.size, label=label))
        if comment is None or size is None:
            continue
        if size.total == 0 or max(size.parts, default=0) > size.total:
            how = "is 0" if size.total == 0 else "less than one of its partitions"
            yield SwfFault(WARNING, "header value", comment.line, f"{label}: {how}")
        elif label == "MaxNodes" and size.total > (_total(header, "MaxProcs") or size.total):
            yield SwfFault(WARNING, "header value", comment.line, "MaxNodes: more than MaxProcs")


def _check_times(header: Header, seen: _Seen) -> Iterator[SwfFault]:
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
            yield SwfFault(WARNING, "header value", comment.line, f"{label}: {reason}")
            continue
        if meant is None or not (label == "StartTime" or seen.records):
            continue
        if not stated.is_at(meant):
            source = "UnixStartTime" if label == "StartTime" else "the last end"
            how = f"{label} is {stated.clock} {stated.zone}, {source} is {meant:%Y-%m-%d %H:%M:%S %Z}"
            yield SwfFault(WARNING, "header time", comment.line, how)


_SIZES = (
    *("MaxJobs", "MaxRecords", "MaxNodes", "MaxProcs", "MaxRuntime", "MaxMemory"),
    *("MaxQueues", "MaxPartitions"),
)


def _total(header: Header, label: str) -> int | None:
    size = header.readable(partial(Header.size, label=label))
    return None if size is None else size.total


def _numbers(header: Header, label: str) -> frozenset[int]:
    return frozenset(header.readable(partial(Header.numbered, label=label)) or ())
