"""Defines records of jobs as logs and the accounting of batch systems report them; no I/O.

A `JobRecord` holds what one line, element or object reports about one job (or one step of a job) across all
its nodes, usually after it has ended. Readers of all log formats and accounting systems return it. In
contrast, `Job` of `jobfeatures.records.model` is what a node knows about a job that may still be running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, Protocol

from jobfeatures.errors import Rejected, shown, shown_name
from jobfeatures.records.columns import pack, unpack
from jobfeatures.records.model import Job, JobKey, JobState, Limit
from jobfeatures.records.quickrecord import made_of_columns, quickly_made

Number = int | float

MOST: Final = 400_000  # records held in memory: some 500 MB of jobs
AT_ONCE: Final = 256  # records in a batch, small enough to stay in the processor's cache
MAX_SHOWN: Final = 20  # rejected records that are kept; the others are only counted
MAX_NAMES = 12  # of fields, each on a line of its own
TOO_MUCH_CPU_TIME = "CPU time of more than CPUs times run time"
WHOLE_JOB: Final = "job "  # names of losses begin so where an entire job is lost, not one value


class Passage(NamedTuple):
    """Comments and empty lines of a log, with newlines; `kind` is the name of the log format."""

    kind: str
    text: str


class SourceText(NamedTuple):
    """The lines from which a record was read, with newlines; `kind` is the name of the log format.

    If other lines of the log have added values to the record, `record` is the record without them.
    """

    kind: str
    text: str
    record: JobRecord | None = None


class PartialReport(NamedTuple):
    """One entry of a log that reports each change of a job, possibly with only the values that have changed.

    `at_secs` is the time of the report. `make` makes a record of values, which may be merged from several
    reports.
    """

    at_secs: Number
    values: Mapping[str, Any]
    make: Callable[[Mapping[str, Any]], JobRecord]


class StepUse(NamedTuple):
    """What a job's record needs from one of its steps, the memory used; stands for the step's record."""

    batch_system: str
    job_id: str
    cluster: str | None
    step: str
    used_memory_bytes: int | None


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job of a log, or one step of a job. An unknown value is None or empty, never zero.

    Times are seconds since the epoch, or since the log's start if the log does not give its date. Sizes (in
    bytes) and CPU times are totals over all processors and nodes of the job. `step` is None for the job
    itself. `state_word` is the batch system's own word for the state. `more` holds values that few log
    formats report, by name.
    """

    batch_system: str
    job_id: str
    cluster: str | None = None  # or server: job ids are unique within it
    step: str | None = None  # None: the job itself
    state: JobState = JobState.UNKNOWN
    state_word: str | None = None  # the batch system's own word, where it differs
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    group: str | None = None
    gid: int | None = None
    account: str | None = None
    queue: str | None = None
    partition: str | None = None
    qos: str | None = None
    is_interactive: bool | None = None
    executable: str | None = None
    reservation: str | None = None
    priority: int | None = None
    submit_secs: Number | None = None
    eligible_secs: Number | None = None
    start_secs: Number | None = None  # of its last run
    end_secs: Number | None = None
    run_secs: Number | None = None  # as logged, without suspensions; see `compute_run_secs`
    suspended_secs: Number | None = None
    restarts: int | None = None
    exit_status: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    total_nodes: int | None = None
    total_cpus: int | None = None  # allocated
    total_gpus: int | None = None
    requested_nodes: int | None = None
    requested_cpus: int | None = None
    requested_gpus: int | None = None
    requested_memory_bytes: Limit = None
    wall_limit_secs: Limit = None
    cpu_limit_secs: Limit = None
    used_cpu_secs: Number | None = None  # user and system
    user_cpu_secs: Number | None = None
    system_cpu_secs: Number | None = None
    energy_joules: Number | None = None
    used_memory_bytes: int | None = None
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    het_offset: int | None = None
    workflow_id: str | None = None  # shared by the jobs of one workflow
    preceding_job_id: str | None = None
    think_secs: Number | None = None  # from the end of the preceding job to the submission of this one
    more: tuple[tuple[str, str | Number], ...] = ()  # what few kinds report, by name: see MORE
    source_text: SourceText | None = field(default=None, compare=False, repr=False)
    report: PartialReport | None = field(default=None, compare=False, repr=False)  # of a part of the job

    @property
    def key(self) -> JobKey:
        """Return the job's key; a step has the key of its job."""
        return JobKey(self.batch_system, self.job_id)


_DEFAULTS: Final[dict[str, Any]] = {each.name: each.default for each in fields(JobRecord)}


