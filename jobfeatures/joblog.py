"""Jobs as logs and the accounting of batch systems report them: frozen records, no I/O.

A `JobRecord` is what one line, element or object says of one job (or of one step of it) over all its nodes,
usually after it has ended. Every kind of log and every accounting has this record. `Job` of
`jobfeatures.model` is what a node knows of a job that may still run.

A format of such logs is one file that offers

``recognise(head)``
    whether a text that begins like this (4 KiB at most) is of the format,
``read_records(lines, source=…, notes=…)``
    what the lines say: records, and `Rejected` for those that could not be
    read. `notes` take what was not taken over and what was repaired. One that
    repairs takes ``strict=True``: it repairs nothing, and raises ParseError. One whose
    logs have steps takes ``folds_steps=True``: those behind their job are counted
    in `notes`, as read and as folded, others come as `StepUse`.
``write_records(records, lost)``
    the lines that say it; only of formats that are written. `lost` is called,
    with the field's name, for every value that the format cannot hold, and with a
    name that begins with ``job `` for every job that has no place as a whole.

A format that can be written as it was read takes ``keep_text=True`` in its reader: records have their
`source_text` then, what stands between them comes as `Passage`, and its writer puts both back where the
record still says what its text does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from jobfeatures.errors import Rejected, shown_name
from jobfeatures.model import Job, JobKey, JobState, Limit
from jobfeatures.quickrecord import quickly_made

Number = int | float


MOST: Final = 400_000  # that wait in memory: some 500 MB of jobs
AT_ONCE: Final = 256  # that are written together: a few of them fit into a processor's cache
MAX_SHOWN: Final = 20  # rejected records that are kept, the others are counted
WHOLE_JOB: Final = "job "  # what is lost under a name that begins so is a job as a whole


class Passage(NamedTuple):
    """What stands in a log and is no job: comments, empty lines. With its newlines."""

    kind: str
    text: str


class SourceText(NamedTuple):
    """The lines that a record was read from, with newlines; `record`: what they say, if not by themselves."""

    kind: str
    text: str
    record: JobRecord | None = None


class StepUse(NamedTuple):
    """What a step adds to its job, in place of its record where nobody wants to have that."""

    batch_system: str
    job_id: str
    cluster: str | None
    step: str
    used_memory_bytes: int | None


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job of a log, or one step of a job. Absent knowledge is None or empty, never zero.

    Times are seconds since the epoch, or since the log's start where the log tells no more. Sizes are bytes,
    and like CPU time they are of the whole job, all processors and nodes together.
    """

    batch_system: str
    job_id: str
    cluster: str | None = None  # or the server, whose job ids these are
    step: str | None = None  # None: the job itself
    state: JobState = JobState.UNKNOWN
    state_word: str | None = None  # the batch system's own, where it is another
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
    run_secs: Number | None = None  # as the log tells it, without suspensions; see `compute_run_secs`
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
    workflow_id: str | None = None  # of jobs that are one piece of work
    preceding_job_id: str | None = None
    think_secs: Number | None = None  # between the end of that one and the submission of this
    more: tuple[tuple[str, str | Number], ...] = ()  # what few kinds tell, by name: see MORE
    source_text: SourceText | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> JobKey:
        """Return the job's key, of a step that of its job."""
        return JobKey(self.batch_system, self.job_id)


