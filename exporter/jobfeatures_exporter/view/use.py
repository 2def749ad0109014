"""What a job was allocated and used in one execution, by node, with sums and shares. No I/O.

Sizes are in bytes, durations in seconds, times in Unix time. None is unknown. A share or a sum covers the
nodes for which all of its terms are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from jobfeatures.joblogs.loggedjob import TOO_MUCH_CPU_TIME, is_too_much_cpu_time
from jobfeatures.records.combining import max_known, sum_known
from jobfeatures_exporter.view.thresholds import NEAR_MEMORY

DOUBTFUL_CPU_TIME = f"{TOO_MUCH_CPU_TIME}: wrong, or it is not confined to its CPUs"


@dataclass(frozen=True, slots=True)
class Place:
    """A node, identified by labels on a Prometheus server: `name` is its label node, else its instance."""

    name: str  # the label node where it has one, else instance
    instance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """What a job used of one GPU card; a field is None or "" if unknown.

    `minor` is the number in the name of the card's device file, such as 0 for ``/dev/nvidia0``. `busy_secs`
    is for how many seconds the card worked for the job. `memory_peak` is the most memory of the card that the
    job used, and `memory` is all memory that the card has, both in bytes.
    """

    uuid: str
    minor: str = ""  # its device file's number, if known
    model: str = ""
    is_allocated: bool = False
    busy_secs: float | None = None  # the job's part; 0 only where the card's own use is known
    memory_peak: float | None = None
    memory: float | None = None  # of the card


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """What a job was allocated and used on one node; a field is None if unknown.

    `allocated_memory` is the kernel's limit, else the batch system's allocation. `memory_peak` is without
    page cache, `charged_peak` with it. `stalled_secs` is the time by resource in which some task waited for
    it, `all_stalled_secs` in which all did. `throttled_secs` is due to a CPU quota, summed over CPUs.
    `claimed_cpus` is the CPU use that a pilot reports. `coverage` is the share of the job's time for which
    Prometheus has samples.
    """

    place: Place
    elapsed_secs: float | None = None  # of the job
    allocated_cpus: float | None = None
    cpu_secs: float | None = None
    allocated_memory: float | None = None  # the kernel's limit, else the batch system's allocation
    memory_peak: float | None = None  # the highest of `jobs.USED`: without page cache
    charged_peak: float | None = None  # with page cache
    oom_kills: float | None = None
    limit_hits: float | None = None
    allocated_gpus: float | None = None
    gpus: tuple[GpuUse, ...] = ()
    cpu_joules: float | None = None
    gpu_joules: float | None = None
    stalled_secs: Mapping[str, float] = field(default_factory=dict)  # by resource: some task waited for it
    all_stalled_secs: Mapping[str, float] = field(default_factory=dict)  # all non-idle tasks were stalled
    throttled_secs: float | None = None  # by a CPU quota, summed over CPUs
    suspended_secs: float = 0.0
    claimed_cpus: float | None = None  # that a pilot says its payloads use: the mean, or what a page has now
    storage_read_bytes: float | None = None
    storage_written_bytes: float | None = None
    threads: float | None = None  # on average
    coverage: float | None = None  # share of the job's time in which Prometheus has samples of it

    @property
    def active_secs(self) -> float | None:
        """Return for how many seconds the job ran without being suspended; None if unknown."""
        return None if self.elapsed_secs is None else max(0.0, self.elapsed_secs - self.suspended_secs)

    @property
    def cpu_share(self) -> float | None:
        """Return the CPU time used on the node as a share (0 to 1) of allocated CPUs × active time.

        None if any of these is unknown.
        """
        return compute_ratio(self.cpu_secs, multiply(self.allocated_cpus, self.active_secs))

    @property
    def memory_share(self) -> float | None:
        """Return the peak of memory on the node as a share (0 to 1) of the memory allocated there.

        None if either is unknown.
        """
        return compute_ratio(self.memory_peak, self.allocated_memory)

    @property
    def gpu_secs(self) -> float | None:
        """Return the seconds that the node's cards worked for the job; None if unknown for any card."""
        secs = [each.busy_secs for each in self.gpus if each.busy_secs is not None]
        return sum(secs) if secs and len(secs) == len(self.gpus) else None

    @property
    def gpu_count(self) -> float | None:
        """Return the number of GPU cards allocated on the node; None if unknown."""
        named = sum(each.is_allocated for each in self.gpus)
        return self.allocated_gpus if self.allocated_gpus is not None else (named or None)


