"""Collector: the time left to each job until each limit or deadline that may end it."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import JOB_REMAINING
from jobfeatures.status.waste import compute_remaining
from jobfeatures_exporter.families.exposition import Family, Sample
from jobfeatures_exporter.model.context import Context

METRICS = (JOB_REMAINING,)
MINIMUM = "minimum"


def families(context: Context) -> Iterator[Family]:
    """Yield the metric family of remaining seconds.

    A job has a series for each known limit, and one for the limit that it reaches first.
    """
    samples: list[Sample] = []
    for key, job in context.jobs_here.items():
        view = context.statuses.get(key)
        wall_end_secs, cpu_secs = context.limit_ends[key]
        remaining = compute_remaining(
            now_secs=context.now_secs,
            end_limit_secs=wall_end_secs,
            deadline_secs=job.deadline_secs,
            cpu_secs=cpu_secs,
            shutdown_secs=context.shutdown_secs(job),
            status=view.status if view is not None else None,
        )
        samples += [((*key, basis), secs) for basis, secs in remaining.items()]
        if remaining:
            samples.append(((*key, MINIMUM), min(remaining.values())))
    yield Family(JOB_REMAINING, samples)
