"""What is shown of one job: samples of /metrics, and ratios between them. No I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.records.metrics import (
    JOB_CPUS,
    JOB_DRAINING_WASTE,
    JOB_END,
    JOB_INFO,
    JOB_KILL_WASTE,
    JOB_REMAINING,
    JOB_SAYS_CPUS,
    JOB_START,
    NODE_READ_AT,
    Metric,
    names_job,
)
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.status.waste import Basis, RemainingBasis
from jobfeatures_exporter.cluster.overview import user_of
from jobfeatures_exporter.families.exposition import Number, Values
from jobfeatures_exporter.scrape.collectors import allocation, gpus, jobs, remaining, status, waste
from jobfeatures_exporter.state.cpurates import compute_rate
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.thresholds import ENDS_SOON_SECS, MEMORY_FULL
from jobfeatures_exporter.view.waste import NO_WASTE, UNKNOWN_WASTE, WasteNow, compute_unused

# The metrics that the view of a job is built from.
METRICS = (
    *(JOB_INFO, allocation.STATE, JOB_START, JOB_END, allocation.REMAINS),
    *(JOB_CPUS, allocation.ALLOCATED_GPUS, allocation.MEMORY, allocation.WALL),
    *(jobs.CPU, jobs.MEMORY, jobs.USED, jobs.LIMIT, jobs.PROCESSES, jobs.THREADS, jobs.PRESSURE),
    *(gpus.JOB_ALLOCATED, gpus.JOB_UTILIZATION, gpus.JOB_MEMORY, gpus.JOB_BUSY, gpus.UTILIZATION),
    *(
        JOB_REMAINING,
        JOB_DRAINING_WASTE,
        JOB_KILL_WASTE,
        waste.OVERDUE,
        status.AGE,
        JOB_SAYS_CPUS,
        NODE_READ_AT,
    ),
)


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """A job's user, name and state; "": unknown. `task` is its id as a task of a job array, such as 30_2."""

    user: str = ""
    name: str = ""
    state: str = JobState.UNKNOWN.value
    task: str = ""  # of a job array, as squeue shows it: 30_2, though its job id is another


