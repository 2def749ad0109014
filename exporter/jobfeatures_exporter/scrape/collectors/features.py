"""Published feature directories."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.publish.hookreasons import REASONS
from jobfeatures.records.metrics import NODE_CPUS, counter, gauge
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.scrape.exposition import Family

PUBLISHED = gauge("batch_features_published_jobs", "Jobs that have a feature directory.")
FAILURES = counter("batch_features_write_failures", "Directories that could not be written or removed.")
HOOK_FAILURES = counter(
    "batch_features_hook_failures",
    f"Failures of prologs (publish) and epilogs (remove) by reason: {', '.join(REASONS)}. "
    "Only hooks of the exporter's user are counted.",
    ("hook", "reason"),
)
LEFTOVERS = gauge(
    "batch_node_ended_jobs_with_processes", "Ended jobs whose control group still holds processes."
)
EMPTY_GROUPS = gauge(
    "batch_node_empty_job_groups",
    "Control groups without processes whose jobs are not on this node: they are no jobs here.",
)

ANSWERS = counter(
    "batch_features_http_answers", "Requests answered by the features' listener, by HTTP status.", ("status",)
)

METRICS = (PUBLISHED, FAILURES, HOOK_FAILURES, LEFTOVERS, EMPTY_GROUPS, NODE_CPUS, ANSWERS)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; those of the publisher only if there is one."""
    if context.publisher is not None:
        yield Family.single(PUBLISHED, context.publisher.published)
        yield Family.single(FAILURES, context.publisher.failures)
        yield Family(HOOK_FAILURES, sorted(context.publisher.hook_failures.items()))
    if context.snapshot is not None:
        yield Family.single(LEFTOVERS, len(context.leftovers_here))
        yield Family.single(EMPTY_GROUPS, len(context.empty_groups))
    yield Family(
        ANSWERS, [((str(status),), count) for status, count in sorted(context.feature_answers.items())]
    )
    yield Family.single(NODE_CPUS, context.allocatable_cpus)
