"""Formats the node and its jobs as lines of text: columns, sorting, and which columns fit. No I/O."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jobfeatures.records.cells import UNKNOWN, fit, or_unknown, pad, width_of
from jobfeatures.records.quantities import counted
from jobfeatures_exporter.view.hints import find_hints
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.node import NodeView, WasteSum
from jobfeatures_exporter.view.processes import LiveProcess
from jobfeatures_exporter.view.units import (
    Form,
    format_bytes,
    format_core_time,
    format_cpus,
    format_figure,
    format_share,
    format_span,
    natural_sort_key,
)

GAP = 2  # between columns
PROCESS_WIDTH = 15  # a pid of seven digits, indented three times
COMMAND_WIDTH = 15  # the kernel truncates names to this
NARROWEST_NAME = 12  # guaranteed before later columns in KEPT get room


@dataclass(frozen=True, slots=True)
class TopColumn:
    """One column of the table of jobs.

    `key` is the key to press to sort by it, `head` its heading. `text_of` returns the text of a job's cell,
    and `value_of` the value to sort by, None if unknown. Numbers (`is_number`) are right-aligned.
    """

    key: str  # pressed to sort by it
    head: str
    meaning: str
    text_of: Callable[[JobView], str]
    value_of: Callable[[JobView], Any]
    is_number: bool = True  # right-aligned
    largest_first: bool = True


def _of(used: float | None, given: float | None, form: Form) -> str:
    if used is None and given is None:
        return UNKNOWN
    return f"{or_unknown(used, form)}/{or_unknown(given, form)}"


def _cpus(job: JobView) -> str:
    return _of(job.cpus_used, job.allocated_cpus, short_cpus)


def _memory(job: JobView) -> str:
    return _of(job.memory, job.memory_limit, short_bytes)


def _gpus(job: JobView) -> str:
    return _of(job.gpus_used, job.given_gpus, short_cpus) if has_gpus(job) else ""


def _gpus_value(job: JobView) -> float | None:
    return job.gpus_used if job.gpus_used is not None else job.given_gpus


def _left(job: JobView) -> str:
    if job.processes_remain:
        return "ended"
    return "∞" if job.is_unlimited else or_unknown(job.left_secs, format_span).replace(" ", "")


def short_bytes(value: float) -> str:
    """Return a size in bytes as short text, such as 2G."""
    return format_bytes(value).replace("iB", "").replace("\u202f", "")


def core_time(core_secs: float) -> str:
    """Return core seconds as short text, such as 45s, 3min or 2.5h."""
    return format_core_time(core_secs).replace("core", "").replace("\u202f", "")


def short_cpus(value: float) -> str:
    """Return a number of CPUs as short text, such as 3.9 or <0.1."""
    return format_cpus(value).replace(" ", "")


def _figure(
    key: str, head: str, meaning: str, value_of: Callable[[JobView], float | None], form: Form
) -> TopColumn:
    return TopColumn(key, head, meaning, lambda job: or_unknown(value_of(job), form), value_of)


def _text(
    key: str, head: str, meaning: str, text_of: Callable[[JobView], str], width: int, unknown: str = ""
) -> TopColumn:
    def shown(job: JobView) -> str:
        return fit(text_of(job), width) or unknown

    return TopColumn(
        key,
        head,
        meaning,
        shown,
        lambda job: natural_sort_key(text_of(job)) or None,
        is_number=False,
        largest_first=False,
    )


COLUMNS = (
    _text("j", "JOB", "number of the job", lambda job: job.key.job_id, 14),
    _text("u", "USER", "its user", lambda job: job.identity.user, 10, UNKNOWN),
    TopColumn("c", "CPUS", "CPUs used now, of those allocated", _cpus, lambda job: job.cpus_used),
    _figure("i", "IDLE", "CPUs allocated and idle now", lambda job: job.waste_now.idle_cpus, short_cpus),
    TopColumn("m", "MEMORY", "memory used, of its limit", _memory, lambda job: job.memory),
    _figure(
        "n",
        "UNUSED",
        "memory within its limit and unused",
        lambda job: job.waste_now.unused_bytes,
        short_bytes,
    ),
    _figure(
        "w",
        "WASTE",
        "IDLE, UNUSED or idle GPUs as a share of the node, the largest",
        lambda job: job.waste_now.share,
        format_share,
    ),
    TopColumn("g", "GPUS", "GPUs kept busy, of those allocated", _gpus, _gpus_value),
    TopColumn(
        "t", "LEFT", "time until something ends it", _left, lambda job: job.left_secs, largest_first=False
    ),
    _figure("d", "DRAIN", "core time idle if it were drained now", lambda job: job.draining, core_time),
    _figure("k", "KILL", "core time lost if it were killed now", lambda job: job.kill, core_time),
    _text("a", "NAME", "name of the job", lambda job: job.identity.name, 200),
)
BY_KEY = {each.key: each for each in COLUMNS}
# By priority: if not all fit, the first of these are kept.
KEPT = ("JOB", "CPUS", "WASTE", "MEMORY", "LEFT", "USER", "GPUS", "IDLE", "UNUSED", "NAME", "KILL", "DRAIN")


def has_gpus(job: JobView) -> bool:
    """Return whether a job is allocated or uses GPUs."""
    return bool(job.given_gpus or job.gpus_used)


def jobs_of(node: NodeView) -> list[JobView]:
    """Return the running jobs, and ended jobs of which processes remain."""
    return [each for each in node.jobs if each.is_running or each.processes_remain]


def sort_jobs(jobs: Sequence[JobView], order: str, *, is_reversed: bool = False) -> list[JobView]:
    """Return the jobs sorted by the column whose key is `order`; unknown values last, ties by job id."""
    column = BY_KEY[order]
    jobs = sorted(jobs, key=lambda job: (job.key.batch_system, natural_sort_key(job.key.job_id)))
    known = [job for job in jobs if column.value_of(job) is not None]
    unknown = [job for job in jobs if column.value_of(job) is None]
    return sorted(known, key=column.value_of, reverse=column.largest_first != is_reversed) + unknown


def filter_jobs(jobs: Sequence[JobView], words: str) -> list[JobView]:
    """Return the jobs that have each of these words in their id, user, name or state, ignoring case."""
    wanted = words.casefold().split()

    def matches(job: JobView) -> bool:
        who = job.identity
        text = "\n".join((*job.key, who.task, who.user, who.name, who.state)).casefold()
        return all(each in text for each in wanted)

    return [job for job in jobs if matches(job)]


def clean_cell(column: TopColumn, job: JobView) -> str:
    """Return the text of a job's cell, without thin spaces, which some terminals cannot show."""
    return column.text_of(job).replace("\u202f", "")


