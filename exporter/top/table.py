"""Rows as lines of a terminal. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from exporter.terminal.cells import align, fit, width_of
from exporter.top.rows import NodeNow, Row
from exporter.web.pages.units import counted, format_bytes, format_figure, format_span

UNKNOWN = "?"
NARROWEST_NAME = 6
SOON_SECS = 600.0
NEAR = 0.9


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
    value_of: Callable[[Row], float]


ORDERS = {
    "c": Order("CPUs", lambda row: _down(row.cpus_used)),
    "m": Order("memory", lambda row: _down(row.memory)),
    "g": Order("GPUs", lambda row: _down(row.gpus_used if row.gpus_used is not None else row.gpus_allocated)),
    "t": Order("time left", lambda row: row.left_secs if row.left_secs is not None else math.inf),
    "w": Order("waste", lambda row: _down(row.kill_core_secs)),
}
HEAD = ["JOB", "USER", "CPUS", "MEMORY", "GPUS", "LEFT", "DRAIN", "KILL", "NAME"]
RIGHT = [False, False, True, True, True, True, True, True, False]
GPU_COLUMN = HEAD.index("GPUS")


def sort_rows(rows: Sequence[Row], order: str) -> list[Row]:
    """Return the rows in one of `ORDERS`; equal ones by job."""
    return sorted(rows, key=lambda row: (ORDERS[order].value_of(row), row.batch_system, row.job_id))


def make_lines(
    rows: Sequence[Row],
    node: NodeNow,
    *,
    order: str,
    columns: int | None = None,
    lines: int | None = None,
    source: str = "",
    with_keys: bool = False,
) -> list[Line]:
    """Return the screen: a summary, the jobs, as many as fit, and the keys. No bounds: all of everything."""
    made = [Line(_summary(rows, node, source), Style.HEAD)]
    room = None if lines is None else max(0, lines - (4 if with_keys else 3))
    shown = sort_rows(rows, order) if room is None else sort_rows(rows, order)[:room]
    table = _table(shown, columns)
    made.append(Line(table[0], Style.HEAD))
    made += [
        Line(text, Style.WARNING if _is_notable(row) else Style.PLAIN)
        for text, row in zip(table[1:], shown, strict=True)
    ]
    if not rows:
        made.append(Line("No batch job is on this node."))
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


def _summary(rows: Sequence[Row], node: NodeNow, source: str) -> str:
    parts = [counted(len(rows), "job")]
    if node.cores is not None:
        held = sum(row.cpus_allocated or 0 for row in rows)
        busy = UNKNOWN if node.busy_cpus is None else format_figure(node.busy_cpus)
        parts.append(f"CPUs {busy} busy, {format_figure(held)} held of {format_figure(node.cores)}")
    if node.memory_bytes is not None and node.available_bytes is not None:
        used = node.memory_bytes - node.available_bytes
        parts.append(f"memory {format_bytes(used)} of {format_bytes(node.memory_bytes)}")
    return "; ".join(parts) + (f"  ({source})" if source else "")


def _table(rows: Sequence[Row], columns: int | None) -> list[str]:
    cells = [HEAD, *(_cells(row) for row in rows)]
    right = RIGHT
    if not any(row.gpus_allocated or row.gpus_used for row in rows):
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


def _cells(row: Row) -> list[str]:
    made = [
        fit(row.job_id, 14),
        fit(row.user, 10) or UNKNOWN,
        _of(row.cpus_used, row.cpus_allocated, format_figure),
        _of(row.memory, row.memory_limit, _short_bytes),
        ""
        if not (row.gpus_allocated or row.gpus_used)
        else _of(row.gpus_used, row.gpus_allocated, format_figure),
        UNKNOWN if row.left_secs is None else format_span(row.left_secs).replace(" ", ""),
        _core_hours(row.draining_core_secs),
        _core_hours(row.kill_core_secs),
        fit(row.name, 200),
    ]
    return [text.replace("\u202f", "") for text in made]


def _of(used: float | None, given: float | None, form: Callable[[float], str]) -> str:
    if used is None and given is None:
        return UNKNOWN
    return f"{UNKNOWN if used is None else form(used)}/{UNKNOWN if given is None else form(given)}"


def _short_bytes(value: float) -> str:
    return format_bytes(value).replace("iB", "")


def _core_hours(core_secs: float | None) -> str:
    return UNKNOWN if core_secs is None else f"{format_figure(core_secs / 3600)}h"


def _is_notable(row: Row) -> bool:
    """Tell whether a job ends soon or comes near its memory limit."""
    if row.left_secs is not None and row.left_secs < SOON_SECS:
        return True
    return (
        row.memory is not None and bool(row.memory_limit) and row.memory >= NEAR * (row.memory_limit or 0.0)
    )
