"""Collector: what jobs do with their CPU time, by the processor's performance counters."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import JOB, counter, gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context, job_labels

UP = gauge(
    "batch_node_work_event_up", "1 if this machine counts it for us (work.events), else 0.", ("event",)
)
FIGURES = {
    "instructions": counter(
        "batch_job_instructions", "Instructions that the job's programs have retired.", JOB
    ),
    "cycles": counter("batch_job_cycles", "Cycles that processors spent in the job's programs.", JOB),
    "cache_misses": counter(
        "batch_job_cache_misses", "Misses of the last cache, as the processor defines them.", JOB
    ),
    "flops": counter(
        "batch_job_floating_point_operations",
        "Floating-point operations of the job's programs; a fused multiply and add is two.",
        JOB,
    ),
}

METRICS = (UP, *FIGURES.values())


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about performance counters; a job whose counters are not read has none."""
    node = context.snapshot.node if context.snapshot is not None else None
    if node is not None and node.work_up:
        yield Family.by_label(UP, {event: int(up) for event, up in node.work_up.items()})
    for name, metric in FIGURES.items():
        yield Family(
            metric,
            [
                (job_labels(sample.key), sample.work[name])
                for sample in context.shown_samples
                if name in sample.work
            ],
        )
