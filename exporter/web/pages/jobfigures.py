"""What the page shows of one job, as numbers: those of /metrics and a few shares of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.collectors import allocation, gpus, jobs, remaining, status, waste
from exporter.context import Context, job_labels, job_labels_with
from exporter.exposition import Metric, Number
from exporter.snapshot import GpuSample, JobGpu
from exporter.web.pages.numbers import Numbers
from jobfeatures.model import Job, JobKey
from jobfeatures.status.waste import Basis, RemainingBasis

ENDS_SOON_SECS = 600.0
NEAR_LIMIT = 0.9  # of its memory
IDLE_AFTER_SECS = 600.0  # a job may take its time to begin
IDLE_CPUS = 0.1  # of its allocation, on average and now
IDLE_GPU = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """One job; None is what is not known."""

    key: JobKey
    job: Job
    is_running: bool
    cpus_now: float | None  # CPU seconds a second between the latest looks
    cpus_mean: float | None  # since its start
    allocated_cpus: Number | None
    memory: Number | None
    memory_metric: Metric  # what `memory` is
    memory_limit: Number | None
    limit_metric: Metric
    gpus: tuple[JobGpu, ...]
    idle_gpus: int
    allocated_gpus: Number | None
    elapsed_secs: float | None
    wall_secs: Number | None  # +Inf: known to be unlimited
    left_secs: Number | None
    left_basis: RemainingBasis | None
    enforced_secs: Number | None  # the least that is no mere estimate: a pilot's moves with each payload
    ended_at_secs: Number | None
    processes: Number | None
    threads: Number | None
    draining: Number | None
    draining_basis: Basis | None
    is_overdue: bool  # its draining waste is a lower bound
    kill: Number | None
    kill_basis: Basis | None
    status_age_secs: Number | None
    claimed_cpus: Number | None  # that it says it uses

    @property
    def cpu_share(self) -> float | None:
        """Return what it uses now of its CPUs; on average where nothing is known of now."""
        used = self.cpus_now if self.cpus_now is not None else self.cpus_mean
        return None if used is None or not self.allocated_cpus else used / self.allocated_cpus

    @property
    def memory_share(self) -> float | None:
        """Return what it uses of its memory."""
        return None if self.memory is None or not self.memory_limit else self.memory / self.memory_limit

    @property
    def ends_soon(self) -> bool:
        """Tell whether something will end it soon, and most of its time has gone by."""
        left = self.enforced_secs
        return left is not None and 0 <= left < min(ENDS_SOON_SECS, (self.elapsed_secs or 0.0) / 3)

    @property
    def is_late(self) -> bool:
        """Tell whether it should have been ended by now."""
        return self.enforced_secs is not None and self.enforced_secs < 0

    @property
    def time_share(self) -> float | None:
        """Return what has gone by of its time, by what ends it first."""
        elapsed, left = self.elapsed_secs, self.left_secs
        if elapsed is None or left is None or not math.isfinite(left):
            return None
        whole = elapsed + max(0.0, left)
        return elapsed / whole if whole > 0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """The jobs of the page: the figures of as many as are shown, and sums over all."""

    first: tuple[JobFigures, ...]
    count: int
    running: int
    held_cpus: Number  # by those that run


def job_list(context: Context, numbers: Numbers, limit: int) -> JobList:
    """Return the batch jobs, the running ones first, of these the largest; figures of `limit` at most."""
    gpus_of: dict[object, list[JobGpu]] = {}
    for use in context.shown_job_gpus() if numbers.all(gpus.UP) else ():
        gpus_of.setdefault(use.key, []).append(use)
    cards = {} if context.snapshot is None else {each.card.uuid: each for each in context.snapshot.gpus}
    here, jobs_of = context.jobs_here().keys(), context.shown_jobs()
    cpus = {key: numbers.one(allocation.ALLOCATED, job_labels(key)) or 0 for key in jobs_of}
    order = sorted(jobs_of, key=lambda key: (key not in here, -cpus[key], key))
    return JobList(
        first=tuple(
            _figures(
                context,
                numbers,
                key,
                jobs_of[key],
                tuple(gpus_of.get(key, ())),
                cards,
                is_running=key in here,
            )
            for key in order[:limit]
        ),
        count=len(order),
        running=len(here),
        held_cpus=sum(cpus[key] for key in here),
    )


def _figures(
    context: Context,
    numbers: Numbers,
    key: JobKey,
    job: Job,
    used: tuple[JobGpu, ...],
    cards: Mapping[str, GpuSample],
    *,
    is_running: bool,
) -> JobFigures:
    text = job_labels(key)
    start, ended = numbers.one(allocation.START, text), numbers.one(allocation.END, text)
    until = ended if ended is not None else context.now_secs
    elapsed = None if start is None else max(0.0, until - start)
    modes = [numbers.one(jobs.CPU, job_labels_with(key, "mode", mode)) for mode in ("user", "system")]
    cpu_secs = None if None in modes else sum(each for each in modes if each is not None)
    draining, draining_basis = _by_basis(numbers, waste.DRAINING, key)
    kill, kill_basis = _by_basis(numbers, waste.KILL, key)
    left, left_basis = _left(numbers, key)
    memory_metric = jobs.CHARGED if text in numbers.all(jobs.CHARGED) else jobs.MEMORY
    anon = numbers.one(jobs.MEMORY, job_labels_with(key, "component", "anon"))
    limit_metric = jobs.LIMIT if text in numbers.all(jobs.LIMIT) else allocation.MEMORY
    return JobFigures(
        key=key,
        job=job,
        is_running=is_running and ended is None,
        cpus_now=context.cpu_rates.get(key) if ended is None else None,
        cpus_mean=cpu_secs / elapsed if cpu_secs is not None and elapsed else None,
        allocated_cpus=numbers.one(allocation.ALLOCATED, text),
        memory=numbers.one(jobs.CHARGED, text) if memory_metric is jobs.CHARGED else anon,
        memory_metric=memory_metric,
        memory_limit=numbers.one(limit_metric, text),
        limit_metric=limit_metric,
        gpus=used,
        idle_gpus=_count_idle(used, cards, elapsed),
        allocated_gpus=numbers.one(allocation.ALLOCATED_GPUS, text),
        elapsed_secs=elapsed,
        wall_secs=numbers.one(allocation.WALL, text),
        left_secs=left,
        left_basis=left_basis,
        enforced_secs=min(_enforced(numbers, key), default=None),
        ended_at_secs=ended,
        processes=numbers.one(jobs.PROCESSES, text),
        threads=numbers.one(jobs.THREADS, text),
        draining=draining,
        draining_basis=draining_basis,
        is_overdue=_by_basis(numbers, waste.OVERDUE, key)[0] is not None,
        kill=kill,
        kill_basis=kill_basis,
        status_age_secs=numbers.one(status.AGE, text),
        claimed_cpus=numbers.one(status.USED, text),
    )


def _by_basis(numbers: Numbers, metric: Metric, key: JobKey) -> tuple[Number | None, Basis | None]:
    for basis in Basis:
        value = numbers.one(metric, job_labels_with(key, "basis", basis))
        if value is not None:
            return value, basis
    return None, None


def _left(numbers: Numbers, key: JobKey) -> tuple[Number | None, RemainingBasis | None]:
    """Return the least remaining time, and what it is that ends the job then."""
    least = numbers.one(remaining.REMAINING, job_labels_with(key, "basis", remaining.MINIMUM))
    if least is None:
        return None, None
    for basis in RemainingBasis:
        if numbers.one(remaining.REMAINING, job_labels_with(key, "basis", basis)) == least:
            return least, basis
    return least, None


def _enforced(numbers: Numbers, key: JobKey) -> list[Number]:
    bases = [each for each in RemainingBasis if each is not RemainingBasis.EXPECTED_END]
    found = [numbers.one(remaining.REMAINING, job_labels_with(key, "basis", basis)) for basis in bases]
    return [each for each in found if each is not None]


def find_hints(each: JobFigures) -> list[tuple[str, str]]:
    """Return what somebody may want to look at: (kind of badge, words)."""
    if not each.is_running:
        return []
    found: list[tuple[str, str]] = []
    settled = (each.elapsed_secs or 0.0) >= IDLE_AFTER_SECS
    cpus = each.allocated_cpus
    if settled and cpus and each.cpus_mean is not None and each.cpus_mean < IDLE_CPUS * cpus:
        now = each.cpus_now if each.cpus_now is not None else each.cpus_mean
        if now < IDLE_CPUS * cpus:
            found.append(("warn", "CPUs idle"))
    if settled and (idle := each.idle_gpus):
        found.append(("warn", f"{idle} of {len(each.gpus)} GPUs idle" if len(each.gpus) > 1 else "GPU idle"))
    if each.memory_share is not None and each.memory_share >= NEAR_LIMIT:
        found.append(("bad", "memory near its limit"))
    if each.is_late:
        found.append(("bad", "past its end"))
    elif each.ends_soon:
        found.append(("warn", "ends soon"))
    if each.is_overdue:
        found.append(("", "payload overdue"))
    return found


def _count_idle(used: tuple[JobGpu, ...], cards: Mapping[str, GpuSample], elapsed_secs: float | None) -> int:
    """Return how many of its cards a job hardly uses, neither on the whole nor now.

    A card whose use the driver does not tell is not called idle.
    """
    count = 0
    for use in used:
        card = cards.get(use.uuid)
        if not use.allocated or not elapsed_secs or card is None or card.ce_util_percent is None:
            continue
        is_idle_now = card.ce_util_percent < IDLE_GPU * 100
        count += is_idle_now and (use.busy_secs or 0.0) < IDLE_GPU * elapsed_secs
    return count
