"""How good the schedule is to its users: waits, slowdowns, and ends against what a fair share promises."""

from __future__ import annotations

from grafana.board import Placed, Row, cluster_variable, dashboard, line, user_link, variable
from grafana.panels import (
    GREEN,
    OF_CLUSTER,
    ORANGE,
    RED,
    Json,
    boxes,
    colored,
    heatmap,
    query,
    stat,
    steps,
    text,
    timeseries,
)
from grafana.tables import Column, Label, table

RATE = "$__rate_interval"
S = f'{OF_CLUSTER},batch_system=~"$batch_system"'
P = f'{S},partition=~"$partition"'
CORE_HOURS = "suffix:core h"
LATE = steps(GREEN, (0.05, ORANGE), (0.25, RED))
NONE = "no controller tells yet"


def board() -> Json:
    """Return the dashboard."""
    return dashboard(
        "schedule",
        "Batch: schedule quality",
        "Waits and slowdowns of jobs that have ended, and how many of them ended later than a user with a fair share of "
        "the machine may expect.",
        ["schedule"],
        [
            cluster_variable(),
            variable("batch_system", "System", 'batch_schedule_jobs_total{cluster=~"$cluster"}', "The batch system."),
            variable("partition", "Partition", 'batch_schedule_wait_seconds_bucket{cluster=~"$cluster"}',
                     "Where the jobs ran. What users may expect is over all partitions."),
        ],
        [
            Row("Now", _now()),
            Row("Waits", _waits()),
            Row("Slowdowns", _slowdowns()),
            Row("Against what users may expect", _expected()),
            Row("Users", _users()),
        ],
        since="now-24h",
    )  # fmt: skip


def _grown(counter: str, matchers: str, window: str, function: str = "increase") -> str:
    """Return how counters grew, or fast: unknown where a controller that was restarted counts its history anew."""
    begin = f"changes(batch_schedule_begin_timestamp_seconds{{{S}}}[{window}]) > 0"
    grown = f"{function}({counter}{{{matchers}}}[{window}])"
    return f"({grown} unless on (cluster, instance, batch_system) {begin})"


def _quantile(at: float, metric: str) -> str:
    return f"histogram_quantile({at:g}, sum by (le) (increase({metric}_bucket{{{P}}}[$__range])))"


def _now() -> list[Placed]:
    jobs = f"sum(batch_schedule_jobs_total{{{S}}})"
    weighted = f"sum(batch_schedule_weighted_tardiness_cpu_seconds_total{{{S}}})"
    return line(
        stat("Jobs judged", "Jobs that have ended and whose expected end is final, since the controller began.", jobs,
             empty=NONE),
        stat("Ended late", "Part of them that ended after the time a fair share promises.",
             f"sum(batch_schedule_violated_jobs_total{{{S}}}) / ({jobs} > 0)", "percentunit", thresholds=LATE,
             empty="none has ended yet"),
        stat("Median user", "Part of late jobs of the user in the middle.",
             f'max(batch_schedule_veet_ratio{{{S},quantile="0.5"}})', "percentunit", thresholds=LATE,
             empty="no user yet"),
        stat("Tardiness", "By how much jobs ended late, times their CPUs, since the controller began.", f"{weighted} / 3600", CORE_HOURS,
             empty=NONE),
        stat("Certainly late", "Jobs that wait or run, and certainly end late.",
             f'sum(batch_schedule_unfinished_jobs{{{S},verdict="certainly_late"}})', empty=NONE,
             thresholds=steps(GREEN, (1, ORANGE))),
        stat("Users", "Whose jobs have ended.", f"sum(batch_schedule_users{{{S}}})", empty=NONE),
        stat("A fair share", "CPUs that a user may expect by default.", f"max(batch_schedule_share_cpus{{{S}}})", "none",
             empty=NONE),
        stat("Median wait", "Half of the jobs that ended in the time shown had waited at most as long.",
             _quantile(0.5, "batch_schedule_wait_seconds"), "s", empty="no job ended"),
        height=4,
    )  # fmt: skip


def _waits() -> list[Placed]:
    metric = "batch_schedule_wait_seconds"
    return [
        *line(
            heatmap("Waits", "Jobs that ended, by how long they had waited: darker is fewer.",
                    f"sum by (le) ({_grown(f'{metric}_bucket', P, RATE)})", "s", empty="no job ended in this time"),
            _boxes("Waits as boxes", metric, "Time from submission to start", "s"),
        ),
        *line(
            timeseries("Median and long waits", "Half, nine tenths and 99 of 100 jobs waited at most as long.",
                       _quantiles(metric), "s", empty="no job ended in this time",
                       overrides=[colored("99 of 100", RED), colored("9 of 10", ORANGE), colored("half", GREEN)]),
            timeseries("Mean wait by partition", "Of jobs that ended.", _means(metric), "s", empty="no job ended in this time"),
        ),
    ]  # fmt: skip


def _slowdowns() -> list[Placed]:
    metric = "batch_schedule_slowdown"
    return line(
        heatmap("Slowdowns", "Jobs that ended, by (wait + runtime) ÷ runtime; runtimes below 10 s count as 10 s.",
                f"sum by (le) ({_grown(f'{metric}_bucket', P, RATE)})", "none", empty="no job ended in this time"),
        _boxes("Slowdowns as boxes", metric, "(wait + runtime) ÷ runtime", "none"),
        timeseries("Mean slowdown by partition", "Of jobs that ended.", _means(metric), "none",
                   empty="no job ended in this time"),
    )  # fmt: skip


