"""Collector: batch sources, the age of their last answer, and whether they still answer."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import SOURCE_AGE, SOURCE_UP, counter, gauge
from jobfeatures.records.model import JobKey, JobTable
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

COMPLETE = gauge(
    "batch_exporter_source_complete", "1 if the answer includes all jobs of this node.", ("source",)
)
FAILING = gauge(
    "batch_exporter_source_failing_seconds",
    "How long the source has not answered; absent while it answers.",
    ("source",),
)
FAILURES = counter("batch_exporter_source_failures", "Queries that were not answered.", ("source",))
REJECTED = counter(
    "batch_exporter_source_rejected_records", "Records skipped because they were malformed.", ("source",)
)
JOBS = gauge("batch_exporter_source_jobs", "Jobs in the table in use.", ("source",))
OLDEST = gauge(
    "batch_exporter_source_oldest_answer_seconds",
    "Age of the oldest answer that is in use about a job on this node.",
    ("source",),
)
AHEAD = gauge(
    "batch_exporter_source_clock_ahead_seconds",
    "How far the batch system's clock is ahead of the node's; remaining times are corrected by it.",
    ("source",),
)

METRICS = (SOURCE_AGE, SOURCE_UP, FAILING, COMPLETE, FAILURES, REJECTED, JOBS, OLDEST, AHEAD)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about batch sources."""
    now = context.now_secs
    sources = [((source.name,), source) for source in context.sources]
    tables = [(name, source.table) for name, source in sources if isinstance(source.table, JobTable)]
    yield Family.known(SOURCE_AGE, [(name, source.age_secs(now)) for name, source in sources])
    yield Family(
        SOURCE_UP,
        [(name, int(source.table is not None and not source.last_error)) for name, source in sources],
    )
    yield Family.known(FAILING, [(name, source.failing_secs(now)) for name, source in sources])
    yield Family(COMPLETE, [(name, int(table.complete)) for name, table in tables])
    yield Family(FAILURES, [(name, source.failures) for name, source in sources])
    yield Family(REJECTED, [(name, source.rejected) for name, source in sources])
    yield Family(JOBS, [(name, len(table.jobs)) for name, table in tables])
    ages = [
        (name, [max(0.0, now - table.answered_at_secs(key)) for key in _of_system(table, context)])
        for name, table in tables
    ]
    yield Family.known(OLDEST, [(name, max(each, default=None)) for name, each in ages])
    yield Family.known(AHEAD, [(name, table.clock_ahead_secs) for name, table in tables])


def _of_system(table: JobTable, context: Context) -> Iterator[JobKey]:
    """Yield the jobs here that a batch system has reported; prologs' records do not count."""
    return (key for key in context.jobs_here.keys() & table.jobs.keys() if key.batch_system == table.source)
