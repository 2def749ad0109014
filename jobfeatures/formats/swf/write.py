"""The records that all log formats share → lines of SWF, anew or as they were read: pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Final
from zoneinfo import ZoneInfo

from jobfeatures.errors import ParseError
from jobfeatures.formats.swf.bursts import join_bursts
from jobfeatures.formats.swf.fields import CANCELLED, COMPLETED, FAILED, UNKNOWN, Number, SwfJob
from jobfeatures.formats.swf.header import Comment, Header, format_date, format_header, parse_comment
from jobfeatures.formats.swf.lines import BOM, LARGEST, SwfReader, format_job
from jobfeatures.formats.swf.numbering import NUMBER, Numbering, Numbers, kinds_of, numbering_of
from jobfeatures.formats.swf.records import (
    BATCH_SYSTEM,
    INTERACTIVE,
    KIB,
    NAMED,
    STATES,
    Names,
    make_record,
)
from jobfeatures.joblog import JobRecord, Lost, Passage, lines_of
from jobfeatures.model import JobState

_STATUSES: Final = {
    JobState.COMPLETED: COMPLETED,
    JobState.FAILED: FAILED,
    JobState.NODE_FAIL: FAILED,
    JobState.OUT_OF_MEMORY: FAILED,
    JobState.TIMEOUT: FAILED,
    JobState.PREEMPTED: FAILED,
    JobState.CANCELLED: CANCELLED,
}
LATEST_SECS: Final = 253402300799  # the end of the year 9999, after which there are no dates
# Comments that a header which is made anew has of its own.
_MADE_ANEW: Final = frozenset(
    {
        *("Version", "MaxJobs", "MaxRecords", "Preemption", "UnixStartTime", "TimeZone", "TimeZoneString"),
        *("StartTime", "EndTime", "MaxQueues", "Queue", "MaxPartitions", "Partition"),
    }
)
# What a record may hold and SWF has no place for. Steps are left out as a whole.
_HOMELESS: Final = (
    *("name", "uid", "gid", "account", "reservation", "priority", "eligible_secs", "suspended_secs"),
    *("restarts", "exit_status", "exit_signal", "nodes", "total_nodes", "total_gpus", "requested_nodes"),
    *("requested_gpus", "cpu_limit_secs", "cluster", "state_word", "qos", "user_cpu_secs", "system_cpu_secs"),
    *("energy_joules", "array_job_id", "array_task_id", "het_job_id", "het_offset"),
)


def write_records(
    records: Iterable[JobRecord | Passage], lost: Lost, *, renumber: bool = False, rebase: bool = False
) -> Iterator[str]:
    """Return the lines of a log, without newlines.

    A log that was read with its text is written as it stands: comments, order,
    numbers and times, and each line whose record still says what it did.
    `renumber` numbers its users, groups, programs, queues, partitions and jobs
    anew, in their order; `rebase` lets its times begin at the first submission.

    Other records are sorted by submit time, under a header. Job ids stay where
    all are different whole numbers from 1; else jobs are numbered in their
    order, and the ids are lost. Records without a submit time, and steps, have
    no place.
    """
    rest = iter(records)
    first = next(rest, None)
    whole = chain([first], rest) if first is not None else rest
    has_text = isinstance(first, Passage) or (first is not None and first.source_text is not None)
    if not has_text:
        yield from _write_anew([each for each in whole if isinstance(each, JobRecord)], lost)
    elif renumber or rebase:
        comments = Header()
        found: list[JobRecord] = []
        for each in whole:
            if isinstance(each, Passage):
                for line in each.text.splitlines():
                    if line.removeprefix(BOM).strip():
                        parse_comment(line.removeprefix(BOM).strip(), comments)
            else:
                found.append(each)
        yield from _write_anew(found, lost, comments, renumber=renumber, rebase=rebase)
    else:
        yield from _write_as_it_was(whole, lost)


def _write_anew(
    records: list[JobRecord],
    lost: Lost,
    old: Header | None = None,
    *,
    renumber: bool = True,
    rebase: bool = True,
) -> Iterator[str]:
    """Return the lines of records sorted by submit time, under a header; `old` is that of their log."""
    kept = []
    for record in records:
        if record.step is not None:
            lost("step")
        elif record.submit_secs is None:
            lost("job without submit time")
        else:
            kept.append(record)
    kept.sort(key=lambda record: record.submit_secs or 0)
    start_secs = int(min((record.submit_secs or 0 for record in kept), default=0))
    if old is not None and not rebase:
        start_secs = _start_of(old) or 0
    numbers = {} if old is not None and renumber else _job_numbers(kept, lost)
    if old is not None and renumber:
        numbers = {record.job_id: place for place, record in enumerate(kept, 1)}
    numbering = numbering_of(None if old is None or renumber else Names(old))
    jobs = [
        _make_job(record, numbers, position, start_secs, numbering, lost)
        for position, record in enumerate(kept, 1)
    ]
    yield from format_header(_make_header(kept, start_secs, numbering, old))
    yield from map(format_job, jobs)


def _start_of(header: Header) -> int | None:
    try:
        return header.start_secs()
    except ParseError:  # its reader has told
        return None


def _write_as_it_was(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    """Return the lines of a log as they stand; a record that says something else is formatted."""
    header = Header()
    names, numbering = Names(header), numbering_of(Names(header))
    start_secs, preemption = 0, None
    has_begun = False
    for each in records:
        if isinstance(each, Passage):
            yield from lines_of(each.text)
            if has_begun:  # what is told behind the first job was not known when it was read
                continue
            for line in each.text.splitlines():
                if comment := line.removeprefix(BOM).strip():
                    parse_comment(comment, header)
            names = Names(header)
            numbering = numbering_of(names)
            start_secs = _start_of(header) or 0
            with contextlib.suppress(ParseError):
                preemption = header.preemption()
            continue
        has_begun = True
        text = each.source_text
        if text is not None and text.kind == BATCH_SYSTEM:
            reader = SwfReader(text.text.splitlines(keepends=True))
            again = [make_record(joined, start_secs, names) for joined in join_bursts(reader, preemption)]
            if again == [each]:
                yield from lines_of(text.text)
                continue
        if each.step is not None or each.submit_secs is None:
            lost("step" if each.step is not None else "job without submit time")
            continue
        number = {each.job_id: int(each.job_id)} if NUMBER.match(each.job_id) else {}
        if each.preceding_job_id is not None and NUMBER.match(each.preceding_job_id):
            number[each.preceding_job_id] = int(each.preceding_job_id)
        if each.job_id not in number:
            lost("job_id")
        job = _make_job(each, number, UNKNOWN, start_secs, numbering, lost)
        for word, label, kind in kinds_of(numbering):
            for name, code in kind.added.items():
                yield (
                    f"; {label}: {code} {_one_word(name)}"
                    if label
                    else (f"; Note: {word} {code} is {_one_line(name)}")
                )
            kind.added.clear()
        yield format_job(job)


def _job_numbers(records: list[JobRecord], lost: Lost) -> dict[str, int]:
    """Return the jobs' numbers by id, empty where they are numbered anew."""
    numbers = {
        record.job_id: int(record.job_id)
        for record in records
        if NUMBER.match(record.job_id) and 0 < int(record.job_id) <= LARGEST
    }
    if len(numbers) == len(records) == len(set(numbers.values())):
        return numbers
    for _ in records:
        lost("job_id")
    return {}