# What few kinds of logs tell; `average_`, `min_` and `max_` are over the tasks of a step.
MORE: Final = frozenset(
    {
        *("distribution", "requested_resources", "allocated_resources"),
        *("gres_detail", "min_cpus_per_node"),  # the first by node, with newlines between them
        *("min_cpu_secs", "average_cpu_secs", "average_read_bytes", "average_written_bytes"),
        *("average_resident_bytes", "average_virtual_bytes", "max_resident_bytes", "max_virtual_bytes"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """One answer of a batch system's accounting."""

    source: str
    records: tuple[JobRecord, ...]
    taken_at_secs: float
    rejected: tuple[Rejected, ...] = ()

    @classmethod
    def of(
        cls, source: str, records: Iterable[JobRecord], taken_at_secs: float, rejected: Iterable[Rejected]
    ) -> Accounting:
        """Return an answer of these records, without those that were bad."""
        return cls(
            source=source, records=tuple(records), taken_at_secs=taken_at_secs, rejected=tuple(rejected)
        )


_ENTRIES: Final = (JobRecord, StepUse)  # as a union it would be made anew for each


@dataclass(slots=True)
class Notes:
    """What became of the records of one log."""

    read: int = 0
    rejected: int = 0
    shown: list[Rejected] = field(default_factory=list)  # the first of them
    not_taken: Counter[str] = field(default_factory=Counter)  # reported by the log alone
    repaired: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)  # values that the other log cannot hold
    folded: Counter[str] = field(default_factory=Counter)  # records that became one with another

    @property
    def is_whole(self) -> bool:
        """Return whether every job that was there is there again."""
        return not self.rejected and not any(name.startswith(WHOLE_JOB) for name in self.lost)

    def lose(self, name: str) -> None:
        """Count a value that has no place."""
        self.lost[name] += 1

    def fold(self, name: str) -> None:
        """Count a record that became one with another."""
        self.folded[name] += 1

    def accepted(self, found: Iterable[JobRecord | StepUse | Rejected | Passage]) -> Iterator[JobRecord]:
        """Return the records, counted; what was rejected is noted."""
        return (each for each in self.accepted_with_passages(found) if isinstance(each, JobRecord))

    def accepted_with_passages(
        self, found: Iterable[JobRecord | StepUse | Rejected | Passage]
    ) -> Iterator[JobRecord | StepUse | Passage]:
        """Return the same, and what stands between the records."""
        for each in found:
            if isinstance(each, _ENTRIES):
                self.read += 1
                yield each
            elif isinstance(each, Passage):
                yield each
            else:
                self.rejected += 1
                if len(self.shown) < MAX_SHOWN:
                    self.shown.append(each)

    def lines(self) -> Iterator[str]:
        """Yield what is to report about them, but for what was rejected, line by line."""
        reported = (
            ("repaired", self.repaired),
            ("not taken", self.not_taken),
            ("folded", self.folded),
            ("lost", self.lost),
        )
        for what, counts in reported:
            yield from (f"{what}: {name} ({count})" for name, count in sorted(counts.items()) if count)


def compute_run_secs(record: JobRecord) -> Number | None:
    """Return how long a job ran: as logged, else without suspensions; None: unknown; < 0: clock set back."""
    if record.run_secs is not None:
        return record.run_secs
    if record.start_secs is None or record.end_secs is None:
        return None
    return record.end_secs - record.start_secs - (record.suspended_secs or 0)


def pairs(**values: str | Number | None) -> tuple[tuple[str, str | Number], ...]:
    """Return what is known of these values, as `JobRecord.more` holds it."""
    return tuple((name, value) for name, value in values.items() if value is not None)


_OF_JOB: Final = (
    *("state", "name", "user", "account", "partition", "reservation", "priority"),
    *("submit_secs", "start_secs", "end_secs", "nodes"),
    *("array_job_id", "array_task_id", "het_job_id", "het_offset"),
)


def record_of(job: Job, **others: Any) -> JobRecord:
    """Return the record of what is known of a job, with other fields, or other values."""
    same = {name: getattr(job, name) for name in _OF_JOB}
    ids = {"batch_system": job.key.batch_system, "job_id": job.key.job_id}
    return JobRecord(**{**ids, **same, "wall_limit_secs": job.limits.wall_secs, **others})


def queue_pairs(job: Job) -> tuple[tuple[str, str | Number], ...]:
    """Return what the queue knows of a job and accounting does not, as `JobRecord.more` holds it."""
    return pairs(gres_detail="\n".join(job.gres_detail) or None, min_cpus_per_node=job.min_cpus_per_node)


class LastLine(str):
    """A line that ends its file, without a newline."""

    __slots__ = ()


def lines_of(text: str) -> Iterator[str]:
    """Yield a text of whole lines as lines without newlines."""
    *lines, last = text.split("\n")
    yield from lines
    if last:
        yield LastLine(last)


def some_at_once(records: Iterable[JobRecord]) -> Iterator[list[JobRecord]]:
    """Yield records, some at a time."""
    rest = iter(records)
    while some := list(islice(rest, AT_ONCE)):
        yield some


Lost = Callable[[str], None]
Pair = tuple[Any, Any]  # what is sorted by, and what comes with it
Sorter = Callable[[Iterable[Pair]], Iterable[Pair]]


def sort_in_memory(pairs: Iterable[Pair]) -> Iterable[Pair]:
    """Return pairs in the order of their first, equal ones as they came."""
    return sorted(pairs, key=itemgetter(0))


def several_clusters(records: Iterable[JobRecord]) -> str:
    """Return the names of the clusters whose jobs these are, four at most; empty if there is but one."""
    found = sorted({shown_name(each.cluster) for each in records if each.cluster})
    more = ["…"] if len(found) > 4 else []
    return ", ".join([*found[:4], *more]) if len(found) > 1 else ""
