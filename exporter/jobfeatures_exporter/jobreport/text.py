"""Formats a report as text for a terminal or a file. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from jobfeatures.records.cells import UNKNOWN, align, clean, fit, or_unknown, pad, width_of
from jobfeatures.records.combining import grouped, sum_known
from jobfeatures.records.quantities import counted
from jobfeatures_exporter.view.judge import judge
from jobfeatures_exporter.view.thresholds import LOW_CPU, LOW_GPU, LOW_MEMORY
from jobfeatures_exporter.view.units import (
    format_bytes,
    format_core_time,
    format_figure,
    format_share,
    format_span,
    format_time,
)
from jobfeatures_exporter.view.use import JobUse, NodeUse, compute_ratio

BAR_COLUMNS = 20
MAX_NODES = 40  # rows; sums cover all nodes
MAX_TASKS = 40
_GOOD, _POOR, _BOLD, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[1m", "\x1b[0m"
J_PER_KWH = 3_600_000.0


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    text: str
    share: float | None = None
    low: float | None = None  # a smaller share is poor; None: neither is better


def format_reports(
    reports: Sequence[JobUse],
    *,
    notes: Sequence[str] = (),
    is_terminal: bool = False,
) -> str:
    """Return reports as text: one job in detail, the tasks of an array as a table.

    `notes` are printed with them. On a terminal the text has colours and bars.
    """
    lines = _one(reports[0], is_terminal) if len(reports) == 1 else _array(reports, is_terminal)
    lines += _listed("Notes", notes)
    return "\n".join(lines).replace("\u202f", " ") + "\n"


def _one(report: JobUse, is_terminal: bool) -> list[str]:
    rows = [row for row in _rows(report) if row.text]
    wide = max(len(row.label) for row in rows)
    barred = max((width_of(row.text) for row in rows if row.share is not None), default=0)
    lines = [
        f"{_bold(pad(row.label, wide, is_left=True), is_terminal)}  {_with_bar(row, barred, is_terminal)}"
        for row in rows
    ]
    if len(report.nodes) > 1:
        lines += ["", *_node_table(report)]
    cards = _card_lines(report)
    if cards:
        lines += ["", *cards]
    lines += _listed("Hints", [hint.text for hint in judge(report)], is_terminal)
    return lines + _listed("Notes", report.notes, is_terminal)


def _listed(title: str, texts: Sequence[str], is_terminal: bool = False) -> list[str]:
    return ["", _bold(title, is_terminal), *(f"  - {clean(text)}" for text in texts)] if texts else []


def _rows(report: JobUse) -> list[_Row]:
    info = {name: fit(text, 60) for name, text in report.info.items()}
    job = f"{report.batch_system} {fit(report.job_id, 60)}"
    if "array_job_id" in info:
        job += f" (task {info.get('array_task_id', UNKNOWN)} of {info['array_job_id']})"
    if report.cluster:
        job += f" on {fit(report.cluster, 60)}"
    if info.get("restarts", "0") != "0":
        job += f", run {_next(info['restarts'])}"
    who = ", ".join(
        f"{name} {info[name]}" if name != "user" else info[name]
        for name in ("user", "account", "partition")
        if name in info
    )
    return [
        _Row("Job", job),
        _Row("Name", info.get("name", "")),
        _Row("User", who),
        _Row("State", _state(report) + (", figures so far" if report.is_running else "")),
        _Row("Start", "" if report.start_secs is None else format_time(report.start_secs)),
        _Row("End", "" if report.end_secs is None else format_time(report.end_secs)),
        _Row("Time", _time(report), report.time_share),
        _Row("CPUs", _cpus(report), report.cpu_share, LOW_CPU),
        _Row("Memory", _memory(report), report.memory_share, LOW_MEMORY),
        _Row("GPUs", _gpus(report), report.gpu_share, LOW_GPU),
        _Row("Energy", _energy(report)),
        _Row("Storage", _storage(report)),
        _Row("Wasted", _wasted(report)),
    ]


def _state(report: JobUse) -> str:
    return report.state.lower().replace("_", " ") or ("running" if report.is_running else "ended")


def _next(restarts: str) -> str:
    return str(int(restarts) + 1) if re.fullmatch("[0-9]{1,9}", restarts) else UNKNOWN


def _time(report: JobUse) -> str:
    if report.elapsed_secs is None:
        return ""
    text = format_span(report.elapsed_secs)
    limit = report.wall_limit_secs
    if limit is not None:
        text += ", without a limit" if math.isinf(limit) else f" of {format_span(limit)}"
    text += _part(report.time_share)
    return text + (f", suspended for {format_span(report.suspended_secs)}" if report.suspended_secs else "")


def _cpus(report: JobUse) -> str:
    if report.allocated_cpus is None and report.cpu_secs is None:
        return ""
    used = or_unknown(report.cpus_used, format_figure)
    given = or_unknown(report.allocated_cpus, format_figure)
    return f"{used} of {given} in use on average{_part(report.cpu_share)}"


def _memory(report: JobUse) -> str:
    if report.memory_peak is None and report.allocated_memory is None:
        return ""
    used = or_unknown(report.memory_peak, format_bytes)
    given = or_unknown(report.allocated_memory, format_bytes)
    if report.memory_peak is None and report.ran_out_of_memory:
        return f"{given} ran out; the highest use is not known, no sample was taken of it"
    return f"{used} of {given} at the highest{_part(report.memory_share)}"


def _gpus(report: JobUse) -> str:
    if report.gpu_count is None:
        return ""
    used = or_unknown(compute_ratio(report.gpu_secs, report.active_secs), format_figure)
    return f"{used} of {format_figure(report.gpu_count)} in use on average{_part(report.gpu_share)}"


def _energy(report: JobUse) -> str:
    found = {"CPUs": report.cpu_joules, "GPUs": report.gpu_joules}
    return ", ".join(f"{name} {_kwh(joules)}" for name, joules in found.items() if joules is not None)


def _kwh(joules: float) -> str:
    return f"{format_figure(joules / J_PER_KWH)} kWh" if joules >= 36_000 else f"{format_figure(joules)} J"


def _storage(report: JobUse) -> str:
    sums = {
        "read": sum_known(node.storage_read_bytes for node in report.nodes),
        "written": sum_known(node.storage_written_bytes for node in report.nodes),
    }
    return ", ".join(f"{format_bytes(size)} {what}" for what, size in sums.items() if size is not None)


def _wasted(report: JobUse) -> str:
    parts = []
    if report.idle_cpu_secs is not None:
        parts.append(f"{format_core_time(report.idle_cpu_secs)} of CPU")
    if report.idle_gpu_secs is not None:
        parts.append(f"{format_figure(report.idle_gpu_secs / 3600)} h of GPU")
    if report.unused_memory is not None:
        parts.append(f"{format_bytes(report.unused_memory)} never used")
    return ", ".join(parts)


def _part(share: float | None) -> str:
    return "" if share is None else f" ({format_share(share)})"


def _with_bar(row: _Row, wide: int, is_terminal: bool) -> str:
    """Return the text of a row, on a terminal with a bar of its share, aligned with the other rows'."""
    if row.share is None or not is_terminal:
        return row.text
    full = min(BAR_COLUMNS, max(0, round(row.share * BAR_COLUMNS)))
    colour = "" if row.low is None else _GOOD if row.share >= row.low else _POOR
    bar = f"{colour}{'█' * full}{'░' * (BAR_COLUMNS - full)}{_PLAIN if colour else ''}"
    return f"{pad(row.text, wide, is_left=True)}  {bar}"


