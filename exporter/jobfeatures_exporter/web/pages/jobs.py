"""Makes the table of a node's jobs: rows with bars and sparklines, or one line per job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jobfeatures.records.metrics import JOB_CPUS, JOB_DRAINING_WASTE, JOB_KILL_WASTE, JOB_REMAINING, Metric
from jobfeatures.records.model import JobKey, JobState
from jobfeatures.status.waste import Basis, RemainingBasis
from jobfeatures_exporter.families.exposition import Number
from jobfeatures_exporter.scrape.collectors import allocation, gpus, jobs
from jobfeatures_exporter.state.history import UsageHistory
from jobfeatures_exporter.view.hints import find_hints
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.units import (
    format_bytes,
    format_core_time,
    format_cpus,
    format_figure,
    format_part_of,
    format_share,
    format_span,
    format_time,
    machine_time,
    natural_sort_key,
)
from jobfeatures_exporter.web.pages.course import job_lines
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name, shorten, tag
from jobfeatures_exporter.web.pages.pieces import (
    UNKNOWN,
    Cell,
    PageData,
    Part,
    Row,
    badge,
    bar,
    box,
    figure,
    job_link,
    lines,
    note,
    number_or_dash,
    numeric,
    table,
)

WORDS = {
    RemainingBasis.WALL_LIMIT: "wall limit",
    RemainingBasis.CPU_LIMIT: "CPU limit",
    RemainingBasis.DEADLINE: "deadline",
    RemainingBasis.SHUTDOWN: "shutdown",
    RemainingBasis.EXPECTED_END: "its own estimate",
    RemainingBasis.MAXIMUM_END: "its own limit",
}
CROWDED = 1.25  # times its allocation; rates over a few seconds are inexact
MUCH_CACHE_BYTES = 2**30
MUCH_WASTE = 0.1  # share of the node
# Headings of a job's figures, see `_figures`.
FIGURES = ("CPUs", "Memory", "GPUs", "Wasted now", "Time", "Processes", "Waste if drained", "Waste if killed")
DOWN_FIRST = frozenset(FIGURES) - {"Time"}
LAST = float("inf")  # sorts after all known values
_WEIGHTS = {"bad": 10_000.0, "warn": 100.0, "": 1.0}  # of kinds of hints


def jobs_table(
    shown: NodeView,
    data: PageData,
    courses: Mapping[JobKey, UsageHistory | None],
    *,
    has_gpus: bool,
    is_dense: bool = False,
) -> Html:
    """Return the table of the jobs in `shown`, with their last hour (`courses`).

    If `is_dense`, it has one line per job. `has_gpus` says whether this node has GPUs.
    """
    if not shown.count:
        return note(shown.without_jobs)
    if is_dense:
        caption, kind, make = "Jobs on this node, one line each", "cards sortable lines", _dense_row
        head = ["Job", "User", "Name", "CPUs", "Memory", "GPUs", "Wasted now", "Left", "Hints"]
    else:
        caption = "Jobs on this node: used and allocated, time, and what ending them now would waste"
        kind, make = "cards sortable", _row
        head = ["Job", "User", *FIGURES, "Hints"]
    rows = [
        make(each, courses.get(each.key) or UsageHistory(), data, has_gpus=has_gpus) for each in shown.jobs
    ]
    more = shown.count - len(shown.jobs)
    return table(caption, head, rows, identity="jobs-table", kind=kind, down_first=DOWN_FIRST, more=more)


def _row(each: JobView, course: UsageHistory, data: PageData, *, has_gpus: bool) -> Row:
    drawn = job_lines(course, data.now_secs, each.allocated_cpus, each.memory_limit, each.given_gpus)
    cells = _figures(each, data, has_gpus=has_gpus)
    for at, line in enumerate(drawn if has_gpus else drawn[:2]):
        cells[at] = replace(cells[at], content=join(cells[at].content, line))
    kind = "" if each.is_running or each.processes_remain else "ended"
    return Row(_identity(each), _user(each), *cells, hints_cell(each), kind=kind)


def job_tiles(each: JobView, data: PageData) -> list[Html]:
    """Return the figures of one job as tiles."""
    cells = _figures(each, data, has_gpus=bool(each.gpus or each.allocated_gpus))
    return [
        box(title, cell.content if isinstance(cell.content, Html) else lines(cell.content))
        for title, cell in zip(FIGURES, cells, strict=True)
        if cell.content
    ]


def _figures(each: JobView, data: PageData, *, has_gpus: bool) -> list[Cell]:
    gpus_cell = _gpus(each) if has_gpus else Cell(None)
    cells = [_cpus(each), _memory(each), gpus_cell, _wasted(each), _time(each, data), _processes(each)]
    late = "≥ " if each.is_overdue else None
    draining = _waste(JOB_DRAINING_WASTE, each.draining, each.draining_basis, late)
    return [*cells, draining, _waste(JOB_KILL_WASTE, each.kill, each.kill_basis)]


def _identity(each: JobView) -> Cell:
    state = each.identity.state.lower().replace("_", " ")
    if not each.is_running and each.identity.state == JobState.UNKNOWN.value:
        state = "ended"
    content = lines(
        job_link(each.key),
        each.identity.task or None,
        join(f"{each.key.batch_system} ", state if each.is_running else badge(state)),
    )
    return Cell(content, natural_sort_key(each.key.job_id), "job")


def _user(each: JobView) -> Cell:
    who, what = each.identity.user, each.identity.name
    return Cell(
        lines(name(who, 24) if who else UNKNOWN, name(what) if what else None), shorten(who).lower(), "user"
    )


def _cpus(each: JobView) -> Cell:
    used = each.cpus_used
    if used is None and each.allocated_cpus is None:
        return _unknown()
    given = figure(JOB_CPUS, each.allocated_cpus, format_cpus)
    if used is None:
        return Cell(lines(join(given, " allocated")), LAST, "bars")
    share = each.cpu_share
    drawn = None
    if share is not None:
        label = f"{format_cpus(used)} of {format_cpus(each.allocated_cpus or 0)} CPUs in use"
        drawn = bar(label, Part(share, "over" if share > CROWDED else "used"))
    below = None
    if each.claimed_cpus is not None:
        below = f"reports {format_cpus(each.claimed_cpus)}"
    elif each.cpus_now is not None and each.cpus_mean is not None:
        below = f"on average {format_cpus(each.cpus_mean)}"
    elif each.cpus_now is None:
        below = "on average"
    return Cell(join(drawn, lines(join(format_cpus(used), " of ", given), below)), used, "bars")


def _memory(each: JobView) -> Cell:
    if each.memory is None and each.memory_limit is None:
        return _unknown()
    used = figure(jobs.USED, each.memory, format_bytes)
    share = each.memory_share
    if share is None or each.memory is None:
        limit = None if each.memory_limit is None else join(" of ", _limit(each))
        return Cell(lines(join(used, limit), _cache(each)), order_of(each.memory), "bars")
    label = f"{format_bytes(each.memory)} of {format_bytes(each.memory_limit or 0)} of memory in use"
    drawn = bar(label, Part(share, "bad-bar" if each.is_near_its_memory else "used"))
    whole = each.memory_limit or 0
    used = figure(jobs.USED, each.memory, lambda value: format_part_of(value, whole))
    text = lines(join(used, " of ", _limit(each)), format_share(share), _cache(each))
    return Cell(join(drawn, text), each.memory, "bars")


def _cache(each: JobView) -> Html | None:
    """Return a line on a job's page cache if it is large: other tools may count it as memory used."""
    cache = each.page_cache
    if cache is None or cache < MUCH_CACHE_BYTES:
        return None
    return join(format_bytes(cache), " page cache")