def choose_columns(
    jobs: Sequence[JobView], columns: int | None, *, has_processes: bool = False
) -> list[tuple[TopColumn, int]]:
    """Return the columns that fit a terminal of `columns` characters (None: all), with their widths.

    With `has_processes`, the widths also fit the cells of processes.
    """
    shown = [each for each in COLUMNS if each.head != "GPUS" or any(map(has_gpus, jobs))]
    widths = {
        each.head: max(
            [len(each.head) + 1, *(width_of(clean_cell(each, job)) for job in jobs)]
        )  # an arrow fits
        for each in shown
    }
    if has_processes:
        widths["JOB"] = max(widths["JOB"], PROCESS_WIDTH)
        widths["NAME"] = max(widths["NAME"], COMMAND_WIDTH)
    if columns is None:
        return [(each, widths[each.head]) for each in shown]
    whole, widths["NAME"] = widths["NAME"], min(widths["NAME"], NARROWEST_NAME)
    kept: set[str] = set()
    room = columns + GAP
    for head in (each for each in KEPT if each in widths):
        room -= widths[head] + GAP
        if room < 0 and kept:
            room += widths[head] + GAP
            break
        kept.add(head)
    if "NAME" in kept:
        widths["NAME"] = min(whole, widths["NAME"] + room)
    return [(each, widths[each.head]) for each in shown if each.head in kept]


DEEPEST = 3  # level of processes still indented below their parents


