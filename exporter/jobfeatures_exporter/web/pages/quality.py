"""How good the schedule is: users and their jobs against expected ends. Pure."""

from __future__ import annotations

from jobfeatures.schedule.quality import ScheduleQuality, Verdict
from jobfeatures_exporter.collectors import schedule
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
    PageData,
    Part,
    Row,
    bar,
    figure,
    known,
    lines,
    note,
    numeric,
    section,
    table,
    tile,
    tiles,
)

VERDICTS = {  # its words, and the class of its part of the bar
    Verdict.CERTAINLY_LATE: ("certainly late", "bad-bar"),
    Verdict.POSSIBLY_LATE: ("possibly late", "over"),
    Verdict.NOT_LATE: ("not late", "used"),
}


def quality_section(quality: ScheduleQuality, data: PageData) -> Html:
    """Return the section of one batch system."""
    source = quality.source
    since = note(
        "Jobs that ended since ",
        data.moment(quality.begin_secs),
        ", against the end that each could expect if its user had a share of ",
        data.figure(schedule.SHARE, format_figure, source),
        " CPUs alone. VEET of a user is the part of the jobs that ended later.",
    )
    return section(
        f"Users' expected ends, {quality.source}",
        f"quality-{quality.source}",
        since,
        tiles(*_tiles(quality, data)),
        tag("div", _users(quality, data), _quantiles(quality, data), class_="columns shown"),
    )


def _tiles(quality: ScheduleQuality, data: PageData) -> list[Html]:
    source = quality.source
    jobs, violated = data.numbers.one(schedule.JOBS, source), data.numbers.one(schedule.VIOLATED, source)
    share = violated / jobs if jobs and violated is not None else None
    drawn = None if share is None else bar(f"{format_share(share)} of the jobs late", Part(share, "over"))
    late = figure(schedule.VIOLATED, violated, format_count)
    of_all = join(late, " of ", figure(schedule.JOBS, jobs, format_count), " jobs")
    tardiness = join(data.figure(schedule.TARDINESS, format_span, source), " over all jobs")
    counts = {each: data.numbers.one(schedule.UNFINISHED, source, each.value) or 0 for each in Verdict}
    whole = sum(counts.values())
    words = ", ".join(f"{format_count(counts[each])} {said}" for each, (said, _) in VERDICTS.items())
    parts = [Part(counts[each] / (whole or 1), kind) for each, (_, kind) in VERDICTS.items()]
    unsettled = data.figure(schedule.UNSETTLED, format_count, source)
    users = data.figure(schedule.USERS, format_count, source)
    weighted = data.figure(schedule.WEIGHTED, format_core_time, source)
    return [
        tile("Ended late", known(share, format_share), of_all, drawn=drawn),
        tile("Tardiness", weighted, tardiness),
        tile("Waiting or running", format_count(whole), words, drawn=bar(words, *parts) if whole else None),
        tile("Users", users, join(unsettled, " ended jobs not judged yet")),
    ]


def _quantiles(quality: ScheduleQuality, data: PageData) -> Html | None:
    source, rows = quality.source, []
    for at in quality.veet_quantiles:
        value = data.numbers.one(schedule.VEET, source, f"{at:g}")
        if value is None:
            continue
        words = {0.0: "best user", 0.5: "median user", 1.0: "worst user"}.get(
            at, f"{at * 100:g} % of the users, at most"
        )
        drawn = bar(f"{words}: {format_share(value)}", Part(value, "over"))
        rows.append(Row(words, Cell(drawn, kind="bars"), numeric(figure(schedule.VEET, value, format_share))))
    if not rows:
        return None
    head = ["Users", "Jobs that ended late", "VEET"]
    return tag("div", table("VEET over users", head, rows, identity=f"veet-{source}"))


def _users(quality: ScheduleQuality, data: PageData) -> Html | None:
    if not quality.top_users:
        return None
    rows = []
    for each in quality.top_users:
        of_user = quality.source, each.user
        veet = data.numbers.one(schedule.USER_VEET, *of_user)
        drawn = None if veet is None else bar(f"{format_share(veet)} late", Part(veet, "over"))
        shown = figure(schedule.USER_VEET, veet, format_share)
        counts = f"{each.violated:,} of {each.jobs:,} jobs"
        rows.append(
            Row(
                Cell(name(each.user, 32), kind="job"),
                Cell(join(drawn, lines(shown, counts)), veet, "bars"),
                data.cell(schedule.USER_WEIGHTED, format_core_time, *of_user),
                numeric(format_span(each.tardiness_secs), float(each.tardiness_secs)),
                numeric(format_figure(each.share_cpus), float(each.share_cpus)),
            )
        )
    caption = "Users with most weighted tardiness"
    head = ["User", "VEET", "Weighted tardiness", "Tardiness", "Share in CPUs"]
    made = table(caption, head, rows, identity=f"users-{quality.source}", kind="cards sortable")
    return tag("div", made)
