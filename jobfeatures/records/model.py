"""Defines the data model of jobs: frozen records, without I/O or clock.

A limit that is unknown, one that does not exist, and a number are distinct: `None`, `UNLIMITED` and an `int`.
Times are whole seconds since the epoch, sizes are in bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, NamedTuple

from jobfeatures.errors import Rejected


class Unlimited(enum.Enum):
    """The type of `UNLIMITED`: a limit that is known not to exist."""

    UNLIMITED = "unlimited"

    def __repr__(self) -> str:
        return "UNLIMITED"


UNLIMITED: Final = Unlimited.UNLIMITED
Limit = int | Unlimited | None


def multiplied(limit: Limit, count: int | None) -> Limit:
    """Return `limit` × `count`: the total of a limit per CPU or slot.

    UNLIMITED stays UNLIMITED; the result is None if a value is unknown, or if a job has no CPU at all: then
    this is no limit, but readers would take it for one that is used up.
    """
    if not isinstance(limit, int):
        return limit
    return limit * count if count else None


class JobState(enum.Enum):
    """The state of a job, with the names of Slurm's accounting."""

    # Members are singletons: hashing by identity is faster than by name.
    __hash__ = object.__hash__

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_on_node(self) -> bool:
        """Return whether a job in this state occupies its node."""
        return self in _ON_NODE

    @property
    def is_finished(self) -> bool:
        """Return whether a job in this state has certainly ended; False for UNKNOWN."""
        return self in _FINISHED


_ON_NODE = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})
_FINISHED = frozenset(JobState) - _ON_NODE - {JobState.PENDING, JobState.UNKNOWN}


_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def _quoted(text: str) -> str:
    if _UNRESERVED.issuperset(text):
        return text
    from urllib.parse import quote  # costs a hook three milliseconds, and most ids do not need it

    return quote(text, safe="")