def _limit(each: JobView) -> Html:
    return figure(each.limit_metric, each.memory_limit, format_bytes)


def _gpus(each: JobView) -> Cell:
    if not each.gpus:
        count = each.allocated_gpus
        if not count:
            return Cell(tag("span", "none" if count == 0 else UNKNOWN, class_="none"), -1.0, "bars")
        return Cell(join(figure(allocation.ALLOCATED_GPUS, count, format_figure), " allocated"), LAST, "bars")
    busy = each.gpus_used
    held = [use.memory_bytes for use in each.gpus if use.memory_bytes is not None]
    count = sum(use.is_allocated for use in each.gpus)
    noun = "GPU" if len(each.gpus) == 1 else "GPUs"
    first: Child = f"{len(each.gpus)} {noun}" if count else f"{len(each.gpus)} {noun}, not allocated"
    if busy is None:
        return Cell(lines(first, None if not held else format_bytes(sum(held))), LAST, "bars")
    share = busy / len(each.gpus)
    drawn = bar(f"{len(each.gpus)} {noun} {format_share(share)} busy", Part(share))
    memory: Child = None
    if held:
        memory = figure(gpus.JOB_MEMORY, held[0], format_bytes) if len(held) == 1 else format_bytes(sum(held))
    below = first if memory is None else join(first, " · ", memory)
    return Cell(join(drawn, lines(_busy(each, share), below)), share, "bars")


def _wasted(each: JobView) -> Cell:
    """Return the cell of what a job is allocated and does not use, sorted by its share of the node."""
    waste = each.waste_now
    if waste.share is None:
        return _unknown()
    if not waste.words:
        return Cell("nothing", 0.0)
    label = f"{format_share(waste.share)} of the node allocated and unused"
    drawn = bar(label, Part(waste.share, "over" if waste.share >= MUCH_WASTE else "time"))
    return Cell(join(drawn, lines(*waste.words)), waste.share, "bars")


def _busy(each: JobView, share: float) -> Html:
    """Return how busy a job's GPUs are; for a single GPU, with the metric's name as tooltip."""
    if len(each.gpus) == 1:
        return join(figure(gpus.JOB_UTILIZATION, share, format_share), " busy")
    return join(format_share(share), " busy")