class JobBatch:
    """Records of several jobs, without steps, stored as columns: one sequence of values for each field."""

    __slots__ = ("_columns", "_count", "_packed", "_records")

    def __init__(self, count: int, columns: Mapping[str, Sequence[Any]]) -> None:
        """Fields without a column have their default in all jobs; columns that are no field are ignored."""
        self._count = count
        self._columns = {name: column for name, column in columns.items() if name in _DEFAULTS and column}
        self._packed = b""
        self._records: list[JobRecord] | None = None

    @classmethod
    def of(cls, records: list[JobRecord]) -> JobBatch:
        """Make a batch of records."""
        made = cls(len(records), {})
        made._records = records
        return made

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[JobRecord]:
        if self._records is not None:
            return iter(self._records)
        return iter(made_of_columns(JobRecord, self._count, self._unpacked()))

    def column(self, name: str) -> Sequence[Any]:
        """Return the values of a field, one per job."""
        if self._records is not None:
            return list(map(attrgetter(name), self._records))
        return self._unpacked().get(name) or [_DEFAULTS[name]] * self._count

    def pack(self) -> JobBatch:
        """Serialise the columns in place to save two thirds of their memory; return this batch."""
        if self._columns:
            self._packed = pack(self._columns)
            self._columns = {}
        return self

    def unpack(self) -> JobBatch:
        """Return a batch with the columns deserialised; this batch stays packed, to save memory."""
        return JobBatch(self._count, self._unpacked()) if self._packed else self

    def _unpacked(self) -> Mapping[str, Sequence[Any]]:
        return unpack(self._packed, self._count) if self._packed else self._columns

    def use_at_least(self, memory_bytes: int) -> None:
        """Raise the used memory of the last job to `memory_bytes` of one of its steps, if that is larger."""
        column = [*self.column("used_memory_bytes")]
        column[-1] = max(column[-1] or 0, memory_bytes) or None
        self._columns["used_memory_bytes"] = column


# Fields that few kinds of logs report; `average_`, `min_` and `max_` are over the tasks of a step.
MORE: Final = frozenset(
    {
        *("distribution", "requested_resources", "allocated_resources"),
        *("gres_detail", "min_cpus_per_node"),  # gres_detail: one line per node
        *("min_cpu_secs", "average_cpu_secs", "average_read_bytes", "average_written_bytes"),
        *("average_resident_bytes", "average_virtual_bytes", "max_resident_bytes", "max_virtual_bytes"),
    }
)


@dataclass(frozen=True, slots=True)
class Accounting:
    """One answer of a batch system's accounting: job records, and entries that were rejected."""

    source: str
    records: tuple[JobRecord, ...]
    taken_at_secs: float
    rejected: tuple[Rejected, ...] = ()


Found = JobRecord | StepUse | JobBatch | Passage  # in a log
_ENTRIES: Final = (JobRecord, StepUse)  # a union would be constructed again for each record


