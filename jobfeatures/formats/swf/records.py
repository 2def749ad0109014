"""Jobs of SWF ↔ the records that all log formats share: pure.

SWF has numbers for users, groups, programs, queues and partitions. Names are
kept in the header: queues and partitions under their own labels, the others as
notes, ``Note: user 3 is alice``, which are understood when they are read.
Memory is per processor there, and of the whole job in a record; so is CPU time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.swf.bursts import Joined, join_bursts
from jobfeatures.formats.swf.fields import CANCELLED, COMPLETED, FAILED, UNKNOWN, Number, SwfJob
from jobfeatures.formats.swf.header import Comment, Header, Preemption, format_date, format_header
from jobfeatures.formats.swf.lines import LARGEST, SwfReader, format_job
from jobfeatures.joblog import JobRecord, Lost
from jobfeatures.model import JobState

BATCH_SYSTEM: Final = "swf"
KIB: Final = 1024
_STATES: Final = {COMPLETED: JobState.COMPLETED, FAILED: JobState.FAILED, CANCELLED: JobState.CANCELLED}
_STATUSES: Final = {
    JobState.COMPLETED: COMPLETED,
    JobState.FAILED: FAILED,
    JobState.NODE_FAIL: FAILED,
    JobState.OUT_OF_MEMORY: FAILED,
    JobState.TIMEOUT: FAILED,
    JobState.PREEMPTED: FAILED,
    JobState.CANCELLED: CANCELLED,
}
_NAMED = re.compile(r"(user|group|executable) (-?[0-9]{1,9}) is (.{1,256})\Z", re.DOTALL)
# What a record may hold and SWF has no place for. Steps are left out as a whole.
_HOMELESS: Final = (
    "name", "uid", "gid", "account", "reservation", "priority", "eligible_secs", "suspended_secs", "restarts",
    "exit_status", "exit_signal", "nodes", "total_nodes", "total_gpus", "requested_nodes", "requested_gpus",
    "cpu_limit_secs", "array_job_id", "array_task_id", "het_job_id", "het_offset",
)  # fmt: skip


def recognise(head: str) -> bool:
    """Tell whether a text is SWF: comments begin with ``;``, the first other line has 18 numbers."""
    lines = [line.strip() for line in head.split("\n")[:-1] or [head]]
    data = [line for line in lines if line and not line.startswith(";")]
    if data:
        words = data[0].split()
        return len(words) >= 18 and all(re.fullmatch(r"-?[0-9.]{1,20}", word) for word in words)
    return any(re.match(r";\s*(Version|MaxJobs|Computer|UnixStartTime):", line) for line in lines)


def read_records(
    lines: Iterable[str], *, source: str, strict: bool = False
) -> Iterator[JobRecord | Rejected]:
    """Return the jobs of a log. Times are since its start where its header has no UnixStartTime.

    A start or a Preemption that cannot be read is rejected, and taken as
    absent. Raises ParseError in strict reading.
    """
    reader = SwfReader(lines, source=source, strict=strict)
    names = Names(reader.header)
    start_secs: int | None = None
    preemption: Preemption | None = None
    try:
        start_secs = reader.header.start_secs()
        preemption = reader.header.preemption()
    except ParseError as error:
        if strict:
            raise
        yield Rejected.from_error(error)
    told = 0
    for joined in join_bursts(reader, preemption):
        while told < len(reader.rejected):
            yield reader.rejected[told]
            told += 1
        yield make_record(joined, start_secs or 0, names)
    yield from reader.rejected[told:]


class Names:
    """What the header calls users, groups, programs, queues and partitions by number."""

    def __init__(self, header: Header) -> None:
        self.queues = _by_number(header, "Queue")
        self.partitions = _by_number(header, "Partition")
        self.others: dict[tuple[str, int], str] = {}
        for note in header.values("Note"):
            if match := _NAMED.match(note.value):
                self.others[match[1], int(match[2])] = match[3]

    def of(self, kind: str, number: int) -> str | None:
        """Return the name of a number, the number itself where it has none."""
        return None if number == UNKNOWN else self.others.get((kind, number), str(number))


def _by_number(header: Header, label: str) -> Mapping[int, str]:
    try:
        found = header.queues() if label == "Queue" else header.partitions()
    except ParseError:  # `swf check` tells of it; the numbers stand for themselves
        return {}
    return {number: each.name for number, each in found.items() if each.name}


def make_record(joined: Joined, start_secs: int, names: Names) -> JobRecord:
    """Return the record of a job; `start_secs` is the epoch time of the log's time zero."""
    job = joined.job
    submit, started, ended = job.submit_secs, joined.start_secs, joined.end_secs
    in_queue = job.status == CANCELLED and job.run_secs == UNKNOWN  # cancelled after what it waited
    if in_queue:
        ended = started
    requested = job.requested_processors if job.requested_processors > 0 else job.processors
    return JobRecord(
        batch_system=BATCH_SYSTEM,
        job_id=str(job.number),
        state=_STATES.get(job.status, JobState.UNKNOWN),
        user=names.of("user", job.user),
        group=names.of("group", job.group),
        executable=names.of("executable", job.executable),
        queue=None if job.queue == UNKNOWN else names.queues.get(job.queue, str(job.queue)),
        partition=None
        if job.partition == UNKNOWN
        else names.partitions.get(job.partition, str(job.partition)),
        submit_secs=None if submit == UNKNOWN else start_secs + submit,
        start_secs=None if started is None or in_queue else start_secs + started,
        end_secs=None if ended is None else start_secs + ended,
        suspended_secs=joined.swapped_secs or None,
        total_cpus=_known(job.processors),
        requested_cpus=_known(job.requested_processors),
        requested_memory_bytes=_product(job.requested_memory_kib, requested, KIB),
        wall_limit_secs=None if job.requested_secs == UNKNOWN else round(job.requested_secs),
        used_cpu_secs=_product(job.cpu_secs, job.processors, 1),
        used_memory_bytes=_product(job.memory_kib, job.processors, KIB),
        preceding_job_id=None if job.preceding == UNKNOWN else str(job.preceding),
        think_secs=None if job.think_secs == UNKNOWN else job.think_secs,
    )


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


