"""What is shown of a node: jobs, load, waste of draining or killing the jobs now, batch sources. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from jobfeatures.records.metrics import (
    JOB_CPUS,
    JOB_END,
    NODE_CPUS,
    NODE_READ_AT,
    SOURCE_AGE,
    SOURCE_UP,
    Metric,
)
from jobfeatures.records.model import JobKey
from jobfeatures.records.quantities import counted
from jobfeatures.status.waste import Basis
from jobfeatures_exporter.families.exposition import Number
from jobfeatures_exporter.model.missing import Reason
from jobfeatures_exporter.model.snapshot import CpuSecs
from jobfeatures_exporter.scrape.collectors import allocation, drains, features, gpus, node
from jobfeatures_exporter.scrape.collectors.own import sources
from jobfeatures_exporter.state.cpurates import compute_busy_share
from jobfeatures_exporter.view import job
from jobfeatures_exporter.view.job import (
    JobIdentity,
    JobView,
    by_basis,
    compute_cpus_now,
    find_jobs,
    identify,
    view_job,
    waste_now,
)
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.sources import SourceView, describe_no_jobs, view_sources
from jobfeatures_exporter.view.units import format_figure
from jobfeatures_exporter.view.waste import NOTABLE

METRICS = (
    *(*job.METRICS, NODE_CPUS, node.CORES, node.CPU, node.MEMORY),
    *(drains.DRAINING_WASTE, drains.DRAINING_JOBS, drains.KILL_WASTE, drains.KILL_JOBS),
    *(SOURCE_UP, SOURCE_AGE, sources.FAILURES, sources.FAILING, features.WITHOUT_GROUP),
)
NAMES = frozenset(each.sample_name for each in METRICS)  # of all samples that a view needs


@dataclass(frozen=True, slots=True)
class WasteSum:
    """The core seconds that draining or killing a node's jobs would waste, summed over jobs.

    The waste is known for `counted` of the `jobs`. `basis` says whether jobs report it or it is estimated.
    """

    core_secs: Number | None = None
    basis: Basis | None = None
    counted: int = 0
    jobs: int = 0

    @property
    def coverage(self) -> str:
        """Return text on how many of the node's jobs are in the sum, like "of 3 of 5 jobs"; "" if all are."""
        return "" if self.counted == self.jobs else f"of {self.counted:,} of {counted(self.jobs, 'job')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What is shown of the node as a whole, and of its jobs; a field is None if unknown.

    `jobs` may be the largest only; `count` is the number of all, `running` that of running ones. `leftovers`
    are ended jobs with processes left; `groupless` counts jobs whose control group is not found.
    `allocated_cpus` is the sum over running jobs, without the `unknown_allocations` jobs whose allocation is
    unknown. `draining` and `kill` are what draining or killing the jobs would waste.
    """

    jobs: tuple[JobView, ...] = ()  # up to the limit asked for: running ones first, the largest first
    count: int = 0
    running: int = 0
    leftovers: tuple[JobKey, ...] = ()  # ended jobs with remaining processes
    groupless: int = 0  # jobs that should have a control group, which is not found
    allocated_cpus: Number = 0  # summed over the running jobs with a known allocation
    unknown_allocations: int = 0  # running jobs without one
    allocatable_cpus: Number | None = None
    cores: Number | None = None
    busy_cpus: float | None = None
    memory_bytes: Number | None = None
    available_bytes: Number | None = None
    draining: WasteSum = WasteSum()
    kill: WasteSum = WasteSum()
    sources: tuple[SourceView, ...] = ()

    @property
    def most_wasteful(self) -> JobView | None:
        """Return the job that leaves the largest part of the node unused; None if no job leaves much."""
        worst = max(self.jobs, key=lambda each: each.waste_now.share or 0.0, default=None)
        return worst if worst is not None and (worst.waste_now.share or 0.0) >= NOTABLE else None

    @property
    def jobs_are_known(self) -> bool:
        """Return whether every configured batch system has reported its jobs."""
        return bool(self.sources) and all(each.has_answered for each in self.sources)

    @property
    def allocation(self) -> str | None:
        """Return the number of allocated CPUs as text; None if no allocation is known."""
        if self.unknown_allocations == self.running and (self.running or not self.jobs_are_known):
            return None
        return format_figure(self.allocated_cpus)

    @property
    def allocation_note(self) -> str:
        """Return text on why the number of allocated CPUs may be too low; "" if it is complete."""
        if self.unknown_allocations:
            return f"allocation of {counted(self.unknown_allocations, 'job')} unknown"
        return "" if self.jobs_are_known else "not all batch systems have answered" if self.sources else ""

    @property
    def leftovers_sentence(self) -> str:
        """Return a sentence on ended jobs with remaining processes; "" if there are none."""
        count = len(self.leftovers)
        verb = "has" if count == 1 else "have"
        return f"{counted(count, 'job')} {verb} ended, processes remain" if count else ""

    @property
    def groupless_sentence(self) -> str:
        """Return a sentence on running jobs whose control group is not found; "" if there are none."""
        jobs = counted(self.groupless, "running job")
        return f"No control group is found of {jobs}" if self.groupless else ""

    @property
    def without_jobs(self) -> str:
        """Return the sentence to show in place of the list of jobs if it is empty."""
        return describe_no_jobs(self.sources)

    @property
    def failing_sources(self) -> tuple[SourceView, ...]:
        """Return the batch sources that fail, have not answered yet, or do not answer about this node."""
        return tuple(each for each in self.sources if each.sentence)


def view_node(
    numbers: Numbers,
    *,
    now_secs: float,
    cpus_now: Mapping[JobKey, float],
    busy_cpus: float | None,
    limit: int | None = None,
    only: JobKey | None = None,
    known: Mapping[JobKey, JobIdentity] | None = None,
    words: Mapping[str, str] | None = None,
) -> NodeView:
    """Return what is shown of a node by the metrics in `numbers`, with up to `limit` jobs or the job `only`.

    `now_secs` is in Unix time. `cpus_now` and `busy_cpus` are how many CPUs each job and the node use now.
    `known` are jobs to show even if `numbers` lacks them. `words` has the error messages of batch sources by
    name.
    """
    texts = find_jobs(numbers)
    keys = {**dict.fromkeys(known or ()), **dict.fromkeys(texts)}
    ended = numbers.all(JOB_END)
    cpus = {key: numbers.one(JOB_CPUS, *key) for key in keys}
    leftovers = {key for key in keys if key in numbers.all(allocation.REMAINS)}
    here = {key for key in keys if key not in ended}
    order = sorted(keys, key=lambda key: (key not in here, key not in leftovers, -(cpus[key] or 0), key))
    of_kind = {kind: numbers.one(node.MEMORY, kind) for kind in ("total", "available")}
    cards = len(numbers.all(gpus.UTILIZATION))

    def view(key: JobKey) -> JobView:
        identity = identify(numbers, key, texts[key]) if key in texts else (known or {})[key]
        made = view_job(numbers, key, identity, now_secs=now_secs, cpus_now=cpus_now.get(key))
        whole = numbers.one(NODE_CPUS) or numbers.one(node.CORES)
        waste = waste_now(made, cpus=whole, memory_bytes=of_kind["total"], gpus=cards)
        return replace(made, waste_now=waste)

    return NodeView(
        jobs=tuple(view(key) for key in (order[:limit] if only is None else [only])),
        count=len(order),
        running=len(here),
        leftovers=tuple(sorted(leftovers)),
        groupless=int(numbers.one(features.WITHOUT_GROUP, Reason.FOUND.value) or 0),
        allocated_cpus=sum(cpus[key] or 0 for key in here),
        unknown_allocations=sum(cpus[key] is None for key in here),
        allocatable_cpus=numbers.one(NODE_CPUS),
        cores=numbers.one(node.CORES),
        busy_cpus=busy_cpus,
        memory_bytes=of_kind["total"],
        available_bytes=of_kind["available"],
        draining=_waste(numbers, drains.DRAINING_WASTE, drains.DRAINING_JOBS),
        kill=_waste(numbers, drains.KILL_WASTE, drains.KILL_JOBS),
        sources=view_sources(numbers, words or {}),
    )


def view_page(now: Numbers, before: Numbers | None) -> NodeView:
    """Return what is shown of a node, by its latest scrape `now` and the one `before`, if there is any.

    CPU use now is computed from both. Without a scrape before, a job's use is its mean since its start.
    """
    taken, earlier = now.one(NODE_READ_AT), None if before is None else before.one(NODE_READ_AT)
    cores = now.one(node.CORES)
    cpus_now: dict[JobKey, float] = {}
    busy_cpus = None
    if before is not None and taken is not None and earlier is not None and taken > earlier:
        cpus_now = compute_cpus_now(now, before, taken - earlier, cores or 0)
        share = compute_busy_share(_cpu_secs(before), _cpu_secs(now))
        busy_cpus = None if share is None or not cores else share * cores
    return view_node(now, now_secs=taken or 0.0, cpus_now=cpus_now, busy_cpus=busy_cpus)


def _cpu_secs(numbers: Numbers) -> CpuSecs | None:
    values = [numbers.one(node.CPU, mode) for mode in node.MODES]
    found = [each for each in values if each is not None]
    return CpuSecs(*found) if len(found) == len(values) else None


def _waste(numbers: Numbers, metric: Metric, jobs: Metric) -> WasteSum:
    found = (numbers.one(jobs, word) or 0 for word in ("yes", "no"))
    yes, no = (int(each) if math.isfinite(each) else 0 for each in found)
    return WasteSum(*by_basis(numbers, metric), yes, yes + no)
