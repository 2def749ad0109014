"""The node and its jobs as lines of a terminal. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from jobfeatures_exporter.terminal.cells import UNKNOWN, fit, or_unknown, width_of
from jobfeatures_exporter.top.columns import (
    GAP,
    Column,
    choose_columns,
    clean_cell,
    jobs_of,
    short_bytes,
    short_cpus,
    sort_jobs,
)
from jobfeatures_exporter.top.processtree import LiveProcess
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.node import NodeView, WasteSum
from jobfeatures_exporter.view.units import (
    counted,
    format_bytes,
    format_core_time,
    format_cpus,
    format_figure,
    format_share,
)

SOON_SECS = 600.0
DEEPEST = 3  # process that is indented further than its parent


class Style(enum.Enum):
    """How a line is to be shown where there are colours."""

    PLAIN = "plain"
    HEAD = "head"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Line:
    """One line."""

    text: str
    style: Style = Style.PLAIN


def make_lines(node: NodeView, *, order: str, columns: int | None = None, source: str = "") -> list[Line]:
    """Return a summary, what is wrong, and all jobs; without `columns` as wide as they are."""
    jobs = sort_jobs(jobs_of(node), order)
    chosen = choose_columns(jobs, columns)
    made = make_head(node, source)
    made.append(Line(join_cells(chosen, [each.head for each, _ in chosen]), Style.HEAD))
    made += [Line(join_cells(chosen, make_cells(chosen, job)), style_of(job)) for job in jobs]
    if not jobs:
        made.append(Line(node.without_jobs))
    return made if columns is None else [Line(fit(each.text, columns), each.style) for each in made]


def make_head(node: NodeView, source: str = "") -> list[Line]:
    """Return the summary, what is wrong, and which job wastes most now."""
    made = [Line(_summary(node, source), Style.HEAD)]
    made += [Line(each.sentence, Style.WARNING) for each in node.troubles]
    if node.leftovers:
        ids = ", ".join(fit(key.job_id, 24) for key in node.leftovers)
        made.append(Line(f"{node.leftovers_sentence}: {ids}", Style.WARNING))
    job = node.most_wasteful
    if job is not None:
        who = " ".join(filter(None, (fit(job.key.job_id, 24), fit(job.identity.user, 24))))
        share = format_share(job.waste_now.share or 0.0)
        made.append(Line(f"most waste now: {who}, {', '.join(job.waste_now.words)} ({share} of the node)"))
    return [Line(each.text.replace("\u202f", " "), each.style) for each in made]


def make_cells(chosen: Sequence[tuple[Column, int]], job: JobView) -> list[str]:
    """Return the cells of a job, each as wide as its column."""
    return [_fill(clean_cell(column, job), column, width) for column, width in chosen]


def make_process_cells(chosen: Sequence[tuple[Column, int]], live: LiveProcess) -> list[str]:
    """Return the cells of a process: its number, command, CPUs and resident memory."""
    process = live.view
    indent = "  " * min(process.depth, DEEPEST)
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


def join_cells(chosen: Sequence[tuple[Column, int]], texts: Sequence[str]) -> str:
    """Return one line."""
    cells = (_fill(text, column, width) for (column, width), text in zip(chosen, texts, strict=True))
    return (" " * GAP).join(cells).rstrip()


def style_of(job: JobView) -> Style:
    """Return that of a job: some end soon, come near their memory limit, or have ended and left processes."""
    ends_soon = job.left_secs is not None and job.left_secs < SOON_SECS
    return Style.WARNING if job.processes_remain or job.is_near_its_memory or ends_soon else Style.PLAIN


def _fill(text: str, column: Column, width: int) -> str:
    text = fit(text, width)
    blanks = " " * (width - width_of(text))
    return blanks + text if column.is_number else text + blanks


def _summary(node: NodeView, source: str) -> str:
    parts = [counted(node.running, "job") if node.running or node.jobs_are_known else "jobs not known"]
    if node.cores is not None:
        busy = or_unknown(node.busy_cpus, format_cpus)
        total = node.allocatable_cpus if node.allocatable_cpus is not None else node.cores
        held = f"{node.allocation or UNKNOWN} of {format_figure(total)} allocated"
        if node.unknown_allocations:
            held += f" ({node.allocation_doubt})"
        parts.append(f"CPUs {busy} of {format_figure(node.cores)} busy, {held}")
    if node.memory_bytes is not None and node.available_bytes is not None:
        used = node.memory_bytes - node.available_bytes
        parts.append(f"memory {format_bytes(used)} of {format_bytes(node.memory_bytes)}")
    if node.running:
        parts.append(f"drain {_sum(node.draining)}, kill {_sum(node.kill)}")
    return "; ".join(parts) + (f"  ({source})" if source else "")


def _sum(waste: WasteSum) -> str:
    return " ".join(filter(None, (or_unknown(waste.core_secs, format_core_time), waste.coverage)))
