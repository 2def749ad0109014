"""What draining or killing each job now would waste."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.metrics import JOB, JOB_CAPPED_WASTE, JOB_DRAINING_WASTE, JOB_KILL_WASTE, gauge
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family

OVERDUE = gauge(
    "batch_job_draining_waste_overdue",
    "1 if a payload is overdue: the job's draining waste is a lower bound.",
    (*JOB, "basis"),
)
METRICS = (JOB_DRAINING_WASTE, JOB_KILL_WASTE, OVERDUE, JOB_CAPPED_WASTE)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; a job whose waste cannot be known has no series."""
    jobs = context.own_wastes.items()
    draining = [(key, each.own.draining) for key, each in jobs if each.own.draining is not None]
    kill = [(key, each.own.kill) for key, each in jobs if each.own.kill is not None]
    yield Family(JOB_DRAINING_WASTE, [((*key, waste.basis), waste.core_secs) for key, waste in draining])
    yield Family(JOB_KILL_WASTE, [((*key, waste.basis), waste.core_secs) for key, waste in kill])
    yield Family(OVERDUE, [((*key, waste.basis), 1) for key, waste in draining if waste.overdue])
    capped = [
        ((*key, name), waste.core_secs)
        for key, each in jobs
        for name, waste in (("draining", each.counted.draining), ("kill", each.counted.kill))
        if waste is not None and waste.capped
    ]
    yield Family(JOB_CAPPED_WASTE, capped)
