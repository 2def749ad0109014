"""Published feature directories."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.publish.reasons import REASONS
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family, Metric, labels

PUBLISHED = Metric("batch_features_published_jobs", "gauge", "Jobs that have a feature directory.")
FAILURES = Metric(
    "batch_features_write_failures", "counter", "Directories that could not be written or removed."
)
HOOK_FAILURES = Metric(
    "batch_features_hook_failures",
    "counter",
    "Times that a hook of the batch system could not do what its label says (publish, remove) with a job's "
    "features, or not all of it, by reason: "
    + ", ".join(REASONS)
    + "; those of hooks that run as another user "
    "than the exporter are not known.",
    ("hook", "reason"),
)
TOTAL_CPU = Metric(
    "batch_node_allocatable_cpus",
    "gauge",
    "CPUs that jobs may get on this node: as the site states, else as the batch system gives them out, else "
    "all that are online.",
)
LEFTOVERS = Metric(
    "batch_node_ended_jobs_with_processes",
    "gauge",
    "Jobs whose end is told while their control group still holds processes; jobs.hold is how long they keep "
    "their directories.",
)

ANSWERS = Metric(
    "batch_features_http_answers",
    "counter",
    "Requests to the features' listener that were answered, by HTTP status.",
    ("status",),
)

METRICS = (PUBLISHED, FAILURES, HOOK_FAILURES, LEFTOVERS, TOTAL_CPU, ANSWERS)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; nothing about directories where they are not kept."""
    if context.publisher is not None:
        yield Family(PUBLISHED, [("", context.publisher.published)])
        yield Family(FAILURES, [("", context.publisher.failures)])
        yield Family(
            HOOK_FAILURES,
            [
                (labels(hook=hook, reason=reason), count)
                for (hook, reason), count in sorted(context.publisher.hook_failures.items())
            ],
        )
    if context.snapshot is not None:
        yield Family(LEFTOVERS, [("", len(context.leftovers_here()))])
    if context.feature_answers:
        yield Family(
            ANSWERS,
            [
                (labels(status=str(status)), count)
                for status, count in sorted(context.feature_answers.items())
            ],
        )
    if context.allocatable_cpus is not None:
        yield Family(TOTAL_CPU, [("", context.allocatable_cpus)])
