"""Published feature directories."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.context import Context
from exporter.exposition import Family, Metric

PUBLISHED = Metric("batch_features_published_jobs", "gauge", "Jobs that have a feature directory.")
FAILURES = Metric(
    "batch_features_write_failures", "counter", "Directories that could not be written or removed."
)
TOTAL_CPU = Metric("batch_node_allocatable_cpus", "gauge", "CPUs that jobs may get on this node.")

METRICS = (PUBLISHED, FAILURES, TOTAL_CPU)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; nothing about directories where they are not kept."""
    if context.publisher is not None:
        yield Family(PUBLISHED, [("", context.publisher.published)])
        yield Family(FAILURES, [("", context.publisher.failures)])
    if context.machine.total_cpus is not None:
        yield Family(TOTAL_CPU, [("", context.machine.total_cpus)])
