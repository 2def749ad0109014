"""Published feature directories."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.context import Context
from exporter.exposition import Family, Metric, labels

PUBLISHED = Metric("batch_features_published_jobs", "gauge", "Jobs that have a feature directory.")
FAILURES = Metric(
    "batch_features_write_failures", "counter", "Directories that could not be written or removed."
)
HOOK_FAILURES = Metric(
    "batch_features_hook_failures",
    "counter",
    "Times that a hook of the batch system could not do what its label says (publish, remove) with a job's "
    "features; those of hooks that run as another user than the exporter are not known.",
    ("hook",),
)
TOTAL_CPU = Metric("batch_node_allocatable_cpus", "gauge", "CPUs that jobs may get on this node.")

ANSWERS = Metric(
    "batch_features_http_answers",
    "counter",
    "Requests to the features' listener that were answered, by HTTP status.",
    ("status",),
)

METRICS = (PUBLISHED, FAILURES, HOOK_FAILURES, TOTAL_CPU, ANSWERS)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; nothing about directories where they are not kept."""
    if context.publisher is not None:
        yield Family(PUBLISHED, [("", context.publisher.published)])
        yield Family(FAILURES, [("", context.publisher.failures)])
        yield Family(
            HOOK_FAILURES,
            [(labels(hook=hook), count) for hook, count in sorted(context.publisher.hook_failures.items())],
        )
    if context.feature_answers:
        yield Family(
            ANSWERS,
            [
                (labels(status=str(status)), count)
                for status, count in sorted(context.feature_answers.items())
            ],
        )
    if context.machine.total_cpus is not None:
        yield Family(TOTAL_CPU, [("", context.machine.total_cpus)])
