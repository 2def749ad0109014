"""The columns of the table: what stands in each, how it sorts, and which fit a terminal. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from jobfeatures_exporter.terminal.cells import fit, width_of
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.units import (
    format_bytes,
    format_core_time,
    format_cpus,
    format_share,
    format_span,
)

UNKNOWN = "?"
GAP = 2  # between columns
PROCESS_WIDTH = 15  # a number of seven digits, indented three times
COMMAND_WIDTH = 15  # the most that the kernel keeps
NARROWEST_NAME = 12  # which it gets before the columns behind it in KEPT get any


@dataclass(frozen=True, slots=True)
class Row:
    """A job."""

    job: JobView


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `value_of` gives what sorts, None where it is not known."""

    key: str  # that sorts by it
    head: str
    meaning: str
    text_of: Callable[[Row], str]
    value_of: Callable[[Row], Any]
    is_number: bool = True  # stands at the right, and the largest comes first
    largest_first: bool = True


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return what sorts job9 before job10."""
    parts = enumerate(re.split("([0-9]+)", text))
    return tuple((len(part) if at % 2 else 0, part) for at, part in parts)


def _of(used: float | None, given: float | None, form: Callable[[float], str]) -> str:
    if used is None and given is None:
        return UNKNOWN
    return f"{_or_unknown(used, form)}/{_or_unknown(given, form)}"


def _or_unknown(value: float | None, form: Callable[[float], str]) -> str:
    return UNKNOWN if value is None else form(value)


def _cpus(row: Row) -> str:
    return _of(row.job.cpus_used, row.job.allocated_cpus, short_cpus)


def _memory(row: Row) -> str:
    return _of(row.job.memory, row.job.memory_limit, short_bytes)


def _gpus(row: Row) -> str:
    job = row.job
    return _of(job.gpus_used, job.given_gpus, short_cpus) if has_gpus(row) else ""


def _gpus_value(row: Row) -> float | None:
    return row.job.gpus_used if row.job.gpus_used is not None else row.job.given_gpus


def _left(row: Row) -> str:
    return (
        "ended" if row.job.processes_remain else _or_unknown(row.job.left_secs, format_span).replace(" ", "")
    )


def _left_secs(row: Row) -> float | None:
    return row.job.left_secs


def short_bytes(value: float) -> str:
    """Return a size as cells have it: 2G."""
    return format_bytes(value).replace("iB", "").replace("\u202f", "")


def core_time(core_secs: float) -> str:
    """Return core seconds as cells have them: 45s, 3min, 2.5h."""
    return format_core_time(core_secs).replace("core", "").replace("\u202f", "")


def short_cpus(value: float) -> str:
    """Return CPUs as cells have them: 3.9, <0.1."""
    return format_cpus(value).replace(" ", "")


def _figure(
    key: str, head: str, meaning: str, value_of: Callable[[Row], float | None], form: Callable[[float], str]
) -> Column:
    return Column(key, head, meaning, lambda row: _or_unknown(value_of(row), form), value_of)


def _text(key: str, head: str, meaning: str, text_of: Callable[[Row], str], width: int) -> Column:
    def value_of(row: Row) -> tuple[tuple[int, str], ...] | None:
        text = text_of(row)
        return natural(text) if text else None

    shown = partial(_fit_or_unknown, text_of, width, UNKNOWN if head == "USER" else "")
    return Column(key, head, meaning, shown, value_of, is_number=False, largest_first=False)


def _fit_or_unknown(text_of: Callable[[Row], str], width: int, unknown: str, row: Row) -> str:
    return fit(text_of(row), width) or unknown


COLUMNS = (
    _text("j", "JOB", "number of the job", lambda row: row.job.key.job_id, 14),
    _text("u", "USER", "its user", lambda row: row.job.identity.user, 10),
    Column("c", "CPUS", "CPUs used now, of those allocated", _cpus, lambda row: row.job.cpus_used),
    _figure("i", "IDLE", "CPUs allocated and idle now", lambda row: row.job.waste_now.idle_cpus, short_cpus),
    Column("m", "MEMORY", "memory used, of its limit", _memory, lambda row: row.job.memory),
    _figure(
        "n",
        "UNUSED",
        "memory within its limit and unused",
        lambda row: row.job.waste_now.unused_bytes,
        short_bytes,
    ),
    _figure(
        "w",
        "WASTE",
        "IDLE, UNUSED or idle GPUs as a share of the node, the largest",
        lambda row: row.job.waste_now.share,
        format_share,
    ),
    Column("g", "GPUS", "GPUs kept busy, of those allocated", _gpus, _gpus_value),
    Column("t", "LEFT", "time until the first of all that ends it", _left, _left_secs, largest_first=False),
    _figure("d", "DRAIN", "core time idle if it drained now", lambda row: row.job.draining, core_time),
    _figure("k", "KILL", "core time lost if it was killed now", lambda row: row.job.kill, core_time),
    _text("a", "NAME", "name of the job", lambda row: row.job.identity.name, 200),
)
BY_KEY = {each.key: each for each in COLUMNS}
# Where there is no room for all, the first of these stay.
KEPT = ("JOB", "CPUS", "WASTE", "MEMORY", "LEFT", "USER", "GPUS", "IDLE", "UNUSED", "NAME", "KILL", "DRAIN")


def has_gpus(row: Row) -> bool:
    """Return whether a job has or uses GPUs."""
    return bool(row.job.given_gpus or row.job.gpus_used)


def make_rows(node: NodeView) -> list[Row]:
    """Return the jobs that run here, and those that have left processes."""
    return [Row(each) for each in node.jobs if each.is_running or each.processes_remain]


def sort_rows(rows: Sequence[Row], order: str, *, is_reversed: bool = False) -> list[Row]:
    """Return the rows by the column with this key; what is not known comes last, equal ones by job."""
    column = BY_KEY[order]
    rows = sorted(rows, key=lambda row: (row.job.key.batch_system, natural(row.job.key.job_id)))
    known = [row for row in rows if column.value_of(row) is not None]
    unknown = [row for row in rows if column.value_of(row) is None]
    return sorted(known, key=column.value_of, reverse=column.largest_first != is_reversed) + unknown


def filter_rows(rows: Sequence[Row], words: str) -> list[Row]:
    """Return the rows that have each of these words in job, user, name or state, in any case."""
    wanted = words.casefold().split()

    def is_meant(row: Row) -> bool:
        who = row.job.identity
        text = "\n".join(
            (row.job.key.batch_system, row.job.key.job_id, who.user, who.name, who.state)
        ).casefold()
        return all(each in text for each in wanted)

    return [row for row in rows if is_meant(row)]


def clean_cell(column: Column, row: Row) -> str:
    """Return what stands in a cell, without spaces that not every terminal shows."""
    return column.text_of(row).replace("\u202f", "")


def choose_columns(
    rows: Sequence[Row], columns: int | None, *, has_processes: bool = False
) -> list[tuple[Column, int]]:
    """Return the columns that a terminal of this width has room for, with their widths; None: all."""
    shown = [each for each in COLUMNS if each.head != "GPUS" or any(map(has_gpus, rows))]
    widths = {
        each.head: max(
            [len(each.head) + 1, *(width_of(clean_cell(each, row)) for row in rows)]
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
