"""Collector: the feature directories that the exporter publishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobfeatures.publish.hookreasons import ACTIONS, MADE_GOOD, PAIRS, REASONS
from jobfeatures.records.metrics import NODE_CPUS, counter, gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

PUBLISHED = gauge("batch_features_published_jobs", "Jobs that have a feature directory.")
FAILURES = counter("batch_features_write_failures", "Directories that could not be written or removed.")
HOOK_FAILURES = counter(
    "batch_features_hook_failures",
    "Failures of prologs (publish) and epilogs (remove), without those that the daemon soon makes good: "
    f"{', '.join(sorted(MADE_GOOD))}. Only hooks of the exporter's user are counted.",
    ("hook",),
)
HOOK_FAILURES_BY_REASON = counter(
    "batch_features_hook_failures_by_reason",
    f"All failures of hooks, by reasons that there were: {', '.join(REASONS)}.",
    ("hook", "reason"),
)
DOUBTS = counter(
    "batch_features_doubtful_values",
    "Values published although they break the text: a shutdown with less notice than grace_secs promises, a "
    "start ahead of this node's clock. Absent before the first; each is in the log.",
)
LEFTOVERS = gauge(
    "batch_node_ended_jobs_with_processes", "Ended jobs whose control group still holds processes."
)
EMPTY_GROUPS = gauge(
    "batch_node_empty_job_groups",
    "Control groups without processes whose jobs are not on this node: they are no jobs here.",
)
WITHOUT_GROUP = gauge(
    "batch_node_jobs_without_group",
    "Jobs that run here by their batch system's word and have had no control group for a minute: "
    "no_group_found (they should have one, and have no figures) or no_group_expected (their batch system "
    "makes none, or they have no step here yet). Absent without such jobs.",
    ("reason",),
)

ANSWERS = counter(
    "batch_features_http_answers", "Requests answered by the features' listener, by HTTP status.", ("status",)
)

METRICS = (
    *(PUBLISHED, FAILURES, HOOK_FAILURES, HOOK_FAILURES_BY_REASON, DOUBTS),
    *(LEFTOVERS, EMPTY_GROUPS, WITHOUT_GROUP, NODE_CPUS, ANSWERS),
)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about feature directories.

    Those about their publisher are included only if publishing is enabled.
    """
    if context.publisher is not None:
        yield Family.single(PUBLISHED, context.publisher.published)
        yield Family.single(FAILURES, context.publisher.failures)
        counts = context.publisher.hook_failures
        yield Family.known(HOOK_FAILURES, [((hook,), _sum_of(hook, counts)) for hook in ACTIONS])
        yield Family.counted(HOOK_FAILURES_BY_REASON, counts.items())
        yield Family.single(DOUBTS, context.publisher.contradictions or None)
    if context.snapshot is not None:
        yield Family.single(LEFTOVERS, len(context.ended_with_processes))
        yield Family.single(EMPTY_GROUPS, len(context.jobs_of_empty_groups))
        without = context.missing_groups.counts.items()
        yield Family(WITHOUT_GROUP, sorted(((why.value,), count) for why, count in without))
    yield Family(
        ANSWERS, [((str(status),), count) for status, count in sorted(context.feature_answers.items())]
    )
    yield Family.single(NODE_CPUS, context.allocatable_cpus)


def _sum_of(hook: str, counts: Mapping[tuple[str, str], int]) -> int | None:
    """Return the failures of a hook, None if a count is not known."""
    needed = [pair for pair in PAIRS if pair[0] == hook and pair[1] not in MADE_GOOD]
    return sum(counts[pair] for pair in needed) if counts.keys() >= {*needed} else None