@dataclass(frozen=True, slots=True)
class GpuView:
    """What a job uses of one GPU; a field is None if unknown.

    `share` is the fraction (0 to 1) of recent time in which the GPU worked for the job. `busy_share` is the
    same for all work on the GPU. `busy_secs` is for how many seconds the GPU has worked for the job since the
    job was first seen on the GPU. `part` is how much of the GPU is allocated to the job: 1 ÷ the number of
    jobs to which the GPU is allocated. `memory_bytes` is the memory of the GPU that the job uses.
    """

    uuid: str
    is_allocated: bool
    share: Number | None = None  # of the GPU's time, busy with the job's work
    memory_bytes: Number | None = None
    part: float = 1.0  # of the GPU: jobs that share one have equal parts
    busy_secs: Number | None = None  # with the job's work, since its start
    busy_share: Number | None = None  # of the GPU's time, with anybody's work


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What is shown of one job; a field is None if unknown. Sizes are in bytes, durations in seconds.

    `uncharged` is memory in huge pages that no limit counts, and `limit_metric` the metric of `memory_limit`.
    `left_secs` is the time until the first limit or deadline, and `left_basis` which one it is;
    `enforced_secs` is the same without the job's own estimate. `wall_secs` is +Inf if unlimited. `draining`
    and `kill` are core seconds that draining or killing it would waste; if `is_overdue`, `draining` is a
    lower bound. `claimed_cpus` is how many CPUs the job itself reports to use. For each resource,
    `stalled_secs` is the time in which some task waited for it, `all_stalled_secs` that in which all did.
    """

    key: JobKey
    identity: JobIdentity = JobIdentity()
    is_running: bool = True
    processes_remain: bool = False  # of a job that has ended
    cpus_now: float | None = None  # CPU seconds per second between the two latest samples
    cpus_mean: float | None = None  # since its start
    allocated_cpus: Number | None = None
    memory: Number | None = None  # see `jobs.USED`
    uncharged: Number = 0  # huge pages that count against no limit, but that no other job can have
    page_cache: Number | None = None
    memory_limit: Number | None = None
    limit_metric: Metric = jobs.LIMIT  # where `memory_limit` comes from
    gpus: tuple[GpuView, ...] = ()
    allocated_gpus: Number | None = None
    elapsed_secs: float | None = None
    wall_secs: Number | None = None  # +Inf: known to be unlimited
    left_secs: Number | None = None
    left_basis: RemainingBasis | None = None
    enforced_secs: Number | None = None  # left_secs without the job's own estimate
    ended_at_secs: Number | None = None
    processes: Number | None = None
    threads: Number | None = None
    draining: Number | None = None
    draining_basis: Basis | None = None
    is_overdue: bool = False  # its draining waste is a lower bound
    kill: Number | None = None
    kill_basis: Basis | None = None
    claimed_cpus: Number | None = None  # in use, as its JOBSTATUS reports
    stalled_secs: Mapping[str, Number] = field(default_factory=dict)  # by resource: some task waited for it
    all_stalled_secs: Mapping[str, Number] = field(default_factory=dict)  # all non-idle tasks did
    waste_now: WasteNow = UNKNOWN_WASTE  # relative to its node, see `view_node`

    @property
    def cpus_used(self) -> float | None:
        """Return how many CPUs the job uses now, else has used on average; None if neither is known."""
        return self.cpus_now if self.cpus_now is not None else self.cpus_mean

    @property
    def cpu_share(self) -> float | None:
        """Return the share, 0 to 1, of its allocated CPUs that the job uses; None if unknown."""
        used = self.cpus_used
        return None if used is None or not self.allocated_cpus else used / self.allocated_cpus

    @property
    def memory_share(self) -> float | None:
        """Return the share, 0 to 1, of its memory limit that the job uses; None if unknown."""
        return None if self.memory is None or not self.memory_limit else self.memory / self.memory_limit

    @property
    def gpus_used(self) -> float | None:
        """Return how many GPUs the job keeps busy, as a sum of shares; None if no driver reports that."""
        reported = [each.share for each in self.gpus if each.share is not None]
        return float(sum(reported)) if reported else None

    @property
    def given_gpus(self) -> Number | None:
        """Return how many GPUs are allocated to the job; None if unknown.

        If the allocated cards are known, these are counted; else it is the number that the batch system
        reports.
        """
        return sum(each.is_allocated for each in self.gpus) or self.allocated_gpus

    @property
    def is_unlimited(self) -> bool:
        """Return whether the job is known to have no wall limit, and nothing else will end it."""
        return self.left_secs is None and self.wall_secs is not None and math.isinf(self.wall_secs)

    @property
    def ends_soon(self) -> bool:
        """Return whether a limit or shutdown will soon end the job.

        The time left is then less than `ENDS_SOON_SECS`, and less than a third of the time that the job has
        run.
        """
        left = self.enforced_secs
        return left is not None and 0 <= left < min(ENDS_SOON_SECS, (self.elapsed_secs or 0.0) / 3)

    @property
    def is_late(self) -> bool:
        """Return whether a limit or shutdown should already have ended the job."""
        return self.enforced_secs is not None and self.enforced_secs < 0

    @property
    def is_near_its_memory(self) -> bool:
        """Return whether the job's memory use is close to its limit."""
        return self.memory_share is not None and self.memory_share >= MEMORY_FULL

    @property
    def time_share(self) -> float | None:
        """Return the elapsed share, 0 to 1, of the job's time until its first limit or deadline.

        None if the elapsed or the remaining time is unknown, or unlimited.
        """
        elapsed, left = self.elapsed_secs, self.left_secs
        if elapsed is None or left is None or not math.isfinite(left):
            return None
        whole = elapsed + max(0.0, left)
        return elapsed / whole if whole > 0 else 1.0


def find_jobs(numbers: Numbers) -> dict[JobKey, Values]:
    """Return the batch jobs that have an info series (`JOB_INFO`), with the values of its labels.

    The first two labels, batch system and job id, are left out.
    """
    return {JobKey(*job): next(iter(info)) for job, info in numbers.jobs(JOB_INFO).items() if names_job(*job)}


