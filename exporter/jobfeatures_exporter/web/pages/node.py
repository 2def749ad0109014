"""Makes the page of a node, and the section of its GPUs. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from jobfeatures.drains.drain import OPERATOR
from jobfeatures.records.combining import grouped
from jobfeatures.records.metrics import NODE_CPUS, NODE_READ_AT, NODE_SHUTDOWN, Metric
from jobfeatures.records.model import JobKey
from jobfeatures.records.quantities import counted
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import GpuSample
from jobfeatures_exporter.scrape.collectors import drains, gpus, node
from jobfeatures_exporter.state.history import History
from jobfeatures_exporter.state.missinggroups import DOCTOR, describe
from jobfeatures_exporter.view.hints import find_hints
from jobfeatures_exporter.view.job import JobView, identity_of
from jobfeatures_exporter.view.node import NodeView, WasteSum, view_node
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.units import (
    format_bytes,
    format_core_time,
    format_cpus,
    format_figure,
    format_part_of,
    format_share,
    format_span,
    format_when,
)
from jobfeatures_exporter.web.asked import DENSE, FRONT, FULL, WASTED, AskedPage
from jobfeatures_exporter.web.pages.course import time_line
from jobfeatures_exporter.web.pages.health import health_section, troubles_notice, words_of
from jobfeatures_exporter.web.pages.jobs import jobs_table
from jobfeatures_exporter.web.pages.layout import page
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name, tag
from jobfeatures_exporter.web.pages.pieces import (
    MAX_ROWS,
    UNKNOWN,
    Cell,
    PageData,
    Part,
    Row,
    badge,
    bar,
    figure,
    job_link,
    lines,
    note,
    numeric,
    section,
    table,
    tile,
    tiles,
)
from jobfeatures_exporter.web.pages.plans import node_plan_section
from jobfeatures_exporter.web.pages.reports import reports_section

CROWDED = 0.95
MANY_JOBS = 24  # beyond, each has one line, so that what follows is not far
MAX_COURSES = 200  # jobs with sparklines of the last hour
MAX_LEFTOVERS = 8  # listed in the notice


def render_node(
    context: Context,
    families: Sequence[Family],
    *,
    history: History | None = None,
    asked: AskedPage = FRONT,
) -> str:
    """Return the HTML page of a node.

    `families` are the metrics of /metrics, `history` is the last hour (None: unknown), and `asked` says how
    the jobs are shown and sorted.
    """
    data = PageData(context, families)
    shown = view_context(context, data.numbers, MAX_ROWS)
    past = history or History()
    if asked.sort == WASTED:
        shown = replace(shown, jobs=tuple(sorted(shown.jobs, key=_by_waste)))
    has_gpus = context.snapshot is not None and bool(context.snapshot.gpu_drivers)
    title = context.node_name or "This node"
    courses = {each.key: past.job(each.key) for each in shown.jobs[:MAX_COURSES]}
    full = FULL if shown.count > MANY_JOBS else ""  # the view that has to be asked for
    are_lines = asked.view == DENSE or bool(full and asked.view != FULL)
    choices = _choices(asked, full, are_lines=are_lines) if shown.count else None
    made = jobs_table(shown, data, courses, has_gpus=has_gpus, is_dense=are_lines)
    if asked.view == DENSE:
        head, troubles = _head(data), _troubles(shown, data)
        return page(title, head, troubles, choices, section("Jobs", "jobs", made), kind="dense")
    return page(
        title,
        _head(data),
        _troubles(shown, data),
        _shutdown(data),
        _tiles(data, shown, has_gpus=has_gpus),
        section("Jobs", "jobs", choices, made),
        time_line(past.node(), past.spans(), data, shown),
        cards_section(data),
        reports_section(data),
        node_plan_section(data, shown.running),
        health_section(data, shown),
    )


def _by_waste(each: JobView) -> float:
    share = each.waste_now.share
    return 1.0 if share is None else -share


def _choices(asked: AskedPage, full: str, *, are_lines: bool) -> Html:
    """Return links to the page with its jobs in other orders or views."""
    choices = [
        ("Largest first", asked.address(sort=""), asked.sort == ""),
        ("Wastes most now", asked.address(sort=WASTED), asked.sort == WASTED),
        ("Full", asked.address(view=full), not are_lines),
    ]
    if full:
        choices.append(("One line per job", asked.address(view=""), are_lines and asked.view != DENSE))
    alone = "Jobs alone" if full else "One line per job"
    choices.append((alone, asked.address(view=DENSE), asked.view == DENSE))
    found = [
        tag("li", tag("strong", words, aria_current="true") if chosen else tag("a", words, href=href))
        for words, href, chosen in choices
    ]
    return tag("nav", tag("ul", *found), class_="choices", aria_label="Order and view of the jobs")


def view_context(
    context: Context, numbers: Numbers, limit: int | None = None, only: JobKey | None = None
) -> NodeView:
    """Return what the page shows of the node, with at most `limit` jobs (None: all), or only the job `only`.

    `numbers` are the values of the node's metrics.
    """
    return view_node(
        numbers,
        now_secs=context.now_secs,
        cpus_now=context.cpu_rates,
        busy_cpus=context.node_busy_cpus,
        limit=limit,
        only=only,
        known={key: identity_of(job) for key, job in context.shown_jobs.items()},
        words=words_of(context),
    )


def _troubles(shown: NodeView, data: PageData) -> Html | None:
    more = []
    if shown.unknown_allocations:
        text = f"The allocation of {counted(shown.unknown_allocations, 'job')} is unknown"
        seen = ": no batch system has reported it."
        more.append(tag("p", tag("strong", text), seen))
    if shown.leftovers:
        ids = listed([name(key.job_id, 24) for key in shown.leftovers], most=MAX_LEFTOVERS)
        more.append(tag("p", tag("strong", shown.leftovers_sentence), ": ", ids))
        advice = (
            "They use CPUs and memory that the batch system may give to other jobs: check what they "
            "are doing or waiting for. Their directories are kept for an hour."
        )
        more.append(tag("p", advice, class_="sub"))
    return troubles_notice(shown.failing_sources, data, *_groupless(shown, data), *more)


def _groupless(shown: NodeView, data: PageData) -> list[Html]:
    if not shown.groupless:
        return []
    missing = data.context.missing_groups
    ids = listed([name(key.job_id, 24) for key in missing.not_found], most=MAX_LEFTOVERS)
    where = "; ".join(describe(each) for _, each in sorted(missing.daemons.items()))
    advice = f"Of such a job neither CPU time nor memory is known: {where}. {DOCTOR}."
    return [
        tag("p", tag("strong", shown.groupless_sentence), ": ", ids),
        tag("p", advice, class_="sub"),
    ]


def _head(data: PageData) -> Html:
    made = data.context.sysinfo
    parts: list[Child] = []
    if made is not None:
        parts.append(f"{made.os_name} {made.os_release} {made.architecture}")
        if made.cpu_model:
            parts.append(made.cpu_model)
    if data.numbers.one(node.CORES) is not None:
        parts.append(join(data.figure(node.CORES, format_figure), " logical cores"))
    read = data.as_of(data.numbers.one(NODE_READ_AT))
    return join(tag("p", listed(parts, " · "), class_="about"), tag("p", read, class_="about", id="as-of"))


def _shutdown(data: PageData) -> Html | None:
    """Return the notice of planned shutdowns and drains, and who requested them."""
    planned = sorted(data.numbers.by_label(NODE_SHUTDOWN).items(), key=lambda each: each[1])
    draining = [source for source, flag in data.numbers.by_label(drains.NODE_DRAINING).items() if flag]
    view = data.context.drains
    if view is None or not (planned or draining or view.problem):
        return None
    found: list[Html] = []
    for source, at in planned:
        when = format_when(at - data.now_secs)
        found.append(
            tag("p", tag("strong", "Shutdown "), data.moment(at), f", {when}: ", *_asker(data, source))
        )
    shown = {source for source, _ in planned}
    for source in draining:
        if source not in shown:
            found.append(tag("p", tag("strong", "Draining: "), *_asker(data, source)))
    if view.problem:
        found.append(tag("p", badge("problem", "bad"), " ", name(view.problem, 160)))
    return tag("div", *found, class_="notice", role="note")


def _asker(data: PageData, source: str) -> list[Child]:
    """Return who requested a drain or shutdown."""
    view = data.context.drains
    if view is None:
        return []
    own = view.drains.machine
    if source == OPERATOR and own is not None:
        return ["requested by ", name(own.set_by, 24), " on ", data.moment(own.set_at_secs)]
    if source in view.announced.draining:
        text = "starts no more jobs here" if view.announced.draining[source] else "has announced it"
        return [name(source, 24), f" {text}"]
    return [name(source, 24), " has announced it"] if source in view.announced.shutdowns else []


def _tiles(data: PageData, shown: NodeView, *, has_gpus: bool) -> Html:
    made: list[Html | None] = [_cpu_tile(shown), _memory_tile(shown), _load_tile(data)]
    if has_gpus:
        made.append(_gpu_tile(data.context))
    idle = "idle until the last job ends"
    made += [
        _jobs_tile(shown),
        _worst_tile(shown),
        _waste_tile("If drained now", drains.DRAINING_WASTE, shown.draining, idle, _why_not_the_rows(shown)),
        _waste_tile("If killed now", drains.KILL_WASTE, shown.kill, "of work would be lost"),
    ]
    return tiles(*(each for each in made if each))


def _cpu_tile(shown: NodeView) -> Html:
    busy, cores = shown.busy_cpus, shown.cores
    if busy is None or not cores:
        return tile("CPUs busy", UNKNOWN)
    share, used = busy / cores, f"{format_cpus(busy)} of {format_figure(cores)}"
    drawn = bar(f"{used} CPUs busy", Part(share, "over" if share > CROWDED else "used"))
    return tile("CPUs busy", format_share(share), used, drawn=drawn)


def _memory_tile(shown: NodeView) -> Html:
    total, free = shown.memory_bytes, shown.available_bytes
    if not total or free is None:
        return tile("Memory", UNKNOWN)
    share = 1 - free / total
    label = f"{format_bytes(total - free)} of {format_bytes(total)} memory in use"
    drawn = bar(label, Part(share, "bad-bar" if share > CROWDED else "used"))
    of_all = figure(node.MEMORY, total, format_bytes)
    parts = join(figure(node.MEMORY, free, format_bytes), " free of ", of_all)
    return tile("Memory", format_share(share), parts, drawn=drawn)


def _load_tile(data: PageData) -> Html:
    now, of_5, of_15 = (data.figure(node.LOAD, format_figure, each) for each in ("1", "5", "15"))
    return tile("Load", now, join(of_5, " in 5 min, ", of_15, " in 15 min"))


def _gpu_tile(context: Context) -> Html:
    cards = context.snapshot.gpus if context.snapshot is not None else ()
    busy = [each.ce_util_percent for each in cards if each.ce_util_percent is not None]
    count = counted(len(cards), "card")
    if not busy:
        return tile("GPUs", count, "utilization unknown")
    share = sum(busy) / len(busy) / 100
    drawn = bar(f"GPUs {format_share(share)} busy", Part(share))
    return tile("GPUs", format_share(share), f"busy, of {count}", drawn=drawn)


_WORST_FIRST = ("bad", "warn", "")  # kinds of hints


def _jobs_tile(shown: NodeView) -> Html:
    held, total = shown.allocation, shown.allocatable_cpus
    running = f"{shown.running:,}" if shown.running or shown.jobs_are_known else UNKNOWN
    given: Child = "CPUs allocated: unknown" if held is None else f"{held} CPUs allocated"
    drawn = None
    if held is not None and total:
        share = shown.allocated_cpus / total
        given = join(f"{held} of ", figure(NODE_CPUS, total, format_figure), " CPUs allocated")
        label = f"{held} of {format_figure(total)} CPUs allocated"
        drawn = bar(label, Part(share, "over" if share > 1 else "used"))
    return tile("Jobs", running, given, shown.allocation_note, *_hints(shown), drawn=drawn)


def _hints(shown: NodeView) -> list[Html]:
    """Return how many of the jobs have each hint, the worst first."""
    found = Counter((each.kind, each.words) for job in shown.jobs for each in find_hints(job))
    ordered = sorted(found.items(), key=lambda each: (_WORST_FIRST.index(each[0][0]), -each[1], each[0]))
    return [badge(f"{count} × {words}", kind) for (kind, words), count in ordered]


def _worst_tile(shown: NodeView) -> Html | None:
    """Return the tile of the job that wastes most of the node now, None if none does notably."""
    worst = shown.most_wasteful
    if worst is None:
        return None
    return tile("Wastes most now", job_link(worst.key), *worst.waste_now.words)


def _waste_tile(title: str, metric: Metric, waste: WasteSum, text: str, more: str | None = None) -> Html:
    if waste.core_secs is None:
        return tile(title, UNKNOWN, "unknown for all jobs" if waste.jobs else "jobs unknown")
    drawn = figure(metric, waste.core_secs, format_core_time)
    return tile(title, drawn, f"{text} ({waste.basis})", waste.coverage, more)


def _why_not_the_rows(shown: NodeView) -> str | None:
    """Return why the node's waste by draining is not the sum of the jobs' rows; None if it is."""
    core_secs = shown.draining.core_secs
    in_rows = sum(each.draining or 0 for each in shown.jobs if each.is_running)
    rows = format_core_time(in_rows)
    if core_secs is None or not math.isfinite(core_secs) or rows == format_core_time(core_secs):
        return None
    if core_secs < in_rows:
        return f"the rows add up to {rows}: a job reports more than its CPUs can waste"
    return f"{rows} in the jobs' rows, {format_core_time(core_secs - in_rows)} on CPUs without a job"


# --- its GPUs ----------------------------------------------------------------------------

SHOWN_JOBS = 3
STALE_SECS = 60.0


def cards_section(data: PageData) -> Html | None:
    """Return the section of the GPUs; None on a node without any, or if their collector is disabled."""
    drivers = data.numbers.all(gpus.UP)
    if data.context.snapshot is None or not drivers:
        return None
    silent = [driver for driver in data.context.snapshot.gpu_drivers if not data.numbers.one(gpus.UP, driver)]
    problem = note(badge("no answer", "bad"), f" from the driver {', '.join(silent)}") if silent else None
    uses = data.context.shown_job_gpus
    users = grouped((use.uuid, use.key) for use in uses if isinstance(use.key, JobKey))
    cards = data.context.snapshot.gpus
    rows = [_card_row(each, data, users.get(each.card.uuid, [])) for each in cards[:MAX_ROWS]]
    made = table(
        "GPUs: use, memory, power, and the jobs on them",
        ["Card", "Busy", "Memory", "Power", "Temperature", "Jobs", "State"],
        rows,
        identity="cards-table",
        kind="cards",
        more=len(cards) - MAX_ROWS,
    )
    return section("GPUs", "cards", problem, made if rows else note("No GPU has been read yet."))


def _card_row(gpu: GpuSample, data: PageData, jobs: list[JobKey]) -> Row:
    uuid = gpu.card.uuid
    busy = data.numbers.one(gpus.UTILIZATION, uuid)
    used, total = data.numbers.one(gpus.MEMORY_USED, uuid), data.numbers.one(gpus.MEMORY, uuid)
    power, limit = data.numbers.one(gpus.POWER, uuid), data.numbers.one(gpus.POWER_LIMIT, uuid)
    age = data.numbers.one(gpus.AGE, uuid)
    number = "" if gpu.card.index is None else f"{gpu.card.index} "
    part_of = f"part of {gpu.card.parent_uuid}" if gpu.card.parent_uuid else gpu.card.uuid
    drawn_busy = None if busy is None else bar(f"{format_share(busy)} busy", Part(busy))
    drawn_memory = None
    if used is not None and total:
        drawn_memory = bar(f"{format_bytes(used)} of {format_bytes(total)} in use", Part(used / total))
    memory: Child = UNKNOWN
    if used is not None or total is not None:
        memory = join(
            figure(gpus.MEMORY_USED, used, lambda value: format_part_of(value, total or value)),
            " of ",
            figure(gpus.MEMORY, total, format_bytes),
        )
    watts = figure(gpus.POWER, power, _watts)
    power_text = (
        watts if limit is None else lines(watts, join("of ", figure(gpus.POWER_LIMIT, limit, _watts)))
    )
    return Row(
        Cell(lines(join(number, name(gpu.card.model or "card", 32)), name(part_of, 24)), kind="job"),
        Cell(join(drawn_busy, lines(figure(gpus.UTILIZATION, busy, format_share))), kind="bars"),
        Cell(join(drawn_memory, lines(memory)), kind="bars"),
        numeric(power_text),
        data.cell(gpus.TEMPERATURE, _celsius, uuid),
        listed([job_link(each) for each in jobs], most=SHOWN_JOBS) or "none",
        _card_state(data.numbers.one(gpus.FAILING, uuid), age),
    )


def _card_state(failing: float | None, age: float | None) -> Html:
    if failing:
        return badge(f"failing, code {failing:.0f}", "bad")
    if age is not None and age > STALE_SECS:
        return badge(f"read {format_span(age)} ago", "warn")
    return badge("good", "good")


def _watts(value: float) -> str:
    return f"{format_figure(value)}\u202fW"


def _celsius(value: float) -> str:
    return f"{format_figure(value)}\u202f°C"