class _Sum:
    """A figure of a job: the sum over the nodes where it is known, None if there are none."""

    def __init__(self, value_of: Callable[[NodeUse], float | None]) -> None:
        self._value_of = value_of

    def __get__(self, report: JobUse, owner: type[JobUse]) -> float | None:
        return sum_known(map(self._value_of, report.nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUse:
    """What a job was allocated and used in one execution, on all its nodes; a field is None if unknown.

    `info` has descriptive labels such as user and account. Times are in Unix time: `end_secs` is None while
    it runs, and `seen_until_secs` is that of the last sample. `wall_limit_secs` is +Inf if unlimited. `notes`
    are remarks for the reader of a report.
    """

    batch_system: str
    job_id: str
    cluster: str = ""
    info: Mapping[str, str] = field(default_factory=dict)  # descriptive labels: user, account, …
    state: str = ""
    is_running: bool = False
    start_secs: float | None = None
    end_secs: float | None = None  # None while it is running
    seen_until_secs: float | None = None
    wall_limit_secs: float | None = None  # +Inf: known to be unlimited
    nodes: tuple[NodeUse, ...] = ()
    notes: tuple[str, ...] = ()

    allocated_cpus = _Sum(lambda node: node.allocated_cpus)
    cpu_secs = _Sum(lambda node: node.cpu_secs)
    allocated_memory = _Sum(lambda node: node.allocated_memory)
    memory_peak = _Sum(lambda node: node.memory_peak)  # the nodes' peaks may have been at different times
    gpu_count = _Sum(lambda node: node.gpu_count)
    gpu_secs = _Sum(lambda node: node.gpu_secs)  # computed by cards for it
    cpu_joules = _Sum(lambda node: node.cpu_joules)  # of processors and their memory
    gpu_joules = _Sum(lambda node: node.gpu_joules)
    oom_kills = _Sum(lambda node: node.oom_kills)  # processes killed when memory ran out
    claimed_cpus = _Sum(lambda node: node.claimed_cpus)
    throttled_secs = _Sum(lambda node: node.throttled_secs)  # by its quota, summed over CPUs
    threads = _Sum(lambda node: node.threads)  # on average
    # Allocated but not used while the job was not suspended: others may have had its CPUs then.
    idle_cpu_secs = _Sum(lambda node: _minus(multiply(node.allocated_cpus, node.active_secs), node.cpu_secs))
    idle_gpu_secs = _Sum(lambda node: _minus(multiply(node.gpu_count, node.active_secs), node.gpu_secs))
    unused_memory = _Sum(lambda node: _minus(node.allocated_memory, node.memory_peak))

    @property
    def has_impossible_cpu_time(self) -> bool:
        """Return whether the CPU time on any node is more than the job's CPUs there can have used."""
        return any(
            is_too_much_cpu_time(node.cpu_secs, node.allocated_cpus, node.elapsed_secs) for node in self.nodes
        )

    def with_warnings(self) -> JobUse:
        """Return this record, with a warning added to its notes if its CPU time is impossible."""
        warnings = (DOUBTFUL_CPU_TIME,) if self.has_impossible_cpu_time else ()
        return replace(self, notes=self.notes + warnings)

    @property
    def elapsed_secs(self) -> float | None:
        """Return for how many seconds the job ran, or had run when it was last seen; None if unknown."""
        until = self.end_secs if self.end_secs is not None else self.seen_until_secs
        if self.start_secs is None or until is None:
            return None
        return max(0.0, until - self.start_secs)

    @property
    def time_share(self) -> float | None:
        """Return the elapsed time as a share (0 to 1) of the job's wall limit.

        None if either is unknown or there is no limit.
        """
        limit = self.wall_limit_secs
        return None if limit is None or math.isinf(limit) else compute_ratio(self.elapsed_secs, limit)

    @property
    def cpu_share(self) -> float | None:
        """Return CPU time used on all nodes as a share (0 to 1) of allocated CPUs × active time.

        Nodes for which any of these is unknown do not count; None if none is left.
        """
        return self._share(
            lambda node: node.cpu_secs, lambda node: multiply(node.allocated_cpus, node.active_secs)
        )

    @property
    def cpus_used(self) -> float | None:
        """Return how many CPUs the job used on average while it ran; None if unknown."""
        return compute_ratio(self.cpu_secs, self.active_secs)

    @property
    def memory_share(self) -> float | None:
        """Return the sum of the nodes' memory peaks as a share (0 to 1) of the memory allocated there.

        Nodes for which either is unknown do not count; None if none is left.
        """
        return self._share(lambda node: node.memory_peak, lambda node: node.allocated_memory)

    @property
    def gpu_share(self) -> float | None:
        """Return the share (0 to 1) of the job's active time for which its GPUs worked, a mean over the GPUs.

        Nodes for which that is unknown do not count; None if none is left.
        """
        return self._share(
            lambda node: node.gpu_secs, lambda node: multiply(node.gpu_count, node.active_secs)
        )

    @property
    def suspended_secs(self) -> float:
        """Return for how many seconds the job was suspended."""
        return max((node.suspended_secs for node in self.nodes), default=0.0)

    @property
    def active_secs(self) -> float | None:
        """Return for how many seconds the job ran without being suspended; None if unknown."""
        elapsed = self.elapsed_secs
        return None if elapsed is None else max(0.0, elapsed - self.suspended_secs)

    @property
    def ran_out_of_memory(self) -> bool:
        """Return whether the OOM killer killed a process of the job, or the job's final state says so."""
        return bool(self.oom_kills) or self.state == "OUT_OF_MEMORY"

    def stalled_share(self, resource: str, *, all_tasks: bool = False) -> float | None:
        """Return the share of the job's time for which a task waited for a resource: cpu, memory or io.

        With `all_tasks`, the time counts only if all tasks waited. It is the mean over the nodes; None:
        unknown.
        """
        return self._share(
            lambda node: (node.all_stalled_secs if all_tasks else node.stalled_secs).get(resource),
            lambda node: node.elapsed_secs,
        )

    def _share(
        self, part_of: Callable[[NodeUse], float | None], whole_of: Callable[[NodeUse], float | None]
    ) -> float | None:
        parts = wholes = 0.0
        for node in self.nodes:
            part, whole = part_of(node), whole_of(node)
            if part is not None and whole is not None:
                parts, wholes = parts + part, wholes + whole
        return parts / wholes if wholes > 0 else None


def without_missed_peaks(report: JobUse) -> JobUse:
    """Return `report`; if the job ran out of memory, memory peaks that samples must have missed are None.

    Samples miss what a process allocates just before it is killed; the kernel's own peak includes it. A peak
    far below the memory allocated on its node was missed.
    """
    if not report.ran_out_of_memory:
        return report
    nodes = (
        node if report.oom_kills and not node.oom_kills else replace(node, memory_peak=_peak_of_killed(node))
        for node in report.nodes
    )
    return replace(report, nodes=tuple(nodes))


def _peak_of_killed(node: NodeUse) -> float | None:
    peak = max_known(node.memory_peak, node.charged_peak)
    if peak is None or (node.allocated_memory and peak < NEAR_MEMORY * node.allocated_memory):
        return None
    return peak


def compute_ratio(part: float | None, whole: float | None) -> float | None:
    """Return part ÷ whole; None if either is unknown or the whole is 0."""
    return None if part is None or not whole else part / whole


def multiply(one: float | None, other: float | None) -> float | None:
    """Return the product of two numbers; None if either is unknown."""
    return None if one is None or other is None else one * other


def _minus(whole: float | None, part: float | None) -> float | None:
    return None if whole is None or part is None else max(0.0, whole - part)
