"""A report as text for a terminal or a file. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from jobfeatures_exporter.jobreport.figures import JobReport, NodeUse
from jobfeatures_exporter.jobreport.hints import find_hints
from jobfeatures_exporter.terminal.cells import align, clean, fit, width_of
from jobfeatures_exporter.view.units import (
    counted,
    format_bytes,
    format_core_time,
    format_figure,
    format_share,
    format_span,
    format_time,
)

UNKNOWN = "?"
BAR_COLUMNS = 20
MAX_NODES = 40  # rows; the sums are of all
MAX_TASKS = 40
_GOOD, _MIDDLING, _POOR, _BOLD, _PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[1m", "\x1b[0m"
J_PER_KWH = 3_600_000.0


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    text: str
    share: float | None = None
    is_use: bool = True  # and more of it is better


def format_reports(
    reports: Sequence[JobReport],
    *,
    notes: Sequence[str] = (),
    tz: tzinfo | None = None,
    is_terminal: bool = False,
) -> str:
    """Return the text: one job at length, tasks of an array as a table; colours and bars on a terminal."""
    lines = _one(reports[0], tz, is_terminal) if len(reports) == 1 else _array(reports, is_terminal)
    if notes:
        lines += ["", "Notes", *(f"  - {clean(note)}" for note in notes)]
    return "\n".join(lines).replace("\u202f", " ") + "\n"


def _one(report: JobReport, tz: tzinfo | None, is_terminal: bool) -> list[str]:
    rows = [row for row in _rows(report, tz) if row.text]
    wide = max(len(row.label) for row in rows)
    barred = max((width_of(row.text) for row in rows if row.share is not None), default=0)
    lines = [
        f"{_bold(row.label.ljust(wide), is_terminal)}  {_with_bar(row, barred, is_terminal)}" for row in rows
    ]
    if len(report.nodes) > 1:
        lines += ["", *_node_table(report)]
    cards = _card_lines(report)
    if cards:
        lines += ["", *cards]
    hints = find_hints(report)
    if hints:
        lines += ["", _bold("Hints", is_terminal), *(f"  - {clean(hint.text)}" for hint in hints)]
    if report.notes:
        lines += ["", _bold("Notes", is_terminal), *(f"  - {clean(note)}" for note in report.notes)]
    return lines


def _rows(report: JobReport, tz: tzinfo | None) -> list[_Row]:
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
    state = report.state.lower().replace("_", " ") or ("running" if report.is_running else "ended")
    return [
        _Row("Job", job),
        _Row("Name", info.get("name", "")),
        _Row("User", who),
        _Row("State", state + (", figures so far" if report.is_running else "")),
        _Row("Start", "" if report.start_secs is None else format_time(report.start_secs, tz)),
        _Row("End", "" if report.end_secs is None else format_time(report.end_secs, tz)),
        _Row("Time", _time(report), report.time_share, is_use=False),
        _Row("CPUs", _cpus(report), report.cpu_share),
        _Row("Memory", _memory(report), report.memory_share),
        _Row("GPUs", _gpus(report), report.gpu_share),
        _Row("Energy", _energy(report)),
        _Row("Storage", _storage(report)),
        _Row("Wasted", _wasted(report)),
    ]


def _next(restarts: str) -> str:
    return (
        str(int(restarts) + 1)
        if restarts.isascii() and restarts.isdigit() and len(restarts) < 10
        else UNKNOWN
    )


def _time(report: JobReport) -> str:
    if report.elapsed_secs is None:
        return ""
    text = format_span(report.elapsed_secs)
    limit = report.wall_limit_secs
    if limit is not None:
        text += ", without a limit" if math.isinf(limit) else f" of {format_span(limit)}"
    return text + _part(report.time_share)


def _cpus(report: JobReport) -> str:
    if report.allocated_cpus is None and report.cpu_secs is None:
        return ""
    used = UNKNOWN if report.cpus_used is None else format_figure(report.cpus_used)
    given = UNKNOWN if report.allocated_cpus is None else format_figure(report.allocated_cpus)
    return f"{used} of {given} in use on average{_part(report.cpu_share)}"


def _memory(report: JobReport) -> str:
    if report.memory_peak is None and report.allocated_memory is None:
        return ""
    used = UNKNOWN if report.memory_peak is None else format_bytes(report.memory_peak)
    given = UNKNOWN if report.allocated_memory is None else format_bytes(report.allocated_memory)
    if report.memory_peak is None and report.ran_out_of_memory:
        return f"{given} ran out; the highest use is not known, no sample was taken of it"
    return f"{used} of {given} at the highest{_part(report.memory_share)}"


def _gpus(report: JobReport) -> str:
    if report.gpu_count is None:
        return ""
    used = UNKNOWN
    if report.gpu_secs is not None and report.elapsed_secs:
        used = format_figure(report.gpu_secs / report.elapsed_secs)
    return f"{used} of {format_figure(report.gpu_count)} in use on average{_part(report.gpu_share)}"


def _energy(report: JobReport) -> str:
    parts = [
        f"{name} {_kwh(joules)}"
        for name, joules in (("CPUs", report.cpu_joules), ("GPUs", report.gpu_joules))
        if joules is not None
    ]
    return ", ".join(parts)


def _kwh(joules: float) -> str:
    return f"{format_figure(joules / J_PER_KWH)} kWh" if joules >= 36_000 else f"{format_figure(joules)} J"


def _storage(report: JobReport) -> str:
    read = [node.storage_read_bytes for node in report.nodes if node.storage_read_bytes is not None]
    written = [node.storage_written_bytes for node in report.nodes if node.storage_written_bytes is not None]
    parts = [f"{format_bytes(sum(read))} read"] if read else []
    parts += [f"{format_bytes(sum(written))} written"] if written else []
    return ", ".join(parts)


def _wasted(report: JobReport) -> str:
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
    """Return the text of a row, on a terminal with a bar of its share in one column with the others."""
    if row.share is None or not is_terminal:
        return row.text
    full = min(BAR_COLUMNS, max(0, round(row.share * BAR_COLUMNS)))
    colour = "" if not row.is_use else _GOOD if row.share >= 0.7 else _MIDDLING if row.share >= 0.3 else _POOR
    bar = f"{colour}{'█' * full}{'░' * (BAR_COLUMNS - full)}{_PLAIN if colour else ''}"
    return f"{row.text}{' ' * (wide - width_of(row.text))}  {bar}"


def _bold(text: str, is_terminal: bool) -> str:
    return f"{_BOLD}{text}{_PLAIN}" if is_terminal else text


def _node_table(report: JobReport) -> list[str]:
    rows = [["Node", "CPUs used", "of", "", "Memory", "of", "", "GPUs used", "of"]]
    rows += [_row(fit(node.place.name, 40), node) for node in report.nodes[:MAX_NODES]]
    rows.append(_row(counted(len(report.nodes), "node"), report))
    if not any(node.gpu_count for node in report.nodes):
        rows = [row[:7] for row in rows]
    right = [False] + [True] * (len(rows[0]) - 1)
    lines = align(rows, right)
    if len(report.nodes) > MAX_NODES:
        lines.insert(-1, f"… and {counted(len(report.nodes) - MAX_NODES, 'node')} more")
    return lines


def _row(head: str, of: NodeUse | JobReport) -> list[str]:
    cpus, gpus = (
        None if secs is None or not of.elapsed_secs else secs / of.elapsed_secs
        for secs in (of.cpu_secs, of.gpu_secs)
    )
    return [
        head,
        _figure(cpus),
        _figure(of.allocated_cpus),
        _share(of.cpu_share),
        _bytes(of.memory_peak),
        _bytes(of.allocated_memory),
        _share(of.memory_share),
        _figure(gpus),
        _figure(of.gpu_count),
    ]


def _card_lines(report: JobReport) -> list[str]:
    rows = [["GPU", "Node", "Model", "Busy", "Memory", "of"]]
    elapsed = report.elapsed_secs
    for node in report.nodes:
        for card in node.gpus:
            busy = None if card.busy_secs is None or not elapsed else card.busy_secs / elapsed
            rows.append(
                [
                    fit(card.uuid, 44),
                    fit(node.place.name, 24),
                    fit(card.model, 24) or UNKNOWN,
                    _share(busy),
                    _bytes(card.memory_peak),
                    _bytes(card.memory),
                ]
            )
    return align(rows[: MAX_NODES + 1], [False, False, False, True, True, True]) if len(rows) > 1 else []


def _array(reports: Sequence[JobReport], is_terminal: bool) -> list[str]:
    first = reports[0]
    name = fit(first.info.get("array_job_id", first.job_id), 40)
    who = fit(first.info.get("user", UNKNOWN), 30)
    title = f"{first.batch_system} {name} of {who}: {counted(len(reports), 'task')}"
    rows = [["Task", "Job", "State", "Time", "CPUs used", "of", "", "Memory", "of", ""]]
    for report in reports[:MAX_TASKS]:
        rows.append(
            [
                fit(report.info.get("array_task_id", UNKNOWN), 12),
                fit(report.job_id, 20),
                report.state.lower().replace("_", " ") or ("running" if report.is_running else "ended"),
                UNKNOWN if report.elapsed_secs is None else format_span(report.elapsed_secs),
                _figure(report.cpus_used),
                _figure(report.allocated_cpus),
                _share(report.cpu_share),
                _bytes(report.memory_peak),
                _bytes(report.allocated_memory),
                _share(report.memory_share),
            ]
        )
    lines = [_bold(title, is_terminal), "", *align(rows, [False, False, False] + [True] * 7)]
    if len(reports) > MAX_TASKS:
        lines.append(f"… and {counted(len(reports) - MAX_TASKS, 'task')} more (--format json has them)")
    idle = [report.idle_cpu_secs for report in reports if report.idle_cpu_secs is not None]
    used = [report.cpu_secs for report in reports if report.cpu_secs is not None]
    lines += ["", f"CPU time  {format_core_time(sum(used))} used, {format_core_time(sum(idle))} idle"]
    hints: dict[str, list[JobReport]] = {}
    texts: dict[str, str] = {}
    for report in reports:
        for hint in find_hints(report):
            hints.setdefault(hint.name, []).append(report)
            texts.setdefault(hint.name, hint.text)
    if hints:
        lines += ["", _bold("Hints", is_terminal)]
        for name, those in hints.items():
            task = those[0].info.get("array_task_id", those[0].job_id)
            lines.append(f"  - {counted(len(those), 'task')}, such as {fit(task, 20)}: {clean(texts[name])}")
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    if notes:
        lines += ["", _bold("Notes", is_terminal), *(f"  - {clean(note)}" for note in list(notes)[:20])]
    return lines


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else format_figure(value)


def _bytes(value: float | None) -> str:
    return UNKNOWN if value is None else format_bytes(value)


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else format_share(value)