def identify(numbers: Numbers, key: JobKey, info: Values) -> JobIdentity:
    """Return a job's user, name, state and task id, as the samples `numbers` of the exporter's metrics show.

    `info` holds the values of the labels of the job's `JOB_INFO` series, as `find_jobs` returns them.
    """
    labels = dict(zip(JOB_INFO.label_names[2:], info, strict=True))
    uid = labels["uid"]
    states = [state for (state,) in numbers.of_job(allocation.STATE, key)]
    task = _task(key, labels["array_job_id"], labels["array_task_id"])
    state = next(iter(states), JobState.UNKNOWN.value)
    return JobIdentity(labels["user"] or (f"uid {uid}" if uid else ""), labels["name"], state, task)


def identity_of(job: Job) -> JobIdentity:
    """Return a job's identity from its batch system's record, for use when info series are disabled."""
    task = _task(job.key, job.array_job_id or "", job.array_task_id or "")
    return JobIdentity(user_of(job), job.name or "", job.state.value, task)


def _task(key: JobKey, array: str, task: str) -> str:
    return f"{array}_{task}" if array and task and key.job_id.isdigit() else ""


def view_job(
    numbers: Numbers, key: JobKey, identity: JobIdentity, *, now_secs: float, cpus_now: float | None
) -> JobView:
    """Return what is shown of a job at `now_secs` (Unix time), by the metrics in `numbers`.

    `cpus_now` is how many CPUs it uses now; None: unknown.
    """
    start, ended = numbers.one(JOB_START, *key), numbers.one(JOB_END, *key)
    processes_remain = numbers.one(allocation.REMAINS, *key) is not None
    elapsed = None if start is None else max(0.0, (ended if ended is not None else now_secs) - start)
    read_at = numbers.one(NODE_READ_AT) if ended is None else ended
    worked = None if start is None or read_at is None else read_at - start
    cpu_secs = find_cpu_secs(numbers, key)
    draining, draining_basis = by_basis(numbers, JOB_DRAINING_WASTE, *key)
    kill, kill_basis = by_basis(numbers, JOB_KILL_WASTE, *key)
    left, left_basis = _left(numbers, key)
    limit, limit_metric = find_memory_limit(numbers, key)
    memory = numbers.one(jobs.USED, *key)
    parts = [numbers.one(jobs.MEMORY, *key, each) or 0 for each in jobs.HELD]
    return JobView(
        key=key,
        identity=identity,
        is_running=ended is None,
        processes_remain=processes_remain,
        cpus_now=cpus_now if ended is None or processes_remain else None,
        cpus_mean=cpu_secs / worked if cpu_secs is not None and worked and worked > 0 else None,
        allocated_cpus=numbers.one(JOB_CPUS, *key),
        memory=memory,
        uncharged=max(0, sum(parts) - (memory or 0)),
        page_cache=numbers.one(jobs.MEMORY, *key, "file"),
        memory_limit=limit,
        limit_metric=limit_metric,
        gpus=_gpus(numbers, key),
        allocated_gpus=numbers.one(allocation.ALLOCATED_GPUS, *key),
        elapsed_secs=elapsed,
        wall_secs=numbers.one(allocation.WALL, *key),
        left_secs=left,
        left_basis=left_basis,
        enforced_secs=min(_enforced(numbers, key), default=None),
        ended_at_secs=ended,
        processes=numbers.one(jobs.PROCESSES, *key),
        threads=numbers.one(jobs.THREADS, *key),
        draining=draining,
        draining_basis=draining_basis,
        is_overdue=by_basis(numbers, waste.OVERDUE, *key)[0] is not None,
        kill=kill,
        kill_basis=kill_basis,
        claimed_cpus=numbers.one(JOB_SAYS_CPUS, *key),
        stalled_secs=find_stalled_secs(numbers, key, "some"),
        all_stalled_secs=find_stalled_secs(numbers, key, "full"),
    )


def waste_now(
    job: JobView, *, cpus: Number | None, memory_bytes: Number | None, gpus: Number | None = None
) -> WasteNow:
    """Return what a job is allocated but does not use now.

    `cpus`, `memory_bytes` and `gpus` are what its node has; None: unknown. The waste is 0 while the job is
    suspended, and unknown if it has ended.
    """
    if not job.is_running:
        return UNKNOWN_WASTE
    if job.identity.state == JobState.SUSPENDED.value:
        return NO_WASTE
    idle_cpus = compute_unused(job.allocated_cpus, job.cpus_used, cpus)
    held = None if job.memory is None else job.memory + job.uncharged
    unused_bytes = compute_unused(job.memory_limit, held, memory_bytes)
    idle = [
        max(0.0, each.part - each.share) for each in job.gpus if each.is_allocated and each.share is not None
    ]
    idle_gpus = float(sum(idle)) if idle else None
    pairs = ((idle_cpus, cpus), (unused_bytes, memory_bytes), (idle_gpus, gpus))
    shares = [min(1.0, part / whole) for part, whole in pairs if part is not None and whole]
    return WasteNow(idle_cpus, unused_bytes, idle_gpus, max(shares, default=None))


