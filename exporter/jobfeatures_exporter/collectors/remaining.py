"""How long each job still runs, by everything that may end it."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.status.waste import compute_remaining
from jobfeatures_exporter.context import JOB, Context, job_labels_with
from jobfeatures_exporter.exposition import Family, Metric

REMAINING = Metric(
    "batch_job_remaining_seconds",
    "gauge",
    "Time until the job ends by its wall limit (wall_limit), by its CPU limit at its present CPU rate "
    "(cpu_limit), by the time by which it has to end (deadline), by the shutdown of its node or its own "
    "(shutdown), by its own estimate (expected_end) or by its own enforced limit (maximum_end), and the "
    "least of these (minimum); negative once it has passed.",
    (*JOB, "basis"),
    "seconds",
)

METRICS = (REMAINING,)
MINIMUM = "minimum"


def families(context: Context) -> Iterator[Family]:
    """Yield the family; a job has a series for each basis that is known, and one for the least."""
    samples = []
    for key, job in context.jobs_here().items():
        view = context.statuses.get(key)
        remaining = compute_remaining(
            now_secs=context.now_secs,
            end_limit_secs=context.wall_end_secs(job),
            deadline_secs=job.deadline_secs,
            cpu_secs=context.cpu_remaining_secs(key),
            shutdown_secs=context.shutdown_secs(job),
            status=view.status if view is not None else None,
        )
        samples += [(job_labels_with(key, "basis", basis), secs) for basis, secs in remaining.items()]
        if remaining:
            samples.append((job_labels_with(key, "basis", MINIMUM), min(remaining.values())))
    yield Family(REMAINING, samples)
