"""What draining or killing each job now would waste."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.model import JobKey
from jobfeatures.status.waste import Waste
from jobfeatures_exporter.context import JOB, Context, job_labels_with
from jobfeatures_exporter.exposition import Family, Metric, Sample
from jobfeatures_exporter.ownwaste import cap_own_waste, compute_own_waste

BASIS = (
    "; basis reported: by the job's own JOBSTATUS, measured: by the CPU time that it has used, "
    "estimated: by the batch system's data alone."
)

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
CAPPED = Metric(
    "batch_job_waste_capped_core_seconds",
    "gauge",
    "What counts in sums and plans where the job's own figure of its draining or kill waste is more than its "
    "CPUs can do until its known end, or can have done since its start.",
    (*JOB, "waste"),
    "core_seconds",
)

METRICS = (DRAINING, KILL, OVERDUE, CAPPED)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; a job whose waste cannot be known has no series."""
    draining: list[Sample] = []
    kill: list[Sample] = []
    overdue: list[Sample] = []
    capped: list[Sample] = []
    for key, job in context.jobs_here().items():
        own = compute_own_waste(context, key, job)
        draining += _sample(key, own.draining)
        kill += _sample(key, own.kill)
        if own.draining is not None and own.draining.overdue:
            overdue.append((job_labels_with(key, "basis", own.draining.basis), 1))
        counted = cap_own_waste(context, job, own)
        for name, waste in (("draining", counted.draining), ("kill", counted.kill)):
            if waste is not None and waste.capped:
                capped.append((job_labels_with(key, "waste", name), waste.core_secs))
    yield Family(DRAINING, draining)
    yield Family(KILL, kill)
    yield Family(OVERDUE, overdue)
    yield Family(CAPPED, capped)


def _sample(key: JobKey, waste: Waste | None) -> list[Sample]:
    return [] if waste is None else [(job_labels_with(key, "basis", waste.basis), waste.core_secs)]
