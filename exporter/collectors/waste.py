"""What draining or killing each job now would waste."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.context import JOB, Context, job_labels_with
from exporter.exposition import Family, Metric, Sample
from jobfeatures.model import JobKey
from jobfeatures.status.waste import Waste, compute_draining_waste, compute_kill_waste

BASIS = "; basis reported: by the job's own JOBSTATUS, estimated: by the batch system's data alone."

DRAINING = Metric(
    "batch_job_draining_waste_core_seconds",
    "gauge",
    "CPU time that would stay idle if the job drained from now on" + BASIS,
    (*JOB, "basis"),
    "core_seconds",
)
KILL = Metric(
    "batch_job_kill_waste_core_seconds",
    "gauge",
    "CPU time that would be lost if the job was killed now" + BASIS,
    (*JOB, "basis"),
    "core_seconds",
)
OVERDUE = Metric(
    "batch_job_draining_waste_overdue",
    "gauge",
    "1 if the job's first payload should have ended already: its draining waste is a lower bound.",
    (*JOB, "basis"),
)

METRICS = (DRAINING, KILL, OVERDUE)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; a job whose waste cannot be known has no series."""
    draining: list[Sample] = []
    kill: list[Sample] = []
    overdue: list[Sample] = []
    for key, job in context.jobs_here().items():
        view = context.statuses.get(key)
        status = view.status if view is not None else None
        waste = compute_draining_waste(status, allocated_cpus=job.allocated_cpus, now_secs=context.now_secs)
        draining += _sample(key, waste)
        if waste is not None and waste.overdue:
            overdue.append((job_labels_with(key, "basis", waste.basis), 1))
        kill += _sample(
            key,
            compute_kill_waste(
                status,
                allocated_cpus=job.allocated_cpus,
                start_secs=job.start_secs,
                now_secs=context.now_secs,
            ),
        )
    yield Family(DRAINING, draining)
    yield Family(KILL, kill)
    yield Family(OVERDUE, overdue)


def _sample(key: JobKey, waste: Waste | None) -> list[Sample]:
    return [] if waste is None else [(job_labels_with(key, "basis", waste.basis), waste.core_secs)]
