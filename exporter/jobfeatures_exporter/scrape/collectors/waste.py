"""Collector: what draining or killing each job now would waste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobfeatures.records.metrics import JOB, JOB_CAPPED_WASTE, JOB_DRAINING_WASTE, JOB_KILL_WASTE, gauge
from jobfeatures_exporter.families.exposition import Family, Sample, Values
from jobfeatures_exporter.model.context import Context, OwnWaste

OVERDUE = gauge(
    "batch_job_draining_waste_overdue",
    "1 if a payload is overdue: the job's draining waste is a lower bound.",
    (*JOB, "basis"),
)
METRICS = (JOB_DRAINING_WASTE, JOB_KILL_WASTE, OVERDUE, JOB_CAPPED_WASTE)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about waste; a job whose waste is unknown has no series."""
    yield from context.rows.families(METRICS, context.own_wastes.items(), _row)


def _row(job: Values, waste: OwnWaste) -> Iterator[Sequence[Sample]]:
    draining, kill = waste.own.draining, waste.own.kill
    yield () if draining is None else (((*job, draining.basis), draining.core_secs),)
    yield () if kill is None else (((*job, kill.basis), kill.core_secs),)
    yield () if draining is None or not draining.overdue else (((*job, draining.basis), 1),)
    counted = (("draining", waste.counted.draining), ("kill", waste.counted.kill))
    yield [((*job, name), each.core_secs) for name, each in counted if each is not None and each.capped]