def _make_job(
    record: JobRecord,
    numbers: Mapping[str, int],
    position: int,
    start_secs: int,
    numbering: Numbering,
    lost: Lost,
) -> SwfJob:
    for name in _HOMELESS:
        if getattr(record, name) not in {None, ()}:
            lost(name)
    for name, _ in record.more:
        lost(name)
    submit = record.submit_secs or 0
    waited, ran = _waited_and_ran(record, submit, lost)
    requested = record.requested_cpus or record.total_cpus
    status = _STATUSES.get(record.state, UNKNOWN)
    if STATES.get(status, JobState.UNKNOWN) is not record.state:
        lost("state")
    if record.preceding_job_id is not None and record.preceding_job_id not in numbers:
        lost("preceding_job_id")
    return SwfJob(
        number=numbers.get(record.job_id, position),
        submit_secs=submit - start_secs,
        wait_secs=waited,
        run_secs=ran,
        processors=_or_unknown(record.total_cpus),
        cpu_secs=_share(record.used_cpu_secs, record.total_cpus, 1, "used_cpu_secs", lost),
        memory_kib=round(_share(record.used_memory_bytes, record.total_cpus, KIB, "used_memory_bytes", lost)),
        requested_processors=_or_unknown(record.requested_cpus),
        requested_secs=_limit(record.wall_limit_secs, "wall_limit_secs", lost),
        requested_memory_kib=round(
            _share(
                _limit(record.requested_memory_bytes, "requested_memory_bytes", lost),
                requested,
                KIB,
                "requested_memory_bytes",
                lost,
            )
        ),
        status=status,
        user=numbering.users.of(record.user),
        group=numbering.groups.of(record.group),
        executable=numbering.executables.of(record.executable),
        queue=_queue(record, numbering.queues, lost),
        partition=numbering.partitions.of(record.partition),
        preceding=numbers.get(record.preceding_job_id or "", UNKNOWN),
        think_secs=UNKNOWN if record.think_secs is None else record.think_secs,
    )


