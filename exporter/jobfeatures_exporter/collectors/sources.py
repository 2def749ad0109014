"""Batch sources: how old what they told is, and whether they still answer."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.model import JobTable
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family, Metric, labels

AGE = Metric(
    "batch_exporter_source_age_seconds",
    "gauge",
    "Age of the table in use; absent until the source has answered once.",
    ("source",),
    "seconds",
)
UP = Metric("batch_exporter_source_up", "gauge", "1 if the latest question was answered.", ("source",))
COMPLETE = Metric(
    "batch_exporter_source_complete", "gauge", "1 if the answer leaves out no job of this node.", ("source",)
)
FAILING = Metric(
    "batch_exporter_source_failing_seconds",
    "gauge",
    "Time since the first of the questions that have not been answered since the last answer; absent while "
    "the source answers.",
    ("source",),
    "seconds",
)
FAILURES = Metric(
    "batch_exporter_source_failures", "counter", "Questions that were not answered.", ("source",)
)
REJECTED = Metric("batch_exporter_source_rejected_records", "counter", "Records skipped as bad.", ("source",))
JOBS = Metric("batch_exporter_source_jobs", "gauge", "Jobs in the table in use.", ("source",))
AHEAD = Metric(
    "batch_exporter_source_clock_ahead_seconds",
    "gauge",
    "By how much the batch system's clock is before the node's, negative where it is behind; absent where "
    "it does not tell the time. Remaining times take it into account.",
    ("source",),
    "seconds",
)

METRICS = (AGE, UP, FAILING, COMPLETE, FAILURES, REJECTED, JOBS, AHEAD)


def families(context: Context) -> Iterator[Family]:
    """Yield the sources' families."""
    texts = [(labels(source=source.name), source) for source in context.sources]
    ages = [(text, source.age_secs(context.now_secs)) for text, source in texts]
    tables = [(text, source.table) for text, source in texts if isinstance(source.table, JobTable)]
    yield Family(AGE, [(text, age) for text, age in ages if age is not None])
    yield Family(
        UP, [(text, int(source.table is not None and not source.last_error)) for text, source in texts]
    )
    failing = [(text, source.failing_secs(context.now_secs)) for text, source in texts]
    yield Family(FAILING, [(text, secs) for text, secs in failing if secs is not None])
    yield Family(COMPLETE, [(text, int(table.complete)) for text, table in tables])
    yield Family(FAILURES, [(text, source.failures) for text, source in texts])
    yield Family(REJECTED, [(text, source.rejected) for text, source in texts])
    yield Family(JOBS, [(text, len(table.jobs)) for text, table in tables])
    yield Family(
        AHEAD,
        [(text, table.clock_ahead_secs) for text, table in tables if table.clock_ahead_secs is not None],
    )