@dataclass(slots=True)
class Notes:
    """Counts of records and values from reading or converting one log.

    `not_taken` counts values that records cannot hold, `unread` unreadable values, `doubtful` impossible
    values that are kept, `lost` values that the written log cannot hold, and `folded` records merged into
    others. `shown` holds the first rejected records.
    """

    read: int = 0
    rejected: int = 0
    shown: list[Rejected] = field(default_factory=list)  # the first rejected ones
    not_taken: Counter[str] = field(default_factory=Counter)  # values in the log that records cannot hold
    unread: Counter[str] = field(default_factory=Counter)  # unreadable values, which are unknown: see `miss`
    doubtful: Counter[str] = field(default_factory=Counter)  # values that cannot be, and are kept
    repaired: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)  # values that the written log cannot hold
    folded: Counter[str] = field(default_factory=Counter)  # records merged into another
    _examples: dict[str, str] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Return whether no job was rejected or lost."""
        return not self.rejected and not any(name.startswith(WHOLE_JOB) for name in self.lost)

    def count_unread(self, name: str, text: str) -> None:
        """Count an optional value that cannot be read; the value is unknown, but its job is kept."""
        self.unread[self._examples.setdefault(name, f"{name}, such as {shown(text)}")] += 1

    def faults(self, source: str) -> list[Rejected]:
        """Return one Rejected for each field that has values which `miss` counted; `source` names the log."""
        return [
            Rejected(source, f"unreadable {name}: unknown in {count}") for name, count in self.unread.items()
        ]

    def count_lost(self, name: str, count: int = 1) -> None:
        """Count values or jobs that the written log cannot hold, under the name of the field."""
        self.lost[name] += count

    def count_folded(self, name: str, count: int = 1) -> None:
        """Count records that were merged into others; `name` is the reason."""
        self.folded[name] += count

    def accepted(self, found: Iterable[Found | Rejected]) -> Iterator[JobRecord]:
        """Yield the job records among the items that a reader returns; count records and rejected items."""
        return (each for each in self.accepted_with_passages(found) if isinstance(each, JobRecord))

    def accepted_with_passages(self, found: Iterable[Found | Rejected]) -> Iterator[Found]:
        """Yield all items that a reader returns except rejected ones; count records and rejected items.

        Unlike `accepted`, this also yields steps, batches and the text between records.
        """
        for each in found:
            if isinstance(each, JobBatch):
                self.read += len(each)
                self.doubtful[TOO_MUCH_CPU_TIME] += sum(map(_is_doubtful, _suspects(each)))
                yield each
            elif isinstance(each, _ENTRIES):
                self.read += 1
                if isinstance(each, JobRecord) and _is_doubtful(each):
                    self.doubtful[TOO_MUCH_CPU_TIME] += 1
                yield each
            elif isinstance(each, Passage):
                yield each
            else:
                self.rejected += 1
                if len(self.shown) < MAX_SHOWN:
                    self.shown.append(each)

    def lines(self, *, in_full: bool = False) -> Iterator[str]:
        """Yield a report of all counts, except that of rejected records, line by line.

        If there are many counts of one kind (unreadable, merged …), one line names the largest, unless
        `in_full`.
        """
        reported = (
            ("unreadable", self.unread),
            ("doubtful", self.doubtful),
            ("repaired", self.repaired),
            ("not taken", self.not_taken),
            ("merged", self.folded),
            ("lost", self.lost),
        )
        for what, counts in reported:
            report = [f"{name} ({count})" for name, count in sorted(counts.items()) if count]
            if in_full or len(report) <= MAX_NAMES:
                yield from (f"{what}: {each}" for each in report)
                continue
            most = ", ".join(f"{name} ({count})" for name, count in counts.most_common(3))
            yield f"{what}: {len(report)} fields, {counts.total()} values: {most} …; --list names all"


def is_too_much_cpu_time(cpu_secs: Number | None, cpus: Number | None, run_secs: Number | None) -> bool:
    """Return whether CPU time exceeds CPUs × run time by more than rounding explains; False if unknown.

    Old accounting of Slurm has such jobs.
    """
    if cpu_secs is None or cpus is None or run_secs is None:
        return False
    return run_secs >= 0 and cpu_secs > cpus * (run_secs * 1.05 + 60)


def _is_doubtful(job: JobRecord) -> bool:
    used = job.used_cpu_secs
    return bool(used) and is_too_much_cpu_time(used, job.total_cpus, compute_run_secs(job))


def _suspects(batch: JobBatch) -> Iterable[JobRecord]:
    """Return the records of a batch unless by its columns no job has too much CPU time."""
    columns = (batch.column(name) for name in ("used_cpu_secs", "total_cpus", "run_secs"))
    are_plain = (
        not used or cpus is None or (ran is not None and used <= cpus * (ran * 1.05 + 60))
        for used, cpus, ran in zip(*columns, strict=True)
    )
    return () if all(are_plain) else batch


def compute_run_secs(record: JobRecord) -> Number | None:
    """Return for how many seconds a job ran, without suspensions; None if unknown.

    The result is negative if the clock was set back.
    """
    if record.run_secs is not None:
        return record.run_secs
    if record.start_secs is None or record.end_secs is None:
        return None
    return record.end_secs - record.start_secs - (record.suspended_secs or 0)


def pairs(**values: str | Number | None) -> tuple[tuple[str, str | Number], ...]:
    """Return the arguments that are not None as name-value pairs, the form of `JobRecord.more`."""
    return tuple((name, value) for name, value in values.items() if value is not None)


_OF_JOB: Final = (
    *("state", "name", "user", "account", "partition", "reservation", "priority"),
    *("submit_secs", "start_secs", "end_secs", "nodes"),
    *("array_job_id", "array_task_id", "het_job_id", "het_offset"),
)


def record_of(job: Job, **others: Any) -> JobRecord:
    """Convert a live job to a record of a log; `others` are fields that the job lacks or that differ."""
    same = {name: getattr(job, name) for name in _OF_JOB}
    ids = {"batch_system": job.key.batch_system, "job_id": job.key.job_id}
    return JobRecord(**{**ids, **same, "wall_limit_secs": job.limits.wall_secs, **others})


def queue_pairs(job: Job) -> tuple[tuple[str, str | Number], ...]:
    """Return values that only the queue, not accounting, reports: name-value pairs for `JobRecord.more`."""
    return pairs(gres_detail="\n".join(job.gres_detail) or None, min_cpus_per_node=job.min_cpus_per_node)


class LastLine(str):
    """The last line of a file that does not end with a newline."""

    __slots__ = ()


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text without newlines; a last line that has no newline is a `LastLine`."""
    *lines, last = text.split("\n")
    yield from lines
    if last:
        yield LastLine(last)


def some_at_once(records: Iterable[JobRecord]) -> Iterator[list[JobRecord]]:
    """Yield the records in lists of up to `AT_ONCE`."""
    rest = iter(records)
    while some := list(islice(rest, AT_ONCE)):
        yield some


class Lost(Protocol):
    """The type of functions that count values or jobs that are lost or merged, by field, or by reason."""

    def __call__(self, name: str, count: int = 1, /) -> None:
        """Add to the count of a name."""


Pair = tuple[Any, Any]  # the key to sort by, and a value
Sorter = Callable[[Iterable[Pair]], Iterable[Pair]]


def sort_in_memory(pairs: Iterable[Pair]) -> Iterable[Pair]:
    """Sort (key, value) pairs by key; the sort is stable."""
    return sorted(pairs, key=itemgetter(0))


def several_clusters(records: Iterable[JobRecord]) -> str:
    """Return the names of the clusters of these records, at most four; "" if all are of one cluster."""
    found = sorted({shown_name(each.cluster) for each in records if each.cluster})
    more = ["…"] if len(found) > 4 else []
    return ", ".join([*found[:4], *more]) if len(found) > 1 else ""
