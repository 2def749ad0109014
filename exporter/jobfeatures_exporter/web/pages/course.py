"""Draws the last hour: sparklines of jobs, and the time line of the node. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobfeatures.records.quantities import counted
from jobfeatures_exporter.state.history import EVERY_SECS, HOUR_SECS, POINTS, Span, UsageHistory
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.units import Form, format_bytes, format_cpus, format_share
from jobfeatures_exporter.web.pages.markup import Child, Html, listed, tag
from jobfeatures_exporter.web.pages.pieces import PageData, Row, job_link, note, section, table

HEIGHT = 20  # of a sparkline, in its own units; its width is its number of minutes
WIDE, TALL, MARGIN = 720, 150, 4
MARKS_AT = 128  # y of the marks of events, below the lines
MAX_EVENTS = 100


def _spark(
    what: str, course: UsageHistory, values: Sequence[float], form: Form, top: float | None, now_secs: float
) -> Html | None:
    """Return the last hour's values as a sparkline scaled to `top`; None with fewer than two points."""
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return None
    top = max(top if top is not None and math.isfinite(top) else 0.0, *known) or 1.0
    points = [
        None if math.isnan(value) else (_minute(at, now_secs), round(HEIGHT - 1 - (HEIGHT - 2) * value / top))
        for at, value in zip(course.times_secs, values, strict=True)
    ]
    path = _path([each for each in points if each is None or each[0] >= 0])
    if not path:
        return None
    return tag(
        "svg",
        tag("path", d=path),
        class_="spark",
        role="img",
        aria_label=_describe(what, course.times_secs, values, form),
        viewBox=f"0 0 {POINTS} {HEIGHT}",
        preserveAspectRatio="none",
    )


def _figures(course: UsageHistory) -> tuple[tuple[str, Sequence[float], Form], ...]:
    return (
        ("CPUs", course.cpus, format_cpus),
        ("memory", course.memory_bytes, format_bytes),
        ("busy GPUs", course.gpus, format_cpus),
    )


def job_lines(course: UsageHistory, now_secs: float, *wholes: float | None) -> list[Html | None]:
    """Return sparklines of the CPUs, memory and busy GPUs that a job used, from its `course`.

    One with too few values is None. `wholes` are the amounts allocated to the job, in this order (None:
    unknown): they are the top of each scale.
    """
    figures = zip(_figures(course), wholes, strict=True)
    return [_spark(what, course, values, form, whole, now_secs) for (what, values, form), whole in figures]


def time_line(course: UsageHistory, spans: Sequence[Span], data: PageData, shown: NodeView) -> Html | None:
    """Return the section on the node's last hour: its load (`course`), and starts and ends of jobs (`spans`).

    Returns None if nothing is known of that hour.
    """
    now_secs = data.now_secs
    since = now_secs - HOUR_SECS
    events = [(each.start_secs, each, "started") for each in spans if since <= each.start_secs <= now_secs]
    events += [
        (each.end_secs, each, "ended")
        for each in spans
        if each.end_secs is not None and since <= each.end_secs <= now_secs
    ]
    events.sort(key=lambda each: (-each[0], each[1].key))
    if len(course.times_secs) < 2 and not events:
        return None
    began = sum(what == "started" for _, _, what in events)
    facts = f"{counted(began, 'job')} started, {counted(len(events) - began, 'job')} ended"
    cards = 0 if data.context.snapshot is None else len(data.context.snapshot.gpus)
    drawn = _drawing(course, events, now_secs, facts, (shown.cores, shown.memory_bytes, cards))
    keys = [
        tag("span", "CPUs busy", class_="key cpus-key"),
        tag("span", "memory in use", class_="key memory-key"),
    ]
    if course.gpus:
        keys.append(tag("span", "GPUs busy", class_="key gpus-key"))
    keys += [tag("span", "▲ start of a job", class_="key"), tag("span", "▼ end of a job", class_="key")]
    details = None
    if events:
        rows = [Row(data.moment(at), job_link(span.key), what) for at, span, what in events[:MAX_EVENTS]]
        made = table(
            "Starts and ends of jobs in the last hour, the latest first",
            ["Time", "Job", "What"],
            rows,
            identity="events-table",
            more=len(events) - MAX_EVENTS,
        )
        details = tag("details", tag("summary", "Starts and ends"), made)
    figure = tag("figure", tag("figcaption", listed([facts, *keys], " ")), drawn)
    return section("Last hour", "last-hour", figure, details)


