"""Drain plans of the pools of a cluster, drawn and as tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jobfeatures.drains.plan import Choice
from jobfeatures_exporter.cluster.draincurves import CurvePoint, DrainCurve, cheapest, thin
from jobfeatures_exporter.view.units import counted, format_core_time, format_when
from jobfeatures_exporter.web.pages.chart import draw_curve
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name, tag
from jobfeatures_exporter.web.pages.pieces import PageData, Row, lines, note, numeric, section, table

MAX_PLANS = 12
MAX_CHOICES = 12
MAX_NAMED = 6  # partitions of a pool


def plans_section(curves: Sequence[DrainCurve], data: PageData) -> Html:
    """Return the section, a plan for each pool of partitions that share nodes."""
    said = note(
        "If no job started from now on: CPUs that stay idle until the shutdown, and work of the jobs that it "
        "kills. Jobs are taken to run to their wall limits, and to lose all when killed: estimated. "
        "What jobs report themselves is known on their nodes."
    )
    drawn = [_plan(curve, number, data) for number, curve in enumerate(curves[:MAX_PLANS]) if curve.points]
    if not drawn:
        return section(
            "Draining", "draining", note("No running job is known, so that there is nothing to plan.")
        )
    left_out = len(curves) - MAX_PLANS
    more = note(f"{left_out} smaller pools are not shown.") if left_out > 0 else None
    return section("Draining", "draining", said, tag("div", *drawn, class_="plans"), more)


def _plan(curve: DrainCurve, number: int, data: PageData) -> Html:
    best = curve.best
    title = listed([name(each, 24) for each in curve.partitions], " + ", MAX_NAMED)
    first = curve.points[0]
    facts: list[Child] = [
        f"{counted(curve.jobs, 'job')} on {counted(curve.total_cpus, 'CPU')}. ",
        f"Cheapest {format_when(best.after_secs)} (",
        data.moment(data.now_secs + best.after_secs),
        f"): {format_core_time(best.core_secs)}, {counted(best.killed, 'job')} killed.",
    ]
    if best.after_secs > 0:
        facts.append(f" Now: {format_core_time(first.core_secs)}.")
    if curve.endless_jobs:
        facts.append(f" Without a known end, and killed at any time: {counted(curve.endless_jobs, 'job')}.")
    if curve.unknown_jobs:
        facts.append(f" Left out, since too little is known: {counted(curve.unknown_jobs, 'job')}.")
    made = choices_table(curve.points, identity=f"plan-{number}")
    return tag(
        "figure",
        tag("figcaption", tag("strong", title), lines(None, join(*facts))),
        draw_curve(curve.points, label_of(first.core_secs, best)),
        tag("details", tag("summary", "The same in figures"), made),
    )


def label_of(now_core_secs: float, best: CurvePoint | Choice | None) -> str:
    """Return in words what a curve shows."""
    said = f"Core hours wasted by the time of a shutdown: now {format_core_time(now_core_secs)}"
    if best is None:
        return said
    return f"{said}, least {format_core_time(best.core_secs)} {format_when(best.after_secs)}"


def choices_table(points: Sequence[CurvePoint], *, identity: str) -> Html:
    """Return some of the choices in figures, the cheapest among them."""
    best = cheapest(points)
    head = ["Shutdown", "Waste", "Idle CPUs", "Killed work", "Jobs killed"]
    rows = [_row(point, is_best=point is best) for point in thin(points, MAX_CHOICES)]
    return table("Choices", head, rows, identity=identity)


def _row(point: CurvePoint, *, is_best: bool) -> Row:
    when = format_when(point.after_secs)
    return Row(
        f"{when}, the cheapest" if is_best else when,
        numeric(format_core_time(point.core_secs)),
        numeric(format_core_time(point.idle_core_secs)),
        numeric(format_core_time(point.kill_core_secs)),
        numeric(f"{point.killed:,}"),
    )
