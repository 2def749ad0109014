"""How good the schedule is: users and their jobs against expected ends. Pure."""

from __future__ import annotations

from datetime import tzinfo

from jobfeatures.metrics import Metric
from jobfeatures.schedule.quality import ScheduleQuality, Verdict
from jobfeatures_exporter.collectors import schedule
from jobfeatures_exporter.exposition import Number
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.units import (
    format_core_time,
    format_count,
    format_figure,
    format_share,
    format_span,
)
from jobfeatures_exporter.web.pages.markup import Html, join, name, tag
from jobfeatures_exporter.web.pages.pieces import (
    Cell,
    Part,
    Row,
    bar,
    figure,
    lines,
    moment,
    note,
    section,
    table,
    tile,
    tiles,
)

VERDICTS = {
    Verdict.CERTAINLY_LATE: "certainly late",
    Verdict.POSSIBLY_LATE: "possibly late",
    Verdict.NOT_LATE: "not late",
}


def quality_section(quality: ScheduleQuality, numbers: Numbers, tz: tzinfo | None) -> Html:
    """Return the section of one batch system."""
    source = quality.source
    since = note(
        "Jobs that ended since ",
        moment(quality.begin_secs, tz),
        ", against the end that each could expect if its user had a share of ",
        figure(schedule.SHARE, numbers.one(schedule.SHARE, source), format_figure),
        " CPUs alone. VEET of a user is the part of the jobs that ended later.",
    )
    return section(
        f"Users' expected ends, {quality.source}",
        f"quality-{quality.source}",
        since,
        tiles(*_tiles(quality, numbers)),
        tag("div", _users(quality, numbers), _quantiles(quality, numbers), class_="columns shown"),
    )


def _tiles(quality: ScheduleQuality, numbers: Numbers) -> list[Html]:
    source = quality.source
    jobs, violated = numbers.one(schedule.JOBS, source), numbers.one(schedule.VIOLATED, source)
    share = violated / jobs if jobs and violated is not None else None
    drawn = None if share is None else bar(f"{format_share(share)} of the jobs late", Part(share, "over"))
    counted = join(
        figure(schedule.VIOLATED, violated, format_count),
        " of ",
        figure(schedule.JOBS, jobs, format_count),
        " jobs",
    )
    made = [
        tile("Ended late", join(drawn, lines("–" if share is None else format_share(share), counted))),
        tile(
            "Tardiness",
            lines(
                figure(schedule.WEIGHTED, numbers.one(schedule.WEIGHTED, source), format_core_time),
                join(
                    figure(schedule.TARDINESS, numbers.one(schedule.TARDINESS, source), format_span),
                    " over all jobs",
                ),
            ),
        ),
    ]
    counts = {each: numbers.one(schedule.UNFINISHED, source, each.value) or 0 for each in Verdict}
    whole = sum(counts.values())
    words = ", ".join(f"{format_count(counts[each])} {said}" for each, said in VERDICTS.items())
    parts = [
        Part(counts[each] / whole, kind)
        for each, kind in zip(Verdict, ("bad-bar", "over", "used"), strict=True)
        if whole
    ]
    unfinished = lines(format_count(whole), words)
    made.append(tile("Waiting or running", join(bar(words, *parts), unfinished) if whole else unfinished))
    settled = numbers.one(schedule.UNSETTLED, source)
    made.append(
        tile(
            "Users",
            lines(
                figure(schedule.USERS, numbers.one(schedule.USERS, source), format_count),
                join(figure(schedule.UNSETTLED, settled, format_count), " ended jobs not judged yet"),
            ),
        )
    )
    return made


def _quantiles(quality: ScheduleQuality, numbers: Numbers) -> Html | None:
    rows = []
    for at in quality.veet_quantiles:
        value = numbers.one(schedule.VEET, quality.source, f"{at:g}")
        if value is None:
            continue
        words = {0.0: "best user", 0.5: "median user", 1.0: "worst user"}.get(
            at, f"{at * 100:g} % of the users, at most"
        )
        drawn = bar(f"{words}: {format_share(value)}", Part(value, "over"))
        rows.append(
            Row(
                [
                    Cell(words),
                    Cell(drawn, kind="bars"),
                    Cell(figure(schedule.VEET, value, format_share), kind="number"),
                ]
            )
        )
    if not rows:
        return None
    made = table(
        "VEET over users", ["Users", "Jobs that ended late", "VEET"], rows, identity=f"veet-{quality.source}"
    )
    return tag("div", made)


def _users(quality: ScheduleQuality, numbers: Numbers) -> Html | None:
    if not quality.top_users:
        return None
    rows = []
    for each in quality.top_users:
        of_user = quality.source, each.user
        veet = numbers.one(schedule.USER_VEET, *of_user)
        drawn = None if veet is None else bar(f"{format_share(veet)} late", Part(veet, "over"))
        counts = f"{each.violated:,} of {each.jobs:,} jobs"
        rows.append(
            Row(
                [
                    Cell(name(each.user, 32), kind="job"),
                    Cell(
                        join(drawn, lines(figure(schedule.USER_VEET, veet, format_share), counts)),
                        veet,
                        "bars",
                    ),
                    _amount(schedule.USER_WEIGHTED, numbers.one(schedule.USER_WEIGHTED, *of_user)),
                    Cell(format_span(each.tardiness_secs), float(each.tardiness_secs), "number"),
                    Cell(format_figure(each.share_cpus), float(each.share_cpus), "number"),
                ]
            )
        )
    caption = "Users with most weighted tardiness"
    head = ["User", "VEET", "Weighted tardiness", "Tardiness", "Share in CPUs"]
    made = table(caption, head, rows, identity=f"users-{quality.source}", kind="cards sortable")
    return tag("div", made)


def _amount(metric: Metric, value: Number | None) -> Cell:
    return Cell(figure(metric, value, format_core_time), value, "number")
