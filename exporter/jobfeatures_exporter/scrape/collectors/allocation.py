"""Collector: what each job is, and what was allocated to it, for comparison with what it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from jobfeatures.records.metrics import JOB, JOB_CPUS, JOB_END, JOB_INFO, JOB_START, Metric, gauge
from jobfeatures.records.model import UNLIMITED, Alias, Job
from jobfeatures_exporter.families.exposition import Family, Number, Sample, Values
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import FigureSource

STATE = gauge("batch_job_state", "1 for the state that the batch system reports.", (*JOB, "state"))
REMAINS = gauge(
    "batch_job_ended_with_processes", "1 for an ended job whose control group still holds processes.", JOB
)
RESTARTS = gauge("batch_job_restarts", "Earlier runs of the job under the same id.", JOB)
ALLOCATED_GPUS = gauge(
    "batch_job_allocated_gpus", "Whole GPUs allocated to the job on this node.", JOB, sums=True
)
WALL = gauge("batch_job_wall_limit_seconds", "Limit of elapsed time; +Inf if the job has none.", JOB)
MEMORY = gauge(
    "batch_job_allocated_memory_bytes", "Memory allocated to the job on this node.", JOB, sums=True
)
WHOLE_NODE = gauge(
    "batch_job_whole_node",
    "1 if the job has the node to itself: all CPUs that are given out here, and nobody beside it; else 0.",
    JOB,
)

METRICS = (
    *(JOB_INFO, STATE, RESTARTS, JOB_START, JOB_END, REMAINS, JOB_CPUS, ALLOCATED_GPUS, WALL, MEMORY),
    WHOLE_NODE,
)

_VALUES: dict[Metric, Callable[[Job], Number | None]] = {
    RESTARTS: lambda job: job.restarts,
    JOB_START: lambda job: job.start_secs,
    JOB_CPUS: lambda job: job.allocated_cpus,
    ALLOCATED_GPUS: lambda job: job.allocated_gpus,
    WALL: lambda job: float("inf") if job.limits.wall_secs is UNLIMITED else job.limits.wall_secs,
    MEMORY: lambda job: job.limits.memory_bytes if isinstance(job.limits.memory_bytes, int) else None,
}

_SEEN = attrgetter("uid", "alias", "place", "accounting")
_UNSEEN = (None,) * 4


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about what jobs are and were allocated, for all jobs on this node."""
    jobs = context.shown_jobs
    seen = {sample.key: _SEEN(sample) for sample in context.batch_samples}
    found = [(key, (job, seen.get(key, _UNSEEN))) for key, job in jobs.items()]
    info, state, *values = context.rows.families((JOB_INFO, STATE, *_VALUES), found, _row)
    yield from (info, state)
    yield Family(JOB_END, list(context.end_times_secs.items()))
    yield Family(REMAINS, [(key, 1) for key in context.ended_with_processes])
    yield from values
    yield Family(WHOLE_NODE, [(key, int(alone)) for key, alone in context.whole_node_jobs.items()])


def _row(key: Values, found: tuple[Job, tuple[Any, ...]]) -> Iterator[Sequence[Sample]]:
    job, seen = found
    yield ((_info(key, job, *seen), 1),)
    yield (((*key, job.state.value), 1),)
    for value_of in _VALUES.values():
        value = value_of(job)
        yield () if value is None else ((key, value),)


def _info(
    key: Values,
    job: Job,
    uid: int | None,
    alias: Alias | None,
    place: str | None,
    accounting: FigureSource | None,
) -> Values:
    rest = (
        job.user,
        uid if job.uid is None else job.uid,
        job.account,
        job.partition,
        job.name,
        job.array_job_id,
        job.array_task_id,
        job.het_job_id,
        alias.name if alias is not None and alias.field == "sluid" else job.sluid,
        alias.name if alias is not None and alias.field == "slot" and job.slot is None else job.slot,
        job.schedd,
        place,
        None if accounting is None else accounting.value,
    )
    return (*key, *["" if value is None else str(value) for value in rest])
