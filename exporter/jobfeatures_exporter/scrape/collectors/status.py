"""Collector: what jobs report about themselves in $JOBSTATUS."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import (
    JOB,
    JOB_SAYS_CPUS,
    JOB_SAYS_POSTPONABLE,
    JOB_SAYS_PRIORITY,
    counter,
    gauge,
)
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

AGE = gauge("batch_job_status_age_seconds", "Time since the job last wrote its JOBSTATUS.", JOB)
VIOLATIONS = counter("batch_jobstatus_violations", "JOBSTATUS sets rejected or flagged.")
BY_REASON = counter(
    "batch_jobstatus_violations_by_reason",
    "Those of batch_jobstatus_violations_total, by reasons that there were.",
    ("reason",),
)

METRICS = (AGE, JOB_SAYS_CPUS, JOB_SAYS_PRIORITY, JOB_SAYS_POSTPONABLE, VIOLATIONS, BY_REASON)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about job status; a job that has not written $JOBSTATUS has no series."""
    views = context.statuses.items()
    yield Family.known(AGE, [(key, view.age_secs(context.now_secs)) for key, view in views])
    reported = [(key, view.status) for key, view in views if view.status is not None]
    yield Family(JOB_SAYS_CPUS, [(key, each.used_cpu) for key, each in reported])
    yield Family.known(JOB_SAYS_PRIORITY, [(key, each.priority_factor) for key, each in reported])
    postponable = [(key, each.can_postpone_last_job) for key, each in reported]
    yield Family(JOB_SAYS_POSTPONABLE, [(key, int(each)) for key, each in postponable if each is not None])
    counts = context.status_violations
    yield Family.single(VIOLATIONS, sum(counts.values()) if counts else None)
    yield Family.counted(BY_REASON, [((str(reason),), count) for reason, count in counts.items()])