def _queue(record: JobRecord, queues: Numbers, lost: Lost) -> int:
    """Return the number of a queue, 0 of an interactive job."""
    if not record.is_interactive:
        if record.is_interactive is not None:
            lost("is_interactive")
        return queues.of(record.queue)
    if record.queue in {None, str(INTERACTIVE)}:
        return INTERACTIVE
    if record.queue not in queues.names and INTERACTIVE in queues.names.values():
        lost("queue")  # one name can be that of queue 0
        return INTERACTIVE
    number = queues.names.setdefault(record.queue or "", INTERACTIVE)
    if number != INTERACTIVE:
        lost("is_interactive")
    return number


def _waited_and_ran(record: JobRecord, submit: Number, lost: Lost) -> tuple[Number, Number]:
    """Return both spans, to the microsecond. Where clocks have gone back, a span is none, its end lost.

    A run that is told beside a start and an end counts where the two do not say the same.
    """
    started, ended, swapped = record.start_secs, record.end_secs, record.suspended_secs or 0
    ran = record.run_secs
    if ran is not None and (ran < 0 or record.state.is_on_node or record.state is JobState.PENDING):
        lost("run_secs")
        ran = None
    if started is None and ended is not None and ran is not None and ended - ran - swapped >= submit:
        started = ended - ran - swapped
    if started is None:
        if ran is not None:  # a model tells no more
            if ended is not None:
                lost("end_secs")
            return UNKNOWN, _rounded(ran)
        if ended is not None and record.state is JobState.CANCELLED and ended >= submit:
            return _rounded(ended - submit), UNKNOWN  # cancelled in the queue: it never ran
        if ended is not None:
            lost("end_secs")
        return UNKNOWN, UNKNOWN
    if started < submit:
        lost("start_secs")
        started = submit
    if ended is None:
        if ran is not None:
            return _rounded(started - submit), _rounded(ran)
        if record.state is JobState.CANCELLED:
            lost("start_secs")
        return _rounded(started - submit), UNKNOWN
    if swapped:
        lost("end_secs")  # it is that of the run alone
    told = ended - started - swapped
    if told < 0:
        lost("end_secs")
    if ran is not None and _rounded(ran) != _rounded(max(0, told)):
        lost("run_secs")
    return _rounded(started - submit), _rounded(max(0, told))


def _rounded(span: Number) -> Number:
    return span if isinstance(span, int) else round(span, 6)


def _or_unknown(value: int | None) -> int:
    return UNKNOWN if value is None else value


def _limit(value: object, name: str, lost: Lost) -> int:
    """Return a limit; SWF does not tell unlimited from unknown."""
    if isinstance(value, int):
        return value
    if value is not None:
        lost(name)
    return UNKNOWN


def _share(value: Number | None, count: int | None, unit: int, name: str, lost: Lost) -> Number:
    """Return what falls to one processor, as precisely as a whole number or six decimals are."""
    if value is None or value == UNKNOWN:
        return UNKNOWN
    if not count:
        lost(name)
        return UNKNOWN
    share = value / (count * unit)
    return int(share) if share == int(share) else round(share, 6)


def _make_header(
    records: list[JobRecord], start_secs: int, numbering: Numbering, old: Header | None = None
) -> Header:
    zone = ZoneInfo("UTC")
    ends = (record.end_secs for record in records if record.end_secs is not None)
    end_secs = max((end for end in ends if end <= LATEST_SECS), default=start_secs)  # later ones have no date
    texts: list[tuple[str, str]] = [
        ("Version", "2.2"),
        ("MaxJobs", str(len(records))),
        ("MaxRecords", str(len(records))),
        ("Preemption", "No"),
    ]
    if old is None or _start_of(old) is not None:
        texts.append(("UnixStartTime", str(start_secs)))
        if 0 <= start_secs <= LATEST_SECS:
            texts += [
                ("TimeZoneString", "UTC"),
                ("StartTime", format_date(datetime.fromtimestamp(start_secs, zone))),
                ("EndTime", format_date(datetime.fromtimestamp(max(0, end_secs), zone))),
            ]
    if old is not None:
        texts += [
            (each.label, each.value)
            for each in old.comments
            if each.label not in _MADE_ANEW and not NAMED.match(each.value)
        ]
    for word, label, kind in kinds_of(numbering):
        if label and kind.names:
            texts.append((f"Max{label}s", str(len(kind.names))))
            texts += [(label, f"{number} {_one_word(name)}") for name, number in kind.names.items()]
        del word
    if old is None:
        texts.append(("Note", "requested times are wall clock times"))
    for word, label, kind in kinds_of(numbering):
        if not label:
            texts += [
                ("Note", f"{word} {number} is {_one_line(name)}") for name, number in kind.names.items()
            ]
    return Header("", [Comment(label, value) for label, value in texts])


def _one_line(name: str) -> str:
    return " ".join(name.split())


def _one_word(name: str) -> str:
    return "_".join(name.split())
