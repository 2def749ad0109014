"""Shows drain plans of a cluster's pools and of one node, as charts and tables. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobfeatures.drains.nodemetrics import READ, SeenNode, gather_nodes
from jobfeatures.drains.plan import NodePlan, ShutdownChoice, compute_choice, plan_drain
from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import counted
from jobfeatures.records.series import Series
from jobfeatures_exporter.cluster.draincurves import CurvePoint, DrainCurve, cheapest, thin
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.view.units import format_core_time, format_when
from jobfeatures_exporter.web.pages.chart import draw_curve
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name, tag
from jobfeatures_exporter.web.pages.pieces import PageData, Row, lines, note, numeric, section, table

MAX_PLANS = 12
MAX_CHOICES = 12
MAX_NAMED = 6  # partitions of a pool listed by name


def plans_section(curves: Sequence[DrainCurve], data: PageData) -> Html:
    """Return the section of drain plans, one for each pool of partitions that share nodes."""
    text = note(
        "What a shutdown would waste if no job started from now on: CPUs idle until then, and the work of "
        "killed jobs. An estimate: jobs are assumed to run to their wall limits, and to lose all their "
        "work when killed. What jobs report themselves is known only on their nodes."
    )
    drawn = [_plan(curve, number, data) for number, curve in enumerate(curves[:MAX_PLANS]) if curve.points]
    if not drawn:
        return section(
            "Draining", "draining", note("No running jobs are known, so there is nothing to plan.")
        )
    left_out = len(curves) - MAX_PLANS
    more = note(f"{left_out} smaller pools are not shown.") if left_out > 0 else None
    return section("Draining", "draining", text, tag("div", *drawn, class_="plans"), more)


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
        facts.append(f" Without a known end, so killed at any time: {counted(curve.endless_jobs, 'job')}.")
    if curve.unknown_jobs:
        facts.append(f" Left out because too little is known: {counted(curve.unknown_jobs, 'job')}.")
    made = choices_table(curve.points, identity=f"plan-{number}")
    return tag(
        "figure",
        tag("figcaption", tag("strong", title), lines(None, join(*facts))),
        draw_curve(curve.points, label_of(first.core_secs, best)),
        tag("details", tag("summary", "As a table"), made),
    )


def label_of(now_core_secs: float, best: CurvePoint | ShutdownChoice | None) -> str:
    """Return the text alternative of a drain plan's chart: the waste of shutting down now, and the least.

    `best` is the choice with the least waste, None if unknown.
    """
    text = f"Core hours wasted, by time of shutdown: now {format_core_time(now_core_secs)}"
    if best is None:
        return text
    return f"{text}, least {format_core_time(best.core_secs)} {format_when(best.after_secs)}"


def choices_table(points: Sequence[CurvePoint], *, identity: str) -> Html:
    """Return a table of some of the times at which to shut down, including the cheapest.

    `points` are all times, with their cost; `identity` is the table's HTML id.
    """
    best = cheapest(points)
    head = ["Shutdown", "Waste", "Idle CPUs", "Killed work", "Jobs killed"]
    rows = [_row(point, is_best=point is best) for point in thin(points, MAX_CHOICES)]
    return table("Choices", head, rows, identity=identity, kind="cards")


def _row(point: CurvePoint, *, is_best: bool) -> Row:
    when = format_when(point.after_secs)
    return Row(
        f"{when}, the cheapest" if is_best else when,
        numeric(format_core_time(point.core_secs)),
        numeric(format_core_time(point.idle_core_secs)),
        numeric(format_core_time(point.kill_core_secs)),
        numeric(f"{point.killed:,}"),
    )


# --- one node's plan, as `jobfeatures drain plan` makes it from the same series ----------

MAX_JOBS = 200  # beyond, a plan takes too long for a page


def node_plan_section(data: PageData, running: int) -> Html | None:
    """Return the section of this node's drain plan; None if no job is known well enough for a plan.

    If the number of running jobs, `running`, is too large, it only names the command that makes the plan.
    """
    if running > MAX_JOBS:
        text = note(
            f"More than {MAX_JOBS} jobs run here; for a plan, use ",
            tag("code", "jobfeatures drain plan"),
            ".",
        )
        return section("Draining", "draining", text)
    node = _seen_node(data.families)
    plan = plan_drain(node, data.now_secs) if node is not None and node.jobs else None
    if node is None or plan is None or len(plan.unknown_jobs) == len(node.jobs):
        return None
    planned_secs = None if plan.announced is None else plan.announced.after_secs
    points = [_point(node, choice) for choice in plan.choices]
    text = note("What a shutdown would waste, by its time, if no job started here from now on.")
    facts = tag("figcaption", *_facts(node, plan, data))
    drawn = draw_curve(points, label_of(plan.choices[0].core_secs, plan.best), planned_secs=planned_secs)
    figures = tag("div", choices_table(points, identity="plan-table"), class_="shown")
    both = tag("div", tag("figure", facts, drawn), figures, class_="plans")
    return section("Draining", "draining", text, both)


def _seen_node(families: Sequence[Family]) -> SeenNode | None:
    series = (
        Series(metric.sample_name, dict(zip(metric.label_names, values, strict=True)), value)
        for metric, samples in families
        if metric in READ
        for values, value in samples
    )
    try:
        nodes = gather_nodes(series, "metrics")
    except ParseError:
        return None  # an infinite time, for example
    return nodes[0] if nodes else None


def _point(node: SeenNode, choice: ShutdownChoice) -> CurvePoint:
    """Return a choice as a point of the curve; draining CPUs count as idle."""
    before = choice
    if choice.after_secs > 0:
        before = compute_choice(node, math.nextafter(choice.after_secs, 0))
    return CurvePoint(
        choice.after_secs,
        choice.idle_core_secs + choice.draining_core_secs,
        choice.kill_core_secs,
        before.core_secs,
        len(choice.killed),
    )


def _facts(node: SeenNode, plan: NodePlan, data: PageData) -> list[Child]:
    best, killing_none, announced = plan.best, plan.killing_none, plan.announced
    facts: list[Child] = []
    if best is None:
        facts.append(tag("strong", "Too little is known to name a cheapest time. "))
    else:
        facts += [
            tag("strong", "Cheapest ", format_when(best.after_secs)),
            join(" (", data.moment(data.now_secs + best.after_secs), "): "),
            f"{format_core_time(best.core_secs)} ({best.basis}), ",
            f"{len(best.killed)} of {len(node.jobs)} jobs killed. ",
        ]
        if killing_none is not None and killing_none is not best:
            facts += [
                tag("strong", "No job killed ", format_when(killing_none.after_secs)),
                f": {format_core_time(killing_none.core_secs)}. ",
            ]
        if best.after_secs > 0:
            facts.append(f"Now: {format_core_time(plan.choices[0].core_secs)}.")
    if announced is not None:
        lost, killed = format_core_time(announced.core_secs), len(announced.killed)
        facts.append(f" At the planned shutdown: {lost}, {killed} killed.")
    if plan.unknown_jobs:
        facts.append(f" Left out because too little is known: {counted(len(plan.unknown_jobs), 'job')}.")
    return facts