def _boxes(title: str, metric: str, what: str, unit: str) -> Json:
    def at(quantile: float) -> Json:
        over = f"sum by (le) ({_grown(f'{metric}_bucket', P, RATE)})"
        return query(f"histogram_quantile({quantile:g}, {over})")

    return boxes(
        title,
        f"{what} of the jobs that ended at a time: box from the first to the third quarter, whiskers from 5 to 95 of "
        "100, the line is the median.",
        [at(each) for each in (0.05, 0.25, 0.5, 0.75, 0.95)],
        unit,
        empty="no job ended in this time",
    )


def _quantiles(metric: str) -> list[Json]:
    return [
        query(f"histogram_quantile({at}, sum by (le) ({_grown(f'{metric}_bucket', P, '1h')}))", name)
        for at, name in ((0.5, "half"), (0.9, "9 of 10"), (0.99, "99 of 100"))
    ]


def _means(metric: str) -> list[Json]:
    sums, counts = (
        f"sum by (partition) ({_grown(f'{metric}_{each}', P, '1h')})" for each in ("sum", "count")
    )
    return [query(f"{sums} / ({counts} > 0)", "{{partition}}")]


def _expected() -> list[Placed]:
    def quantile(at: str) -> Json:
        return query(f'max(batch_schedule_veet_ratio{{{S},quantile="{at}"}})')

    jobs, late = (
        f"sum({_grown(f'batch_schedule_{each}_total', S, '1h', 'rate')})"
        for each in ("jobs", "violated_jobs")
    )
    verdicts = [
        colored("certainly_late", RED), colored("possibly_late", ORANGE), colored("not_late", GREEN),
    ]  # fmt: skip
    return [
        *line(
            boxes("Late jobs by user, as boxes",
                  "Each user has a part of jobs that ended late. Box: the users in the middle half; whiskers: the best and "
                  "the worst; the line is the median. A low box with a high whisker is a schedule that is unfair to few.",
                  [quantile(each) for each in ("0", "0.25", "0.5", "0.75", "1")], "percentunit", highest=1,
                  empty="no user yet"),
            timeseries("Ended late", "Part of the jobs judged in the last hour, once there is an hour, and of all since the controller began.",
                       [
                           query(f"{late} / ({jobs} > 0) and on () count(batch_schedule_jobs_total{{{S}}} offset 1h)", "last hour"),
                           query(f"sum(batch_schedule_violated_jobs_total{{{S}}})"
                                 f" / (sum(batch_schedule_jobs_total{{{S}}}) > 0)", "all"),
                       ], "percentunit", high=1, empty="no job judged yet"),
            timeseries("Jobs that wait or run, by expected end",
                       "A job is certainly late once its time has passed, possibly late if it needs all of its wall limit.",
                       [query(f"sum by (verdict) (batch_schedule_unfinished_jobs{{{S}}})", "{{verdict}}")], "none",
                       stacked=True, overrides=verdicts, empty=NONE),
        ),
        *line(
            timeseries("Tardiness", "How much later than promised jobs ended, in an hour: added up, and times their CPUs.",
                       [
                           query(f"sum({_grown('batch_schedule_tardiness_seconds_total', S, '1h')}) / 3600", "hours"),
                           query(f"sum({_grown('batch_schedule_weighted_tardiness_cpu_seconds_total', S, '1h')}) / 3600",
                                 "CPU hours"),
                       ], "none", empty="no job judged yet"),
            timeseries("Not judged", "Jobs that ended and wait for an earlier job of their user, and those that do not count.",
                       [
                           query(f"sum(batch_schedule_unsettled_jobs{{{S}}})", "not final"),
                           query(f"sum by (reason) (batch_schedule_skipped_jobs_total{{{S}}})", "left out: {{reason}}"),
                       ], "none", empty=NONE),
        ),
    ]  # fmt: skip


def _users() -> list[Placed]:
    key = "cluster, batch_system, user"
    return [
        (
            table(
                "Users with most tardiness", "Of each: the part of jobs that ended late, and by how much, times CPUs. A name "
                "leads to the user's page.",
                [Label("user", "User", (user_link(),)), Label("cluster", "Cluster", width=90), Label("batch_system", "System", hidden=True)],
                [
                    Column("Ended late", f"max by ({key}) (batch_schedule_user_veet_ratio{{{S}}})", "percentunit", LATE,
                           gauge=True, low=0, high=1, decimals=0),
                    Column("Weighted tardiness",
                           f"max by ({key}) (batch_schedule_user_weighted_tardiness_cpu_seconds_total{{{S}}}) / 3600",
                           CORE_HOURS, decimals=1),
                ],
                sort="Weighted tardiness", empty="no user yet",
            ),
            12, 9,
        ),
        (
            text(
                "How to read this",
                "**Expected end.** Suppose that each user had a fixed share of the machine, and a perfect plan for it. "
                "A job that ends later than it would have there was served *late*.\n\n"
                "**Late jobs by user.** One number a user: the part of jobs that ended late. Users with few jobs count as "
                "much as users with many; that is the point.\n\n"
                "**Weighted tardiness.** Seconds late times CPUs: what it cost.\n\n"
                "Waits look bad on any full cluster. Lateness tells a full cluster from an unfair one.",
            ),
            12, 9,
        ),
    ]  # fmt: skip
