"""The page of a node. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from exporter.collectors import drains, features, node
from exporter.context import Context
from exporter.exposition import Family, Metric, Number, labels
from exporter.web.pages.cards import cards_section
from exporter.web.pages.health import health_section
from exporter.web.pages.jobfigures import JobList, job_list
from exporter.web.pages.jobs import jobs_table
from exporter.web.pages.layout import page
from exporter.web.pages.markup import Child, Html, join, name, tag
from exporter.web.pages.nodeplan import node_plan_section
from exporter.web.pages.numbers import Numbers
from exporter.web.pages.pieces import (
    MAX_ROWS,
    UNKNOWN,
    Part,
    badge,
    bar,
    figure,
    lines,
    moment,
    section,
    tile,
    tiles,
)
from exporter.web.pages.reports import reports_section
from exporter.web.pages.units import (
    format_bytes,
    format_core_hours,
    format_figure,
    format_share,
    format_span,
)
from jobfeatures.drains.drain import OPERATOR
from jobfeatures.status.waste import Basis

CROWDED = 0.95


def render_node(context: Context, families: Sequence[Family], tz: tzinfo | None = None) -> str:
    """Return the page of what is known now; `families` are those of /metrics, times are shown in `tz`."""
    numbers = Numbers(families)
    shown = job_list(context, numbers, MAX_ROWS)
    has_gpus = context.snapshot is not None and bool(context.snapshot.gpu_drivers)
    title = context.node_name or "This node"
    return page(
        title,
        _head(context, numbers, tz),
        _shutdown(context, numbers, tz),
        _tiles(context, numbers, shown, has_gpus=has_gpus),
        section("Jobs", "jobs", jobs_table(shown, context.now_secs, tz, has_gpus=has_gpus)),
        cards_section(context, numbers),
        reports_section(context, numbers, tz),
        node_plan_section(families, numbers, shown.running, context.now_secs, tz),
        health_section(context, numbers),
    )


def _head(context: Context, numbers: Numbers, tz: tzinfo | None) -> Html:
    made = context.sysinfo
    parts: list[Child] = []
    if made is not None:
        parts.append(f"{made.os_name} {made.os_release} {made.architecture}")
        if made.cpu_model:
            parts.append(made.cpu_model)
    cores = numbers.one(node.CORES)
    if cores is not None:
        parts.append(join(figure(node.CORES, cores, format_figure), " logical cores"))
    taken = numbers.one(node.TAKEN)
    if taken is None:
        read: Html = badge("not read yet", "warn")
    else:
        age = max(0.0, context.now_secs - taken)
        read = join("as of ", moment(taken, tz), f", {format_span(age)} ago")
    words = [join(" · ", each) if number else join(each) for number, each in enumerate(parts)]
    return join(tag("p", *words, class_="about"), tag("p", read, class_="about", id="as-of"))


def _shutdown(context: Context, numbers: Numbers, tz: tzinfo | None) -> Html | None:
    """Return the notice of what is planned, with who asks for it."""
    planned = sorted(numbers.all(drains.SHUTDOWN).items(), key=lambda each: each[1])
    draining = [text for text, flag in numbers.all(drains.NODE_DRAINING).items() if flag]
    view = context.drains
    if view is None or not (planned or draining or view.problem):
        return None
    found: list[Html] = []
    for text, at in planned:
        left = at - context.now_secs
        when = f"in {format_span(left)}" if left >= 0 else f"{format_span(-left)} ago"
        found.append(
            tag("p", tag("strong", "Shutdown "), moment(at, tz), f", {when}: ", *_asker(context, text, tz))
        )
    shown = {text for text, _ in planned}
    for text in draining:
        if text not in shown:
            found.append(tag("p", tag("strong", "Draining: "), *_asker(context, text, tz)))
    if view.problem:
        found.append(tag("p", badge("problem", "bad"), " ", name(view.problem, 160)))
    return tag("div", *found, class_="notice", role="note")


def _asker(context: Context, text: str, tz: tzinfo | None) -> list[Child]:
    """Return who asks for a drain, and why as far as that is known."""
    view = context.drains
    if view is None:
        return []
    own = view.drains.machine
    if text == labels(source=OPERATOR) and own is not None:
        return ["asked for by ", name(own.set_by, 24), " on ", moment(own.set_at_secs, tz)]
    for system, is_draining in sorted(view.announced.draining.items()):
        if text == labels(source=system):
            said = "starts no more jobs here" if is_draining else "has announced it"
            return [name(system, 24), f" {said}"]
    for system in sorted(view.announced.shutdowns):
        if text == labels(source=system):
            return [name(system, 24), " has announced it"]
    return []


def _tiles(context: Context, numbers: Numbers, shown: JobList, *, has_gpus: bool) -> Html:
    made = [_cpu_tile(context, numbers), _memory_tile(numbers), _load_tile(numbers)]
    if has_gpus:
        made.append(_gpu_tile(context))
    made.append(_jobs_tile(numbers, shown))
    made += [
        _waste_tile("If drained now", drains.DRAINING_WASTE, numbers, "idle until the last job ends"),
        _waste_tile("If killed now", drains.KILL_WASTE, numbers, "of work would be lost"),
    ]
    return tiles(*made)


def _cpu_tile(context: Context, numbers: Numbers) -> Html:
    busy, cores = context.node_busy_cpus, numbers.one(node.CORES)
    if busy is None or not cores:
        return tile("CPUs busy", lines(UNKNOWN))
    share = busy / cores
    label = f"{format_figure(busy)} of {format_figure(cores)} CPUs busy"
    drawn = bar(label, Part(share, "over" if share > CROWDED else "used"))
    return tile(
        "CPUs busy",
        join(drawn, lines(join(format_share(share)), f"{format_figure(busy)} of {format_figure(cores)}")),
    )


def _memory_tile(numbers: Numbers) -> Html:
    total = numbers.one(node.MEMORY, labels(kind="total"))
    free = numbers.one(node.MEMORY, labels(kind="available"))
    if not total or free is None:
        return tile("Memory", lines(UNKNOWN))
    share = 1 - free / total
    label = f"{format_bytes(total - free)} of {format_bytes(total)} memory in use"
    drawn = bar(label, Part(share, "bad-bar" if share > CROWDED else "used"))
    parts = join(
        figure(node.MEMORY, free, format_bytes), " free of ", figure(node.MEMORY, total, format_bytes)
    )
    return tile("Memory", join(drawn, lines(format_share(share), parts)))


def _load_tile(numbers: Numbers) -> Html:
    loads = [numbers.one(node.LOAD, labels(minutes=each)) for each in ("1", "5", "15")]
    first, *others = (figure(node.LOAD, each, format_figure) for each in loads)
    later = join(others[0], " in 5 min, ", others[1], " in 15 min")
    return tile("Load", lines(first, later))


def _gpu_tile(context: Context) -> Html:
    cards = context.snapshot.gpus if context.snapshot is not None else ()
    busy = [each.ce_util_percent for each in cards if each.ce_util_percent is not None]
    noun = "card" if len(cards) == 1 else "cards"
    if not busy:
        return tile("GPUs", lines(f"{len(cards)} {noun}", "use not known"))
    share = sum(busy) / len(busy) / 100
    drawn = bar(f"GPUs {format_share(share)} busy", Part(share))
    return tile("GPUs", join(drawn, lines(format_share(share), f"busy, of {len(cards)} {noun}")))


def _jobs_tile(numbers: Numbers, shown: JobList) -> Html:
    running, held = f"{shown.running:,}", shown.held_cpus
    total = numbers.one(features.TOTAL_CPU)
    text = f"{format_figure(held)} CPUs allocated"
    if not total:
        return tile("Jobs", lines(running, text))
    label = f"{format_figure(held)} of {format_figure(total)} CPUs allocated"
    given = join(
        f"{format_figure(held)} of ", figure(features.TOTAL_CPU, total, format_figure), " CPUs allocated"
    )
    return tile(
        "Jobs",
        join(
            bar(label, Part(held / total, "over" if held > total else "used")),
            lines(running, given),
        ),
    )


def _waste_tile(title: str, metric: Metric, numbers: Numbers, said: str) -> Html:
    found: tuple[Number, Basis] | None = None
    for basis in Basis:
        value = numbers.one(metric, labels(basis=basis))
        if value is not None:
            found = value, basis
    if found is None:
        return tile(title, lines(UNKNOWN, "not known for all jobs"))
    return tile(title, lines(figure(metric, found[0], format_core_hours), f"{said} ({found[1]})"))
