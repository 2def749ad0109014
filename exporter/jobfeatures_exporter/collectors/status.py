"""What jobs tell of themselves in $JOBSTATUS."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures_exporter.context import JOB, Context, job_labels
from jobfeatures_exporter.exposition import Family, Metric, labels

AGE = Metric(
    "batch_job_status_age_seconds", "gauge", "Time since the job last wrote its JOBSTATUS.", JOB, "seconds"
)
USED = Metric("batch_job_status_used_cpus", "gauge", "CPUs that the job says it uses.", JOB)
PRIORITY = Metric(
    "batch_job_status_priority_factor",
    "gauge",
    "The job's priority_factor: higher is better, to be compared among the jobs of one user only.",
    JOB,
)
POSTPONABLE = Metric(
    "batch_job_status_can_postpone",
    "gauge",
    "The job's can_postpone_last_job: 1 if its last payload can be postponed, 0 if not.",
    JOB,
)
VIOLATIONS = Metric(
    "batch_jobstatus_violations", "counter", "JOBSTATUS sets refused or flagged, by reason.", ("reason",)
)

METRICS = (AGE, USED, PRIORITY, POSTPONABLE, VIOLATIONS)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; a job that has not written its JOBSTATUS has no series."""
    views = [(job_labels(key), view) for key, view in context.statuses.items()]
    ages = [(text, view.age_secs(context.now_secs)) for text, view in views]
    yield Family(AGE, [(text, age) for text, age in ages if age is not None])
    yield Family(USED, [(text, view.status.used_cpu) for text, view in views if view.status is not None])
    told = [(text, view.status) for text, view in views if view.status is not None]
    yield Family(
        PRIORITY, [(text, each.priority_factor) for text, each in told if each.priority_factor is not None]
    )
    yield Family(
        POSTPONABLE,
        [
            (text, int(each.can_postpone_last_job))
            for text, each in told
            if each.can_postpone_last_job is not None
        ],
    )
    counts = sorted(context.status_violations.items())
    yield Family(VIOLATIONS, [(labels(reason=str(reason)), count) for reason, count in counts])