def _product(each: Number, count: int, unit: int) -> int | None:
    """Return what all processors have together; unknown where one of the two is."""
    return None if each == UNKNOWN or count <= 0 else round(each * count * unit)


class _Numbers:
    """Numbers for names, from 1 in the order in which they come."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def of(self, name: str | None) -> int:
        return UNKNOWN if name is None else self.names.setdefault(name, len(self.names) + 1)


class _Numbering(NamedTuple):
    users: _Numbers
    groups: _Numbers
    executables: _Numbers
    queues: _Numbers
    partitions: _Numbers


def write_records(records: Iterable[JobRecord], lost: Lost) -> Iterator[str]:
    """Return the lines of a log, without newlines: the records sorted by submit time, under a header.

    Job ids stay where all are different whole numbers from 1; else jobs are
    numbered in their order, and the ids are lost. Records without a submit
    time, and steps, have no place.
    """
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
    numbers = _job_numbers(kept, lost)
    numbering = _Numbering(_Numbers(), _Numbers(), _Numbers(), _Numbers(), _Numbers())
    jobs = [
        _make_job(record, numbers, position, start_secs, numbering, lost)
        for position, record in enumerate(kept, 1)
    ]
    yield from format_header(_make_header(kept, start_secs, numbering))
    yield from map(format_job, jobs)


def _job_numbers(records: list[JobRecord], lost: Lost) -> dict[str, int]:
    """Return the jobs' numbers by id, empty where they are numbered anew."""
    numbers = {
        record.job_id: int(record.job_id)
        for record in records
        if record.job_id.isascii() and record.job_id.isdigit() and 0 < int(record.job_id) <= LARGEST
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
    numbering: _Numbering,
    lost: Lost,
) -> SwfJob:
    for name in _HOMELESS:
        if getattr(record, name) not in {None, ()}:
            lost(name)
    submit = record.submit_secs or 0
    waited, ran = _waited_and_ran(record, submit, lost)
    requested = record.requested_cpus or record.total_cpus
    status = _STATUSES.get(record.state, UNKNOWN)
    if _STATES.get(status, JobState.UNKNOWN) is not record.state:
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
        queue=numbering.queues.of(record.queue),
        partition=numbering.partitions.of(record.partition),
        preceding=numbers.get(record.preceding_job_id or "", UNKNOWN),
        think_secs=UNKNOWN if record.think_secs is None else record.think_secs,
    )


def _waited_and_ran(record: JobRecord, submit: Number, lost: Lost) -> tuple[Number, Number]:
    """Return both spans, to the microsecond. Where clocks have gone back, a span is none, its end lost."""
    started, ended, swapped = record.start_secs, record.end_secs, record.suspended_secs or 0
    if started is None:
        if ended is not None and record.state is JobState.CANCELLED and ended >= submit:
            return _rounded(ended - submit), UNKNOWN  # cancelled in the queue: it never ran
        if ended is not None:
            lost("end_secs")
        return UNKNOWN, UNKNOWN
    if started < submit:
        lost("start_secs")
        started = submit
    if ended is None:
        if record.state is JobState.CANCELLED:
            lost("start_secs")
        return _rounded(started - submit), UNKNOWN
    if ended < started + swapped:
        lost("end_secs")
    return _rounded(started - submit), _rounded(max(0, ended - started - swapped))


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
    """Return what falls to one processor, as precisely as a whole number or two decimals are."""
    if value is None or value == UNKNOWN:
        return UNKNOWN
    if not count:
        lost(name)
        return UNKNOWN
    share = value / (count * unit)
    return int(share) if share == int(share) else round(share, 2)


def _make_header(records: list[JobRecord], start_secs: int, numbering: _Numbering) -> Header:
    zone = ZoneInfo("UTC")
    end_secs = max((record.end_secs for record in records if record.end_secs is not None), default=start_secs)
    texts: list[tuple[str, str]] = [
        ("Version", "2.2"),
        ("MaxJobs", str(len(records))),
        ("MaxRecords", str(len(records))),
        ("Preemption", "No"),
        ("UnixStartTime", str(start_secs)),
        ("TimeZoneString", "UTC"),
        ("StartTime", format_date(datetime.fromtimestamp(start_secs, zone))),
        ("EndTime", format_date(datetime.fromtimestamp(end_secs, zone))),
    ]
    for label, kind in (("Queue", numbering.queues), ("Partition", numbering.partitions)):
        if kind.names:
            texts.append((f"Max{label}s", str(len(kind.names))))
            texts += [(label, f"{number} {_one_word(name)}") for name, number in kind.names.items()]
    texts.append(("Note", "requested times are wall clock times"))
    for word, each in (
        ("user", numbering.users),
        ("group", numbering.groups),
        ("executable", numbering.executables),
    ):
        texts += [("Note", f"{word} {number} is {_one_line(name)}") for name, number in each.names.items()]
    return Header("", [Comment(label, value) for label, value in texts])


def _one_line(name: str) -> str:
    return " ".join(name.split())


def _one_word(name: str) -> str:
    return "_".join(name.split())