def find_cpu_secs(numbers: Numbers, key: JobKey) -> float | None:
    """Return a job's CPU seconds, the sum of user and system time; None if either is unknown."""
    user, system = (numbers.one(jobs.CPU, *key, mode) for mode in ("user", "system"))
    return None if user is None or system is None else float(user + system)


def find_stalled_secs(numbers: Numbers, key: JobKey, kind: str) -> dict[str, Number]:
    """Return for how many seconds tasks of a job have stalled, by the resource that they waited for.

    `kind` is some (at least one task stalled) or full (all did).
    """
    found = numbers.of_job(jobs.PRESSURE, key)
    return {resource: secs for (resource, its_kind), secs in found.items() if its_kind == kind}


def find_memory_limit(numbers: Numbers, key: JobKey) -> tuple[Number | None, Metric]:
    """Return a job's memory limit in bytes (None: unknown), and the metric that it comes from.

    The kernel's limit takes precedence over the batch system's.
    """
    metric = jobs.LIMIT if key in numbers.all(jobs.LIMIT) else allocation.MEMORY
    return numbers.one(metric, *key), metric


def compute_cpus_now(now: Numbers, before: Numbers, elapsed_secs: float, cpus: float) -> dict[JobKey, float]:
    """Return how many CPUs each job has used between two scrapes, at most `cpus`.

    `elapsed_secs` is the time between them. Jobs whose CPU time is missing in one of them are left out.
    """
    found = {}
    for key in find_jobs(now):
        rate = compute_rate(find_cpu_secs(before, key), find_cpu_secs(now, key), elapsed_secs, cpus)
        if rate is not None:
            found[key] = rate
    return found


def _gpus(numbers: Numbers, key: JobKey) -> tuple[GpuView, ...]:
    given, busy = numbers.of_job(gpus.JOB_ALLOCATED, key), numbers.of_job(gpus.JOB_UTILIZATION, key)
    held, worked = numbers.of_job(gpus.JOB_MEMORY, key), numbers.of_job(gpus.JOB_BUSY, key)
    ended = numbers.all(JOB_END)
    sharing = Counter(
        card for *job, card in numbers.all(gpus.JOB_ALLOCATED) if (card,) in given and tuple(job) not in ended
    )
    shares = numbers.all(gpus.UTILIZATION)
    return tuple(
        GpuView(
            uuid=card[0],
            is_allocated=card in given,
            share=busy.get(card),
            memory_bytes=held.get(card),
            part=1 / max(1, sharing[card[0]]),
            busy_secs=worked.get(card, 0.0 if card in shares else None),
            busy_share=shares.get(card),
        )
        for card in dict.fromkeys((*given, *busy, *held, *worked))
    )


def by_basis(numbers: Numbers, metric: Metric, *labels: str) -> tuple[Number | None, Basis | None]:
    """Return a metric's value, and by its label `basis` whether a job reports it or it is an estimate.

    What the job reports takes precedence. `labels` are the values of the metric's other labels. The result is
    (None, None) if there is no such sample.
    """
    for basis in Basis:
        value = numbers.one(metric, *labels, basis)
        if value is not None:
            return value, basis
    return None, None


def _left(numbers: Numbers, key: JobKey) -> tuple[Number | None, RemainingBasis | None]:
    """Return the seconds until something ends the job, and what that is; None twice if unknown."""
    found = numbers.of_job(JOB_REMAINING, key)
    least = found.get((remaining.MINIMUM,))
    bases = (basis for basis in RemainingBasis if least is not None and found.get((basis,)) == least)
    return least, next(bases, None)


def _enforced(numbers: Numbers, key: JobKey) -> list[Number]:
    bases = {(each,) for each in RemainingBasis if each is not RemainingBasis.EXPECTED_END}
    return [value for basis, value in numbers.of_job(JOB_REMAINING, key).items() if basis in bases]
