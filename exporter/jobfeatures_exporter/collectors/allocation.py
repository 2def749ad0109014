"""What each job is, and what it was given: to be set beside what it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobfeatures.model import UNLIMITED, Job
from jobfeatures_exporter.context import JOB, Context, info_labels, job_labels, job_labels_with
from jobfeatures_exporter.exposition import Family, Metric, Number
from jobfeatures_exporter.snapshot import JobSample

INFO_LABELS = (
    "user",
    "uid",
    "account",
    "partition",
    "name",
    "array_job_id",
    "array_task_id",
    "het_job_id",
    "restarts",
    "sluid",
    "slot",
    "accounting",
)

INFO = Metric(
    "batch_job",
    "info",
    "Who and what the job is; restarts counts the runs before this one under the same id, "
    "sluid and slot are what Slurm and HTCondor name its control group by, "
    "accounting tells where its figures come from: cgroup or processes. "
    "A label is empty where nothing is known.",
    (*JOB, *INFO_LABELS),
)
STATE = Metric("batch_job_state", "gauge", "1 for the state that the batch system reports.", (*JOB, "state"))
START = Metric("batch_job_start_time_seconds", "gauge", "Start of the job since the epoch.", JOB, "seconds")
END = Metric(
    "batch_job_end_time_seconds",
    "gauge",
    "End of a job that is still shown, with its last values or since processes remain: by its batch system, "
    "else when it was noticed.",
    JOB,
    "seconds",
)
REMAINS = Metric(
    "batch_job_ended_with_processes",
    "gauge",
    "1 for a job that has ended while its control group still holds processes.",
    JOB,
)
ALLOCATED = Metric(
    "batch_job_allocated_cpus", "gauge", "CPUs allocated to the job on this node.", JOB, sums=True
)
ALLOCATED_GPUS = Metric(
    "batch_job_allocated_gpus",
    "gauge",
    "Whole graphics cards allocated to the job on this node.",
    JOB,
    sums=True,
)
WALL = Metric(
    "batch_job_wall_limit_seconds",
    "gauge",
    "Elapsed time that the job may take from its start; +Inf if known to be unlimited.",
    JOB,
    "seconds",
)
MEMORY = Metric(
    "batch_job_allocated_memory_bytes",
    "gauge",
    "Memory that the batch system gave the job here.",
    JOB,
    "bytes",
    sums=True,
)

METRICS = (INFO, STATE, START, END, REMAINS, ALLOCATED, ALLOCATED_GPUS, WALL, MEMORY)

_VALUES: dict[Metric, Callable[[Job], Number | None]] = {
    START: lambda job: job.start_secs,
    ALLOCATED: lambda job: job.allocated_cpus,
    ALLOCATED_GPUS: lambda job: job.allocated_gpus,
    WALL: lambda job: float("inf") if job.limits.wall_secs is UNLIMITED else job.limits.wall_secs,
    MEMORY: lambda job: job.limits.memory_bytes if isinstance(job.limits.memory_bytes, int) else None,
}


def families(context: Context) -> Iterator[Family]:
    """Yield the families of all jobs on this node."""
    jobs = context.shown_jobs()
    used = {sample.key: sample for sample in context.batch_samples()}
    yield Family(INFO, [(f"{job_labels(key)},{_info(job, used.get(key))}", 1) for key, job in jobs.items()])
    yield Family(STATE, [(job_labels_with(key, "state", job.state.value), 1) for key, job in jobs.items()])
    yield Family(END, [(job_labels(key), at) for key, at in context.end_times_secs().items()])
    yield Family(REMAINS, [(job_labels(key), 1) for key in context.leftovers_here()])
    for metric, value_of in _VALUES.items():
        values = ((key, value_of(job)) for key, job in jobs.items())
        yield Family(metric, [(job_labels(key), value) for key, value in values if value is not None])


def _info(job: Job, sample: JobSample | None) -> str:
    uid = job.uid if job.uid is not None or sample is None else sample.uid
    return info_labels(
        INFO_LABELS,
        (
            job.user,
            uid,
            job.account,
            job.partition,
            job.name,
            job.array_job_id,
            job.array_task_id,
            job.het_job_id,
            job.restarts,
            job.sluid if sample is None or sample.sluid is None else sample.sluid,
            sample.slot if sample is not None else None,
            sample.accounting.value if sample is not None else None,
        ),
    )