def _time(each: JobView, data: PageData) -> Cell:
    if each.ended_at_secs is not None:
        after = None if each.elapsed_secs is None else f"after {format_span(each.elapsed_secs)}"
        return Cell(lines(_ended(each.ended_at_secs, data), after), LAST, "bars")
    elapsed = None if each.elapsed_secs is None else format_span(each.elapsed_secs)
    if each.left_secs is None:
        limit = "no wall limit" if each.is_unlimited else "limit unknown"
        return Cell(lines(elapsed or UNKNOWN, limit), LAST, "bars")
    basis = None if each.left_basis is None else WORDS[each.left_basis]
    late = each.left_secs < 0
    left = figure(JOB_REMAINING, each.left_secs, lambda secs: format_span(abs(secs)))
    share, drawn = each.time_share, None
    if share is not None:
        below = f"{format_span(abs(each.left_secs))} {'past its end' if late else 'left'}"
        label = f"{elapsed} elapsed, {below}" + (f", {basis}" if basis else "")
        drawn = bar(
            label, Part(share, "bad-bar" if each.is_late else "warn-bar" if each.ends_soon else "time")
        )
    gone = None if elapsed is None else f"{elapsed} elapsed"
    first = join(left, " past its end" if late else " left")
    return Cell(join(drawn, lines(first, gone, basis)), each.left_secs, "bars")


def _ended(at_secs: Number, data: PageData) -> Html:
    below = f"ended {data.ago(at_secs)}"
    return tag("time", below, datetime=machine_time(at_secs), title=format_time(at_secs))


def _processes(each: JobView) -> Cell:
    if each.processes is None:
        return _unknown()
    threads = None
    if each.threads is not None:
        threads = join(
            figure(jobs.THREADS, each.threads, format_figure), " threads" if each.threads != 1 else " thread"
        )
    return numeric(lines(figure(jobs.PROCESSES, each.processes, format_figure), threads), each.processes)


def _waste(metric: Metric, value: Number | None, basis: Basis | None, bound: str | None = None) -> Cell:
    if value is None:
        return _unknown()
    return numeric(lines(join(bound, figure(metric, value, format_core_time)), str(basis)), value)


def hints_cell(each: JobView) -> Cell:
    """Return the cell with the hints on a job.

    Users can sort jobs by it: by their worst hint, then by their number of hints.
    """
    found = find_hints(each)
    weight = sum(_WEIGHTS[each.kind] for each in found)
    return Cell(listed([badge(each.words, each.kind) for each in found], " "), -weight, "hints")


def _unknown() -> Cell:
    return numeric(tag("span", UNKNOWN, class_="none"), LAST)


def order_of(value: Number | None) -> float:
    """Return a sort key for a number that may be unknown (None): unknown ones come last."""
    return LAST if value is None else float(value)


# --- one line per job: sixty jobs on a screen --------------------------------------------


def _dense_row(each: JobView, course: UsageHistory, data: PageData, *, has_gpus: bool) -> Row:
    who, what, given = each.identity.user, each.identity.name, each.given_gpus
    cpus, memory, gpus_line = job_lines(course, data.now_secs, each.allocated_cpus, each.memory_limit, given)
    cells = [
        Cell(job_link(each.key), natural_sort_key(each.key.job_id)),
        Cell(name(who, 16) if who else UNKNOWN, shorten(who).lower()),
        Cell(name(what, 24) if what else None, shorten(what).lower()),
        Cell(
            join(
                cpus,
                _of(
                    number_or_dash(each.cpus_used, format_cpus),
                    number_or_dash(each.allocated_cpus, format_cpus),
                ),
            ),
            order_of(each.cpus_used),
        ),
        Cell(join(memory, _dense_memory(each)), order_of(each.memory)),
    ]
    busy = each.gpus_used
    below = (
        ""
        if not (given or busy)
        else _of(number_or_dash(busy, format_cpus), number_or_dash(given, format_cpus))
    )
    cells.append(Cell(join(gpus_line, below), order_of(busy)) if has_gpus else Cell(None))
    cells += [_dense_wasted(each), _left(each), hints_cell(each)]
    return Row(*cells, kind="" if each.is_running or each.processes_remain else "ended")


def _dense_wasted(each: JobView) -> Cell:
    share, words = each.waste_now.share, each.waste_now.words
    if share is None:
        return Cell(UNKNOWN, LAST)
    return Cell(f"{format_share(share)}: {', '.join(words)}" if words else "nothing", share)


def _left(each: JobView) -> Cell:
    if each.ended_at_secs is not None or each.left_secs is None:
        unlimited = "no limit" if each.is_unlimited else UNKNOWN
        return Cell(unlimited if each.ended_at_secs is None else "ended", LAST)
    return Cell(figure(JOB_REMAINING, each.left_secs, format_span), each.left_secs)


def _dense_memory(each: JobView) -> str:
    if each.memory is None:
        return _of(UNKNOWN, number_or_dash(each.memory_limit, format_bytes))
    if each.memory_limit is None:
        return format_bytes(each.memory)
    return _of(format_part_of(each.memory, each.memory_limit), format_bytes(each.memory_limit))


def _of(used: str, given: str) -> str:
    return UNKNOWN if used == given == UNKNOWN else f"{used} of {given}"