class JobKey(NamedTuple):
    """The identity of a job on a node: its batch system and its job id.

    Two batch systems may use the same job id.
    """

    batch_system: str
    job_id: str

    @property
    def directory_name(self) -> str:
        """Return the job's name as one safe path component (``slurm-1234``): no slash, no leading dot."""
        return f"{self.batch_system}-{_quoted(self.job_id)}"

    def is_called(self, text: str) -> bool:
        """Return whether a text is the job's id; the schedd's name in an id of HTCondor may be left out."""
        return text in (self.job_id, self.job_id.partition("@")[0])

    @classmethod
    def from_directory_name(cls, name: str) -> JobKey | None:
        """Return the key whose `directory_name` is `name`; None if there is no such key."""
        batch_system, dash, quoted = name.partition("-")
        if not (dash and batch_system and quoted):
            return None
        if "%" in quoted:
            from urllib.parse import unquote

            quoted = unquote(quoted)
        key = cls(batch_system, quoted)
        return key if key.directory_name == name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A job's resource and time limits on this node: each a number, `UNLIMITED`, or None if unknown."""

    wall_secs: Limit = None  # elapsed from the start, not multiplied by CPUs
    cpu_secs: Limit = None  # total over all processes
    memory_bytes: Limit = None  # resident, all processes
    swap_bytes: Limit = None
    scratch_bytes: Limit = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job as its batch system reports it. An unknown value is None or empty, never zero.

    Times are in epoch seconds. `total_…` fields are over all nodes; `allocated_cpus`, `allocated_gpus` and
    `gpus` are on this node. `limit_end_secs` is when the wall limit ends the job, as the batch system
    computed it. By `deadline_secs` the job must have ended whatever its limit, with at least `grace_secs`
    seconds of notice. `tasks` is the number of jobs that the record of a pending array represents.
    """

    key: JobKey
    state: JobState = JobState.UNKNOWN
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    account: str | None = None
    partition: str | None = None
    submit_secs: int | None = None
    start_secs: int | None = None
    planned_secs: int | None = None  # when the batch system plans to start it, while it is pending
    end_secs: int | None = None  # None until it has ended
    nodes: tuple[str, ...] = ()
    total_cpus: int | None = None  # over all nodes
    allocated_cpus: int | None = None  # on this node
    limits: Limits = field(default_factory=Limits)
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    het_offset: int | None = None
    restarts: int | None = None
    allocated_gpus: int | None = None  # on this node
    gpus: tuple[str, ...] = ()  # on this node, as the batch system names them: index, minor number or UUID
    gpu_devices: tuple[str, ...] = ()  # the same by the numbers of their device files, where these are told
    sluid: str | None = None  # Slurm's own unique id
    cluster: str | None = None  # Slurm's name of it, as hooks are told
    schedd: str | None = None  # HTCondor's, where the job was submitted
    slot: str | None = None  # HTCondor's, where it runs
    starters: frozenset[int] = frozenset()  # HTCondor's, on this node: process ids
    limit_end_secs: int | None = None  # when its wall limit ends it, as computed by the batch system
    deadline_secs: int | None = None  # by which it must have ended, whatever its limit; may be withdrawn
    grace_secs: int | None = None  # least notice of such an end that its batch system gives
    ran_secs: int | None = None  # run time used of its wall limit before it was suspended
    total_nodes: int | None = None  # allocated, or requested while it is pending
    total_gpus: int | None = None  # over all nodes
    tasks: int = 1  # more than one for a pending array: the jobs that this record represents
    reason: str | None = None  # why it is not running, as the batch system words it
    is_held: bool = False  # it waits until somebody releases it, whatever its reason says
    eligible_secs: int | None = None  # earliest time at which it may start
    priority: int | None = None
    reservation: str | None = None
    cpu_factor: str | None = None  # of this node, from the batch system's configuration: a decimal
    gres_detail: tuple[str, ...] = ()  # generic resources by node, in Slurm's notation
    min_cpus_per_node: int | None = None
    processes: frozenset[int] = frozenset()  # process or process-group ids, where the source names them
    sessions: frozenset[int] = frozenset()

    @property
    def has_ended(self) -> bool:
        """Return whether the job has ended: it has an end time or a final state."""
        return self.state.is_finished or self.end_secs is not None

    @property
    def end_limit_secs(self) -> int | None:
        """Return when the wall limit ends this job, in epoch seconds.

        Returns None if that is unknown or the limit is unlimited.
        """
        wall_secs = self.limits.wall_secs
        if not isinstance(wall_secs, int):
            return None
        if self.limit_end_secs is not None:
            return self.limit_end_secs
        return None if self.start_secs is None else self.start_secs + wall_secs

    def end_limit_at(self, now_secs: float) -> float | None:
        """Return when the wall limit ends the job (epoch seconds; None: unknown or no limit).

        A suspended job counts as resumed now. A completing job ends now: its batch system has ended it. A
        running job has started, even if its start lies in the future by this clock, so it never has more than
        its limit left.
        """
        if self.state is JobState.COMPLETING:
            return now_secs
        wall_secs = self.limits.wall_secs
        if self.state is JobState.SUSPENDED and self.ran_secs is not None and isinstance(wall_secs, int):
            return now_secs + max(0, wall_secs - self.ran_secs)
        end_secs = self.end_limit_secs
        if end_secs is None or not isinstance(wall_secs, int):
            return None
        return min(end_secs, now_secs + wall_secs)

    @property
    def wall_limit_from_start_secs(self) -> Limit:
        """Return the wall limit in seconds since the start: time for which the job was suspended is added."""
        wall_secs = self.limits.wall_secs
        if isinstance(wall_secs, int) and None not in (self.limit_end_secs, self.start_secs):
            return max(0, (self.limit_end_secs or 0) - (self.start_secs or 0))
        return wall_secs


class Alias(NamedTuple):
    """A name in a control group's path that is not a job id, but belongs to a job.

    `field` is the field of `Job` in which the batch system reports this name. With `is_reused`, several jobs
    have the name one after another. `remedy` says what an administrator has to do if two control groups have
    the same name.
    """

    field: str
    name: str = ""
    is_reused: bool = False
    remedy: str = ""

    def is_of(self, job: Job) -> bool:
        """Return whether the batch system reports this alias for the job."""
        return bool(getattr(job, self.field) == self.name)

    def stands_for(self, key: object) -> bool:
        """Return whether a key has this alias in place of a job id, because its job is not yet known."""
        return isinstance(key, JobKey) and key.job_id == self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition or queue of a cluster."""

    name: str
    nodes: tuple[str, ...] = ()
    state: str | None = None  # the batch system's word