def lines_of_job(
    course: UsageHistory | None,
    now_secs: float,
    given: float | None,
    limit: float | None = None,
    cards: float | None = None,
) -> Html:
    """Return sparklines of what a job used in the last hour, with captions; a note if nothing is known.

    The tops of their scales are the job's allocation: `given` CPUs, `limit` bytes of memory, `cards` GPUs
    (None: unknown).
    """
    course = course or UsageHistory()
    lines = zip(_figures(course), job_lines(course, now_secs, given, limit, cards), strict=True)
    found: list[Child] = [
        tag(
            "div",
            tag("dt", _describe(what[0].upper() + what[1:], course.times_secs, values, form)),
            tag("dd", drawn),
        )
        for (what, values, form), drawn in lines
        if drawn
    ]
    if not found:
        return note("The history starts in a job's second minute on this node.")
    return tag("dl", *found, class_="courses")


def _describe(what: str, times: Sequence[float], values: Sequence[float], form: Form) -> str:
    """Return the range of values in words, and the time they cover: the last hour, or some minutes."""
    known = [(at, value) for at, value in zip(times, values, strict=True) if not math.isnan(value)]
    if not known:
        return f"{what}: unknown"
    minutes = round((known[-1][0] - known[0][0]) / EVERY_SECS) + 1
    when = "in the last hour" if minutes >= POINTS - 1 else f"in {counted(minutes, 'minute')}"
    used = [value for _, value in known]
    low, high, last = (form(each) for each in (min(used), max(used), used[-1]))
    return (
        f"{what}: {low} {when}" if low == high == last else f"{what} {when}: {low} to {high}, latest {last}"
    )


def _minute(at_secs: float, now_secs: float) -> int:
    return round(POINTS - (now_secs - at_secs) / EVERY_SECS)


def _path(points: Sequence[tuple[int, int] | None]) -> str:
    """Return an SVG path through points, broken at None; points inside a level stretch are left out."""
    made: list[str] = []
    previous: tuple[int, int] | None = None
    for number, point in enumerate(points):
        following = points[number + 1] if number + 1 < len(points) else None
        if point is None:
            previous = None
            continue
        if previous is None:
            made.append(f"M{point[0]} {point[1]}")
            if following is None:
                made.append("h0")  # a dot
        elif following is None or not previous[1] == point[1] == following[1]:
            made.append(f"L{point[0]} {point[1]}")
        previous = point
    return "".join(made)


def _drawing(
    course: UsageHistory,
    events: Sequence[tuple[float, Span, str]],
    now_secs: float,
    facts: str,
    wholes: tuple[float | None, float | None, float | None],
) -> Html:
    height = MARKS_AT - 20

    def x(at_secs: float) -> float:
        return MARGIN + (WIDE - 2 * MARGIN) * (1 - (now_secs - at_secs) / HOUR_SECS)

    parts: list[Html] = []
    shares = []
    rows = zip(
        ("CPUs", "memory", "GPUs"), (course.cpus, course.memory_bytes, course.gpus), wholes, strict=True
    )
    for what, values, whole in rows:
        known = [value for value in values if not math.isnan(value)]
        if not known:
            continue
        top = max(whole or 0.0, *known, 1e-9)
        points = [
            None
            if math.isnan(value) or at < now_secs - HOUR_SECS
            else (round(x(at)), round(MARGIN + height * (1 - value / top)))
            for at, value in zip(course.times_secs, values, strict=True)
        ]
        parts.append(tag("path", d=_path(points), class_=f"line {what.lower()}-line"))
        shares.append(f"{what} {format_share(min(known) / top)} to {format_share(max(known) / top)}")
    for at, _, what in events[:MAX_EVENTS]:
        mark, y = ("start-mark", MARKS_AT + 8) if what == "started" else ("end-mark", MARKS_AT - 8)
        tip = 8 if what == "ended" else -8
        parts.append(tag("path", class_=mark, d=f"M{x(at):.0f} {y + tip}l-4 {-tip}h8z"))
    for minutes in (60, 45, 30, 15, 0):
        place = x(now_secs - minutes * 60)
        anchor = "start" if minutes == 60 else "end" if minutes == 0 else "middle"
        words = "now" if minutes == 0 else f"−{minutes} min"
        parts.append(tag("text", words, x=f"{place:.0f}", y=TALL, text_anchor=anchor))
    for share, y in ((1, MARGIN + 9), (0, MARGIN + height - 3)):
        parts.append(tag("text", format_share(share), x=MARGIN, y=y, class_="scale"))
    base = tag(
        "path",
        class_="axis",
        d=f"M{MARGIN} {MARGIN + height}H{WIDE - MARGIN}M{MARGIN} {MARGIN}H{WIDE - MARGIN}",
    )
    label = f"The last hour: {', '.join([*shares, facts])}"
    return tag(
        "svg",
        base,
        *parts,
        class_="chart hour",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {WIDE} {TALL + 6}",
    )
