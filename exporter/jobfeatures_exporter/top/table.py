"""Rows as lines of a terminal. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobfeatures_exporter.terminal.cells import align, fit, width_of
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.node import NodeView, WasteSum
from jobfeatures_exporter.view.units import counted, format_bytes, format_figure, format_span

UNKNOWN = "?"
NARROWEST_NAME = 6
SOON_SECS = 600.0


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


def _down(value: float | None) -> float:
    return -value if value is not None else math.inf


@dataclass(frozen=True, slots=True)
class Order:
    """One way to sort: by a key on the keyboard."""

    word: str
    value_of: Callable[[JobView], float]


ORDERS = {
    "c": Order("CPUs", lambda row: _down(row.cpus_used)),
    "m": Order("memory", lambda row: _down(row.memory)),
    "g": Order("GPUs", lambda row: _down(row.gpus_used if row.gpus_used is not None else row.given_gpus)),
    "t": Order("time left", lambda row: row.left_secs if row.left_secs is not None else math.inf),
    "w": Order("waste", lambda row: _down(row.kill)),
}
HEAD = ["JOB", "USER", "CPUS", "MEMORY", "GPUS", "LEFT", "DRAIN", "KILL", "NAME"]
RIGHT = [False, False, True, True, True, True, True, True, False]
GPU_COLUMN = HEAD.index("GPUS")


def sort_rows(rows: Sequence[JobView], order: str) -> list[JobView]:
    """Return the rows in one of `ORDERS`; equal ones by job."""
    return sorted(rows, key=lambda row: (ORDERS[order].value_of(row), row.key))


def make_lines(
    node: NodeView,
    *,
    order: str,
    columns: int | None = None,
    lines: int | None = None,
    source: str = "",
    with_keys: bool = False,
) -> list[Line]:
    """Return the screen: a summary, what is wrong, the jobs, as many as fit, and the keys.

    No bounds: all of everything.
    """
    rows = [each for each in node.jobs if each.is_running or each.processes_remain]
    made = [Line(_summary(node, source), Style.HEAD)]
    made += [Line(each.sentence, Style.WARNING) for each in node.troubles]
    if node.leftovers:
        ids = ", ".join(fit(key.job_id, 24) for key in node.leftovers)
        made.append(Line(f"{node.leftovers_sentence}: {ids}", Style.WARNING))
    room = None if lines is None else max(0, lines - len(made) - (3 if with_keys else 2))
    shown = sort_rows(rows, order) if room is None else sort_rows(rows, order)[:room]
    table = _table(shown, columns)
    made.append(Line(table[0], Style.HEAD))
    made += [
        Line(text, Style.WARNING if _is_notable(row) else Style.PLAIN)
        for text, row in zip(table[1:], shown, strict=True)
    ]
    if not rows:
        made.append(Line(node.without_jobs))
    elif len(shown) < len(rows):
        made.append(Line(f"… and {counted(len(rows) - len(shown), 'job')} more"))
    if with_keys:
        keys = (
            f"[{key} {each.word}]" if key == order else f"{key} {each.word}" for key, each in ORDERS.items()
        )
        made.append(Line(f"sort by {'  '.join(keys)}  |  q quit", Style.HEAD))
    plain = [Line(each.text.replace("\u202f", " "), each.style) for each in made]
    if columns is not None:
        plain = [Line(fit(each.text, columns), each.style) for each in plain]
    return plain if lines is None else plain[:lines]


def _summary(node: NodeView, source: str) -> str:
    parts = [counted(node.running, "job") if node.running or node.jobs_are_known else "jobs not known"]
    if node.cores is not None:
        busy = UNKNOWN if node.busy_cpus is None else format_figure(node.busy_cpus)
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
    return " ".join(filter(None, (_core_hours(waste.core_secs), waste.coverage)))


def _table(rows: Sequence[JobView], columns: int | None) -> list[str]:
    cells = [HEAD, *(_cells(row) for row in rows)]
    right = RIGHT
    if not any(row.given_gpus or row.gpus_used for row in rows):
        cells = [row[:GPU_COLUMN] + row[GPU_COLUMN + 1 :] for row in cells]
        right = RIGHT[:GPU_COLUMN] + RIGHT[GPU_COLUMN + 1 :]
    if columns is not None:
        fixed = sum(max(width_of(row[at]) for row in cells) + 2 for at in range(len(right) - 1))
        left = columns - fixed
        if left < NARROWEST_NAME:
            cells, right = [row[:-1] for row in cells], right[:-1]
        else:
            cells = [[*row[:-1], fit(row[-1], left)] for row in cells]
    return align(cells, right)


def _cells(row: JobView) -> list[str]:
    made = [
        fit(row.key.job_id, 14),
        fit(row.identity.user, 10) or UNKNOWN,
        _of(row.cpus_used, row.allocated_cpus, format_figure),
        _of(row.memory, row.memory_limit, _short_bytes),
        "" if not (row.given_gpus or row.gpus_used) else _of(row.gpus_used, row.given_gpus, format_figure),
        _left(row),
        _core_hours(row.draining),
        _core_hours(row.kill),
        fit(row.identity.name, 200),
    ]
    return [text.replace("\u202f", "") for text in made]


def _of(used: float | None, given: float | None, form: Callable[[float], str]) -> str:
    if used is None and given is None:
        return UNKNOWN
    return f"{UNKNOWN if used is None else form(used)}/{UNKNOWN if given is None else form(given)}"


def _left(row: JobView) -> str:
    if row.processes_remain:
        return "ended"
    return UNKNOWN if row.left_secs is None else format_span(row.left_secs).replace(" ", "")


def _short_bytes(value: float) -> str:
    return format_bytes(value).replace("iB", "")


def _core_hours(core_secs: float | None) -> str:
    return UNKNOWN if core_secs is None else f"{format_figure(core_secs / 3600)}h"


def _is_notable(row: JobView) -> bool:
    """Return whether a job ends soon, comes near its memory limit, or has ended and left processes."""
    ends_soon = row.left_secs is not None and row.left_secs < SOON_SECS
    return row.processes_remain or row.is_near_its_memory or ends_soon