# Names of node states, base states first.
NODE_STATES: Final = (
    *("ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN"),
    *("BLOCKED", "CLOUD", "COMPLETING", "DRAIN", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "FAIL", "INVALID_REG"),
    *("MAINTENANCE", "NOT_RESPONDING", "PLANNED", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"),
    *("POWER_DOWN", "REBOOT_ISSUED", "REBOOT_REQUESTED", "RESERVED"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node as the batch system reports it; None means unknown.

    `states` are upper-case names such as IDLE and DRAIN; `reason` says why the node is drained or down.
    """

    name: str
    states: tuple[str, ...]
    cpus: int | None = None
    allocated_cpus: int | None = None
    memory_bytes: int | None = None
    allocated_memory_bytes: int | None = None
    gpus: int | None = None
    allocated_gpus: int | None = None
    address: str | None = None  # at which the batch system reaches it
    features: tuple[str, ...] = ()  # the active ones
    reason: str = ""  # the category of what an administrator or the batch system wrote, never the text


@dataclass(frozen=True, slots=True)
class Cluster:
    """One answer of a batch system about its nodes and partitions, as of `taken_at_secs` (epoch seconds)."""

    source: str
    taken_at_secs: float
    nodes: tuple[ClusterNode, ...] = ()
    partitions: tuple[Partition, ...] = ()
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeNotice:
    """What a batch system reports about this node as a whole.

    `draining`: the batch system starts no more jobs here. `shutdowns`: epoch seconds at which the node will
    be taken down, including past ones that are still in force. `cpus`: the number of CPUs that it can
    allocate here, None if not reported. `features`: values that it reports for $MACHINEFEATURES keys.
    """

    draining: bool = False
    shutdowns: tuple[int, ...] = ()
    cpus: int | None = None
    features: Mapping[str, str] = field(default_factory=dict)


Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """One answer of a source of jobs, such as a batch system, about the jobs of this node.

    `complete`: all queries were answered. If `gone` is None, a job missing from a complete table has ended.
    Otherwise only the jobs in `gone` are not here: it maps each to the time of that answer. `reported_secs`
    has jobs reported at another time than `taken_at_secs`. `versions` identify prolog records. `node_problem`
    says why there is no `node`. For `groupless` jobs, no control group is expected here.
    """

    source: str
    jobs: Mapping[JobKey, Job]
    taken_at_secs: float
    complete: bool
    rejected: tuple[Rejected, ...] = ()
    node: NodeNotice | None = None
    node_problem: str = ""
    reported_secs: Mapping[JobKey, float] = field(default_factory=dict)
    gone: Mapping[JobKey, float] | None = None
    versions: Mapping[JobKey, Version] = field(default_factory=dict)
    replacements: int = 0
    clock_ahead_secs: float | None = None  # batch system's clock minus the node's, if reported
    groupless: frozenset[JobKey] = frozenset()

    @classmethod
    def listed(
        cls, source: str, jobs: Mapping[JobKey, Job], taken_at_secs: float, rejected: Sequence[Rejected]
    ) -> JobTable:
        """Make the table of a source that lists all its jobs here.

        It is complete unless a record was rejected.
        """
        return cls(
            source=source,
            jobs=jobs,
            taken_at_secs=taken_at_secs,
            complete=not rejected,
            rejected=tuple(rejected),
        )

    def answered_at_secs(self, key: JobKey) -> float:
        """Return when the answer that reports this job was given (epoch seconds)."""
        return self.reported_secs.get(key, self.taken_at_secs)

    def absent_at_secs(self, key: JobKey) -> float | None:
        """Return when the source answered that this job is not on this node, in epoch seconds.

        Returns None if the source has the job, or has not answered about it.
        """
        if key in self.jobs:
            return None
        if self.gone is not None:
            return self.gone.get(key)
        return self.taken_at_secs if self.complete else None


_UNKNOWN: Final[tuple[object, ...]] = (None, (), frozenset(), JobState.UNKNOWN)
# A deadline that is no longer reported has been withdrawn.
_OF_JOB: Final = tuple(each.name for each in fields(Job) if each.name not in {"limits", "deadline_secs"})
_OF_LIMITS: Final = tuple(each.name for each in fields(Limits))


def fill_unknown(job: Job, other: Job) -> Job:
    """Return a copy of `job` whose unknown fields are filled from `other`, another record of the job."""
    changes: dict[str, object] = {}
    wall_secs = job.limits.wall_secs
    is_other_limit = wall_secs != other.limits.wall_secs and None not in (wall_secs, other.limits.wall_secs)
    for name in _OF_JOB:
        mine = getattr(job, name)
        if name == "limit_end_secs" and is_other_limit:
            continue  # it was the other limit's
        if mine in _UNKNOWN and (theirs := getattr(other, name)) != mine:
            changes[name] = theirs
    if job.limits != other.limits:
        limits = {
            name: getattr(other.limits, name) for name in _OF_LIMITS if getattr(job.limits, name) is None
        }
        if limits:
            changes["limits"] = replace(job.limits, **limits)
    return replace(job, **changes) if changes else job  # type: ignore[arg-type]  # names come from fields()