def _bold(text: str, is_terminal: bool) -> str:
    return f"{_BOLD}{text}{_PLAIN}" if is_terminal else text


def _node_table(report: JobUse) -> list[str]:
    rows = [["Node", "CPUs used", "of", "", "Memory", "of", "", "GPUs used", "of"]]
    rows += [_row(fit(node.place.name, 40), node) for node in report.nodes[:MAX_NODES]]
    rows.append(_row(counted(len(report.nodes), "node"), report))
    if not any(node.gpu_count for node in report.nodes):
        rows = [row[:7] for row in rows]
    lines = align(rows)
    if len(report.nodes) > MAX_NODES:
        lines.insert(-1, f"… and {counted(len(report.nodes) - MAX_NODES, 'node')} more")
    return lines


def _row(head: str, of: NodeUse | JobUse) -> list[str]:
    gpus = or_unknown(compute_ratio(of.gpu_secs, of.active_secs), format_figure)
    return [head, *_used(of), gpus, or_unknown(of.gpu_count, format_figure)]


def _used(of: NodeUse | JobUse) -> list[str]:
    """Return six texts on CPUs, then memory, of a job or node: used, out of how much, and the share."""
    return [
        or_unknown(compute_ratio(of.cpu_secs, of.active_secs), format_figure),
        or_unknown(of.allocated_cpus, format_figure),
        or_unknown(of.cpu_share, format_share),
        or_unknown(of.memory_peak, format_bytes),
        or_unknown(of.allocated_memory, format_bytes),
        or_unknown(of.memory_share, format_share),
    ]


def _card_lines(report: JobUse) -> list[str]:
    rows = [["GPU", "Node", "Model", "Busy", "Memory", "of"]]
    rows += [
        [
            fit(card.uuid, 44),
            fit(node.place.name, 24),
            fit(card.model, 24) or UNKNOWN,
            or_unknown(compute_ratio(card.busy_secs, report.active_secs), format_share),
            or_unknown(card.memory_peak, format_bytes),
            or_unknown(card.memory, format_bytes),
        ]
        for node in report.nodes
        for card in node.gpus
    ]
    return align(rows[: MAX_NODES + 1], (0, 1, 2)) if len(rows) > 1 else []


def _array(reports: Sequence[JobUse], is_terminal: bool) -> list[str]:
    first = reports[0]
    name = fit(first.info.get("array_job_id", first.job_id), 40)
    who = fit(first.info.get("user", UNKNOWN), 30)
    title = f"{first.batch_system} {name} of {who}: {counted(len(reports), 'task')}"
    rows = [["Task", "Job", "State", "Time", "CPUs used", "of", "", "Memory", "of", ""]]
    rows += [
        [
            fit(report.info.get("array_task_id", UNKNOWN), 12),
            fit(report.job_id, 20),
            _state(report),
            or_unknown(report.elapsed_secs, format_span),
            *_used(report),
        ]
        for report in reports[:MAX_TASKS]
    ]
    lines = [_bold(title, is_terminal), "", *align(rows, (0, 1, 2))]
    if len(reports) > MAX_TASKS:
        lines.append(f"… and {counted(len(reports) - MAX_TASKS, 'task')} more (--format json has them)")
    used = sum_known(report.cpu_secs for report in reports) or 0.0
    idle = sum_known(report.idle_cpu_secs for report in reports) or 0.0
    lines += ["", f"CPU time  {format_core_time(used)} used, {format_core_time(idle)} idle"]
    hints = grouped((hint.name, (report, hint.text)) for report in reports for hint in judge(report))
    texts = []
    for those in hints.values():
        task, text = those[0]
        name = fit(task.info.get("array_task_id", task.job_id), 20)
        texts.append(f"{counted(len(those), 'task')}, such as {name}: {text}")
    lines += _listed("Hints", texts, is_terminal)
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    return lines + _listed("Notes", list(notes)[:20], is_terminal)
