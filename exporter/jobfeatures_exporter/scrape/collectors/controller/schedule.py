"""Collector in the controller role: waiting times, and expected ends of jobs by users' shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from jobfeatures.records.metrics import Metric, counter, gauge
from jobfeatures.records.schedulequality import Histogram, ScheduleQuality, UserQuality, Verdict
from jobfeatures_exporter.families.exposition import Family, Number, Sample, histogram_samples
from jobfeatures_exporter.model.context import Context

_SYSTEM = ("batch_system",)
_BY_PARTITION = ("batch_system", "partition")
_BY_USER = ("batch_system", "user")

WAIT = Metric(
    "batch_schedule_wait_seconds",
    "histogram",
    "Time from submission to start of jobs that have ended.",
    (*_BY_PARTITION, "le"),
)
SLOWDOWN = Metric(
    "batch_schedule_slowdown",
    "histogram",
    "Bounded slowdown of ended jobs: response time ÷ runtime (at least 10 s), at least 1.",
    (*_BY_PARTITION, "le"),
)
JOBS = counter(
    "batch_schedule_jobs",
    "Ended jobs whose expected end is final, since batch_schedule_begin_timestamp_seconds.",
    _SYSTEM,
)
VIOLATED = counter(
    "batch_schedule_violated_jobs",
    "Jobs in batch_schedule_jobs_total that ended after their expected end.",
    _SYSTEM,
)
TARDINESS = counter(
    "batch_schedule_tardiness_seconds", "How much later than expected these jobs ended, in sum.", _SYSTEM
)
WEIGHTED = counter(
    "batch_schedule_weighted_tardiness_cpu_seconds", "Sum of tardiness × CPUs of these jobs.", _SYSTEM
)
VEET = Metric(
    "batch_schedule_veet_ratio",
    "summary",
    "Quantiles over users of the part of a user's jobs that ended after their expected end.",
    (*_SYSTEM, "quantile"),
)
USERS = gauge("batch_schedule_users", "Users of the jobs in batch_schedule_jobs_total.", _SYSTEM)
SHARE = gauge("batch_schedule_share_cpus", "Default share of a user, in CPUs.", _SYSTEM)
BEGIN = gauge(
    "batch_schedule_begin_timestamp_seconds",
    "Start of the period covered; changes only when the exporter starts.",
    _SYSTEM,
)
UNSETTLED = gauge(
    "batch_schedule_unsettled_jobs",
    "Ended jobs whose expected end is not final, since an earlier job of the user has not ended.",
    _SYSTEM,
)
SKIPPED = counter(
    "batch_schedule_skipped_jobs", "Ended jobs that are not counted, by reason.", (*_SYSTEM, "reason")
)
UNFINISHED = gauge(
    "batch_schedule_unfinished_jobs",
    "Jobs that wait or run, by whether they will be late.",
    (*_SYSTEM, "verdict"),
)
USER_VEET = gauge(
    "batch_schedule_user_veet_ratio",
    "Part of a user's jobs that ended after their expected end, of the users with most weighted tardiness.",
    _BY_USER,
)
USER_WEIGHTED = counter(
    "batch_schedule_user_weighted_tardiness_cpu_seconds",
    "Weighted tardiness of the users with most of it.",
    _BY_USER,
)

METRICS = (
    *(WAIT, SLOWDOWN, JOBS, VIOLATED, TARDINESS, WEIGHTED, VEET, USERS, SHARE, BEGIN, UNSETTLED, SKIPPED),
    *(UNFINISHED, USER_VEET, USER_WEIGHTED),
)

_PLAIN: dict[Metric, Callable[[ScheduleQuality], Number]] = {
    JOBS: lambda found: found.jobs,
    VIOLATED: lambda found: found.violated,
    TARDINESS: lambda found: found.tardiness_secs,
    WEIGHTED: lambda found: found.weighted_tardiness_cpu_secs,
    USERS: lambda found: found.users,
    SHARE: lambda found: found.share_cpus,
    BEGIN: lambda found: found.begin_secs,
    UNSETTLED: lambda found: found.unsettled_jobs,
}
_OF_USER: dict[Metric, Callable[[UserQuality], Number]] = {
    USER_VEET: lambda user: user.veet,
    USER_WEIGHTED: lambda user: user.weighted_tardiness_cpu_secs,
}


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about the quality of each batch system's schedule."""
    found = context.schedules
    yield Family(WAIT, [each for one in found for each in _histograms(one.source, one.wait_secs)])
    yield Family(SLOWDOWN, [each for one in found for each in _histograms(one.source, one.slowdown)])
    for metric, value in _PLAIN.items():
        yield Family(metric, [((one.source,), value(one)) for one in found])
    quantiles = [((one.source, f"{at:g}"), each) for one in found for at, each in one.veet_quantiles.items()]
    yield Family(VEET, quantiles)
    yield Family(SKIPPED, [((one.source, why), count) for one in found for why, count in one.skipped.items()])
    yield Family(
        UNFINISHED,
        [((one.source, each.value), one.unfinished.get(each, 0)) for one in found for each in Verdict],
    )
    users = [((one.source, user.user), user) for one in found for user in one.top_users]
    for metric, of_user in _OF_USER.items():
        yield Family(metric, [(values, of_user(user)) for values, user in users])


def _histograms(source: str, found: Mapping[str, Histogram]) -> Iterator[Sample]:
    for partition, each in found.items():
        yield from histogram_samples((source, partition), each.bounds, each.counts, each.sum)