class Style(enum.Enum):
    """How a line is shown on the terminal, such as plain or as a warning."""

    PLAIN = "plain"
    HEAD = "head"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text for the terminal, with its style."""

    text: str
    style: Style = Style.PLAIN


def make_lines(node: NodeView, *, order: str, columns: int | None = None, source: str = "") -> list[Line]:
    """Return the lines to show: a summary, problems, and all jobs sorted by the column `order`.

    `columns` is the terminal's width in characters; None: lines are not truncated. `source` says where the
    figures come from.
    """
    jobs = sort_jobs(jobs_of(node), order)
    chosen = choose_columns(jobs, columns)
    made = make_head(node, source)
    made.append(Line(join_cells(chosen, [each.head for each, _ in chosen]), Style.HEAD))
    made += [Line(join_cells(chosen, make_cells(chosen, job)), style_of(job)) for job in jobs]
    if not jobs:
        made.append(Line(node.without_jobs))
    return made if columns is None else [Line(fit(each.text, columns), each.style) for each in made]


def make_head(node: NodeView, source: str = "") -> list[Line]:
    """Return the lines above the table: a summary, problems, and the job that wastes most now.

    `source` says where the figures come from.
    """
    made = [Line(_summary(node, source), Style.HEAD)]
    made += [Line(each.sentence, Style.WARNING) for each in node.failing_sources]
    if node.groupless:
        made.append(Line(f"{node.groupless_sentence}: jobfeatures-exporter doctor says why", Style.WARNING))
    if node.leftovers:
        ids = ", ".join(fit(key.job_id, 24) for key in node.leftovers)
        made.append(Line(f"{node.leftovers_sentence}: {ids}", Style.WARNING))
    job = node.most_wasteful
    if job is not None:
        who = " ".join(filter(None, (fit(job.key.job_id, 24), fit(job.identity.user, 24))))
        share = format_share(job.waste_now.share or 0.0)
        made.append(Line(f"most waste now: {who}, {', '.join(job.waste_now.words)} ({share} of the node)"))
    return [Line(each.text.replace("\u202f", " "), each.style) for each in made]


def make_cells(chosen: Sequence[tuple[TopColumn, int]], job: JobView) -> list[str]:
    """Return the texts of a job's cells in the `chosen` columns, padded to their widths."""
    return [_fill(clean_cell(column, job), column, width) for column, width in chosen]


def make_process_cells(chosen: Sequence[tuple[TopColumn, int]], live: LiveProcess) -> list[str]:
    """Return the texts of a process's cells: pid, state, command, CPUs and resident memory."""
    process = live.process
    indent = "  " * min(live.depth, DEEPEST)
    texts = {
        "JOB": f" {indent}└{process.pid}",
        "USER": process.state,
        "CPUS": or_unknown(live.cpus_now, short_cpus),
        "MEMORY": short_bytes(process.resident_bytes),
        "NAME": process.command,
    }
    if not any(column.head == "NAME" for column, _ in chosen):
        texts["JOB"] = f" └{process.command}"
    return [_fill(texts.get(column.head, ""), column, width) for column, width in chosen]


def join_cells(chosen: Sequence[tuple[TopColumn, int]], texts: Sequence[str]) -> str:
    """Return one line of the table, made of the texts of its cells."""
    cells = (_fill(text, column, width) for (column, width), text in zip(chosen, texts, strict=True))
    return (" " * GAP).join(cells).rstrip()


def style_of(job: JobView) -> Style:
    """Return the style of a job's line: a warning if a hint on the job is of the kind warn or bad."""
    return Style.WARNING if any(each.kind for each in find_hints(job)) else Style.PLAIN


def _fill(text: str, column: TopColumn, width: int) -> str:
    return pad(fit(text, width), width, is_left=not column.is_number)


def _summary(node: NodeView, source: str) -> str:
    parts = [counted(node.running, "job") if node.running or node.jobs_are_known else "jobs not known"]
    if node.cores is not None:
        busy = or_unknown(node.busy_cpus, format_cpus)
        total = node.allocatable_cpus if node.allocatable_cpus is not None else node.cores
        held = f"{node.allocation or UNKNOWN} of {format_figure(total)} allocated"
        if node.unknown_allocations:
            held += f" ({node.allocation_note})"
        parts.append(f"CPUs {busy} of {format_figure(node.cores)} busy, {held}")
    if node.memory_bytes is not None and node.available_bytes is not None:
        used = node.memory_bytes - node.available_bytes
        parts.append(f"memory {format_bytes(used)} of {format_bytes(node.memory_bytes)}")
    if node.running:
        parts.append(f"drain {_sum(node.draining)}, kill {_sum(node.kill)}")
    return "; ".join(parts) + (f"  ({source})" if source else "")


def _sum(waste: WasteSum) -> str:
    return " ".join(filter(None, (or_unknown(waste.core_secs, format_core_time), waste.coverage)))
