"""The jobs of a node one line each: sixty of them on one screen. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.metrics import JOB_REMAINING
from jobfeatures.model import JobKey
from jobfeatures_exporter.history import Course
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.units import (
    format_bytes,
    format_cpus,
    format_part_of,
    format_share,
    format_span,
)
from jobfeatures_exporter.web.pages.course import cpu_line, gpu_line, memory_line
from jobfeatures_exporter.web.pages.jobs import DOWN_FIRST, LAST, hints_cell, natural, order_of
from jobfeatures_exporter.web.pages.markup import Html, join, name, shorten
from jobfeatures_exporter.web.pages.pieces import (
    UNKNOWN,
    Cell,
    PageData,
    Row,
    figure,
    job_link,
    known,
    note,
    table,
)


def dense_table(
    shown: NodeView, data: PageData, courses: Mapping[JobKey, Course | None], *, has_gpus: bool
) -> Html:
    """Return the table: figures alone, the last hour as a line before them."""
    if not shown.count:
        return note(shown.without_jobs)
    head = [
        "Job",
        "User",
        "Name",
        "CPUs",
        "Memory",
        *(["GPUs"] if has_gpus else []),
        "Wasted now",
        "Left",
        "Hints",
    ]
    return table(
        "Jobs on this node, one line each",
        head,
        [
            _row(each, courses.get(each.key) or Course(), data.now_secs, has_gpus=has_gpus)
            for each in shown.jobs
        ],
        identity="jobs-table",
        kind="sortable",
        more=shown.count - len(shown.jobs),
        down_first=DOWN_FIRST,
    )


def _row(each: JobView, course: Course, now_secs: float, *, has_gpus: bool) -> Row:
    who, what = each.identity.user, each.identity.name
    cpus = cpu_line(course, each.allocated_cpus, now_secs)
    memory = memory_line(course, each.memory_limit, now_secs)
    cells = [
        Cell(job_link(each.key), natural(each.key.job_id)),
        Cell(name(who, 16) if who else UNKNOWN, shorten(who).lower()),
        Cell(name(what, 24) if what else None, shorten(what).lower()),
        Cell(
            join(cpus, _of(known(each.cpus_used, format_cpus), known(each.allocated_cpus, format_cpus))),
            order_of(each.cpus_used),
        ),
        Cell(join(memory, _memory(each)), order_of(each.memory)),
    ]
    if has_gpus:
        given, busy = each.given_gpus, each.gpus_used
        said = "" if not (given or busy) else _of(known(busy, format_cpus), known(given, format_cpus))
        cells.append(Cell(join(gpu_line(course, given, now_secs), said), order_of(busy)))
    cells += [_wasted(each), _left(each), hints_cell(each)]
    return Row(*cells, kind="" if each.is_running or each.processes_remain else "ended")


def _wasted(each: JobView) -> Cell:
    share, words = each.waste_now.share, each.waste_now.words
    if share is None:
        return Cell(UNKNOWN, LAST)
    return Cell(f"{format_share(share)}: {', '.join(words)}" if words else "nothing", share)


def _left(each: JobView) -> Cell:
    if each.ended_at_secs is not None or each.left_secs is None:
        return Cell("ended" if each.ended_at_secs is not None else UNKNOWN, LAST)
    return Cell(figure(JOB_REMAINING, each.left_secs, format_span), each.left_secs)


def _memory(each: JobView) -> str:
    if each.memory is None:
        return _of(UNKNOWN, known(each.memory_limit, format_bytes))
    if each.memory_limit is None:
        return format_bytes(each.memory)
    return _of(format_part_of(each.memory, each.memory_limit), format_bytes(each.memory_limit))


def _of(used: str, given: str) -> str:
    return f"{used} of {given}"
