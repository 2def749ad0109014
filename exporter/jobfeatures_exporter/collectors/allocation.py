"""What each job is, and what it was given: to be set beside what it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobfeatures.metrics import JOB, JOB_CPUS, JOB_END, JOB_INFO, JOB_START, Metric
from jobfeatures.model import UNLIMITED, Job, JobKey
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family, Number, Values
from jobfeatures_exporter.snapshot import JobSample

STATE = Metric("batch_job_state", "gauge", "1 for the state that the batch system reports.", (*JOB, "state"))
REMAINS = Metric(
    "batch_job_ended_with_processes",
    "gauge",
    "1 for an ended job whose control group still holds processes.",
    JOB,
)
RESTARTS = Metric(
    "batch_job_restarts",
    "gauge",
    "Earlier runs of the job under the same id.",
    JOB,
)
ALLOCATED_GPUS = Metric(
    "batch_job_allocated_gpus",
    "gauge",
    "Whole GPUs allocated to the job on this node.",
    JOB,
    sums=True,
)
WALL = Metric(
    "batch_job_wall_limit_seconds",
    "gauge",
    "Limit of elapsed time; +Inf if the job has none.",
    JOB,
    "seconds",
)
MEMORY = Metric(
    "batch_job_allocated_memory_bytes",
    "gauge",
    "Memory allocated to the job on this node.",
    JOB,
    "bytes",
    sums=True,
)

METRICS = (JOB_INFO, STATE, RESTARTS, JOB_START, JOB_END, REMAINS, JOB_CPUS, ALLOCATED_GPUS, WALL, MEMORY)

_VALUES: dict[Metric, Callable[[Job], Number | None]] = {
    RESTARTS: lambda job: job.restarts,
    JOB_START: lambda job: job.start_secs,
    JOB_CPUS: lambda job: job.allocated_cpus,
    ALLOCATED_GPUS: lambda job: job.allocated_gpus,
    WALL: lambda job: float("inf") if job.limits.wall_secs is UNLIMITED else job.limits.wall_secs,
    MEMORY: lambda job: job.limits.memory_bytes if isinstance(job.limits.memory_bytes, int) else None,
}


def families(context: Context) -> Iterator[Family]:
    """Yield the families of all jobs on this node."""
    jobs = context.shown_jobs
    used = {sample.key: sample for sample in context.batch_samples}
    yield Family(JOB_INFO, [(_info(key, job, used.get(key)), 1) for key, job in jobs.items()])
    yield Family(STATE, [((*key, job.state.value), 1) for key, job in jobs.items()])
    yield Family(JOB_END, list(context.end_times_secs.items()))
    yield Family(REMAINS, [(key, 1) for key in context.leftovers_here])
    for metric, value_of in _VALUES.items():
        yield Family.known(metric, [(key, value_of(job)) for key, job in jobs.items()])


def _info(key: JobKey, job: Job, sample: JobSample | None) -> Values:
    uid = job.uid if job.uid is not None or sample is None else sample.uid
    rest = (
        job.user,
        uid,
        job.account,
        job.partition,
        job.name,
        job.array_job_id,
        job.array_task_id,
        job.het_job_id,
        job.sluid if sample is None or sample.sluid is None else sample.sluid,
        sample.slot if sample is not None else None,
        sample.accounting.value if sample is not None else None,
    )
    return (*key, *["" if value is None else str(value) for value in rest])
