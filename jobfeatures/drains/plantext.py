"""Formats drain plans and lists of victims (jobs to give up) as text and as JSON. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jobfeatures.drains.nodemetrics import SeenJob, SeenNode
from jobfeatures.drains.plan import NodePlan, ShutdownChoice
from jobfeatures.drains.victims import Victims
from jobfeatures.errors import printable
from jobfeatures.records.cells import align
from jobfeatures.records.quantities import counted

SHOWN_KILLED = 3
GOES, STAYS, KEPT, UNKNOWN = "goes", "stays", "kept", "unknown"
_ASIDE = {
    KEPT: "not considered: a job of lower priority of the same user is unknown",
    UNKNOWN: "not considered: its cores or its waste are unknown",
}


def format_time(epoch_secs: float) -> str:
    """Return a time as text in this machine's zone; as a plain number if it is beyond the calendar."""
    try:
        return datetime.fromtimestamp(epoch_secs).astimezone().isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return f"{epoch_secs:.0f}"


def format_span(secs: float) -> str:
    """Return seconds as ``1d 02:03:04`` or ``02:03:04``, with a sign if negative."""
    sign, whole = ("-" if secs < 0 else ""), abs(round(secs))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{sign}{days}d {clock}" if days else f"{sign}{clock}"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: frozenset[int]) -> str:
    """Format rows as aligned columns below the headings `head`.

    Columns with a number in `left` are left-aligned, others right-aligned.
    """
    return "".join(f"{line}\n" for line in align([[*map(printable, row)] for row in (head, *rows)], left))


def format_plan(plan: NodePlan, *, now_secs: float) -> str:
    """Format a node's possible shutdown times as a table with waste in core hours; the best one is marked.

    Notes below it say which jobs are missing in the figures, and why.
    """
    best, killing_none = plan.best, plan.killing_none
    rows = [
        (
            ("*" if choice is best else "") + ("+" if choice is killing_none else ""),
            format_time(now_secs + choice.after_secs),
            format_span(choice.after_secs),
            _hours(choice.core_secs),
            _hours(choice.idle_core_secs),
            _hours(choice.draining_core_secs),
            _hours(choice.kill_core_secs),
            str(choice.basis),
            _killed(choice),
        )
        for choice in plan.choices
    ]
    head = ("", "shutdown at", "in", "waste", "idle", "draining", "killed", "basis", "jobs killed")
    text = f"{printable(plan.node)}: {plan.total_cpus} CPUs; waste on this node, in core hours\n"
    text += format_table(head, rows, frozenset({0, 1, 7, 8}))

    def summary(choice: ShutdownChoice) -> str:
        at = f"{format_time(now_secs + choice.after_secs)}, in {format_span(choice.after_secs)}"
        return f"{at}, wastes {_hours(choice.core_secs)} core hours ({choice.basis})"

    lines = []
    if best is None:
        lines.append("too little is known to name a best time")
        if plan.silent:
            lines.append(f"no answer yet, so jobs may be missing: {', '.join(plan.silent)}")
    else:
        lines.append(f"* cheapest: {summary(best)}, {counted(len(best.killed), 'job')} killed")
        lines.append(
            "+ some job is killed at any time"
            if killing_none is None
            else f"+ nobody killed: {summary(killing_none)}"
        )
    if plan.announced is not None:
        at = f"announced by {plan.announced_by}: {summary(plan.announced)}"
        lines.append(f"{at}, {counted(len(plan.announced.killed), 'job')} killed")
    if plan.unknown_jobs:
        lines.append(f"not counted, as too little is known of them: {', '.join(plan.unknown_jobs)}")
    if plan.capped_jobs:
        lines.append(f"report more waste than is possible, so it is capped: {', '.join(plan.capped_jobs)}")
    return text + "".join(f"{printable(line)}\n" for line in lines)


def format_order(plans: Sequence[NodePlan], *, now_secs: float) -> str:
    """Format nodes, in the given order, as a table with each node's cheapest shutdown time.

    The table also has the first time that kills no job.
    """

    def cells(plan: NodePlan) -> tuple[str, ...]:
        best, killing_none = plan.best, plan.killing_none
        if best is None:
            return ("too little is known", "", "", "", "", "", "", "")
        return (
            format_time(now_secs + best.after_secs),
            format_span(best.after_secs),
            _hours(best.core_secs),
            f"{best.core_secs / plan.total_cpus / 3600:.2f}" if plan.total_cpus else "–",
            str(best.basis),
            str(len(best.killed)),
            "" if killing_none is None else format_span(killing_none.after_secs),
            "" if killing_none is None else _hours(killing_none.core_secs),
        )

    rows = [
        (str(number), plan.node, str(plan.total_cpus), *cells(plan)) for number, plan in enumerate(plans, 1)
    ]
    head = (
        *("", "node", "CPUs", "best shutdown", "in", "waste", "per CPU", "basis", "jobs killed"),
        *("nobody killed in", "waste"),
    )
    return "order of draining; each node's waste in core hours\n" + format_table(
        head, rows, frozenset({1, 3, 7})
    )


def plans_document(plans: Sequence[NodePlan], *, now_secs: float) -> str:
    """Format the plans, in the given order, as JSON; waste is in core seconds, times are in epoch seconds."""

    def choice_of(choice: ShutdownChoice | None) -> dict[str, Any] | None:
        if choice is None:
            return None
        return {
            "shutdown_secs": round(now_secs + choice.after_secs),
            "after_secs": choice.after_secs,
            "waste_core_secs": choice.core_secs,
            "idle_core_secs": choice.idle_core_secs,
            "draining_core_secs": choice.draining_core_secs,
            "kill_core_secs": choice.kill_core_secs,
            "killed": list(choice.killed),
            "basis": str(choice.basis),
        }

    nodes = [
        {
            "node": plan.node,
            "total_cpus": plan.total_cpus,
            "best": choice_of(plan.best),
            "nobody_killed": choice_of(plan.killing_none),
            "announced": choice_of(plan.announced),
            "announced_by": plan.announced_by or None,
            "choices": [choice_of(choice) for choice in plan.choices],
            "unknown_jobs": list(plan.unknown_jobs),
            "capped_jobs": list(plan.capped_jobs),
            "silent_sources": list(plan.silent),
        }
        for plan in plans
    ]
    return json.dumps({"now_secs": now_secs, "nodes": nodes}, indent=1) + "\n"


def format_victims(node: SeenNode, victims: Victims) -> str:
    """Format a node's jobs as a table, those to give up first and marked with a star.

    A line below it says how many cores these jobs free.
    """
    rows = [
        (
            "*" if verdict == GOES else "",
            job.batch_system,
            job.job_id,
            job.user or "?",
            "?" if job.allocated_cpus is None else str(job.allocated_cpus),
            "?" if job.kill_core_secs is None else _hours(job.kill_core_secs),
            "?" if job.kill_core_secs is None else str(job.kill_basis),
            "" if job.priority_factor is None else str(job.priority_factor),
            ", ".join(filter(None, (_ASIDE.get(verdict), *_remarks(job)))),
        )
        for verdict, job in _verdicts(victims)
    ]
    head = ("", "batch", "job", "user", "cores", "waste", "basis", "priority", "")
    text = f"{printable(node.name)}: waste on this node, in core hours\n"
    text += format_table(head, rows, frozenset({0, 1, 2, 3, 6, 8})) if rows else ""
    if node.silent:
        text += f"no answer yet, so jobs may be missing: {printable(', '.join(node.silent))}\n"
    considered = f"{len(victims.considered)} of {len(rows)} jobs considered"
    if victims.chosen is None:
        return f"{text}{considered}: together they free {victims.available} of {victims.cores} cores\n"
    freed = f"{counted(victims.freed, 'core')}, wasting {_hours(victims.core_secs)} core hours"
    return f"{text}giving up * frees {freed}, the least that frees {victims.cores}; {considered}\n"


def victims_document(found: Sequence[tuple[SeenNode, Victims]], cores: int) -> str:
    """Format the victims on several nodes as JSON; waste is in core seconds, `cores` is the number wanted."""
    nodes = [_victims_of(node, victims) for node, victims in found]
    return json.dumps({"cores": cores, "nodes": nodes}, indent=1) + "\n"


def _victims_of(node: SeenNode, victims: Victims) -> dict[str, Any]:
    jobs = [
        {
            "batch_system": job.batch_system,
            "job_id": job.job_id,
            "user": job.user,
            "cores": job.allocated_cpus,
            "kill_waste_core_secs": job.kill_core_secs,
            "basis": None if job.kill_core_secs is None else str(job.kill_basis),
            "priority_factor": job.priority_factor,
            "can_postpone": job.can_postpone,
            "is_capped": job.is_capped,
            "needed": verdict == GOES,
            "set_aside": _ASIDE.get(verdict),
        }
        for verdict, job in _verdicts(victims)
    ]
    return {
        "node": node.name,
        "silent_sources": list(node.silent),
        "freed": victims.freed,
        "available": victims.available,
        "kill_waste_core_secs": None if victims.chosen is None else victims.core_secs,
        "jobs": jobs,
    }


def _remarks(job: SeenJob) -> list[str]:
    remarks = ["can be postponed"] if job.can_postpone else []
    return [*remarks, "reports more waste than is possible"] if job.is_capped else remarks


def _verdicts(victims: Victims) -> list[tuple[str, SeenJob]]:
    chosen = victims.chosen or ()
    return [
        *((GOES, job) for job in chosen),
        *((STAYS, job) for job in victims.considered if job not in chosen),
        *((KEPT, job) for job in victims.kept),
        *((UNKNOWN, job) for job in victims.unknown),
    ]


def _hours(core_secs: float) -> str:
    return f"{core_secs / 3600:.2f}"


def _killed(choice: ShutdownChoice) -> str:
    more = len(choice.killed) - SHOWN_KILLED
    return ", ".join(choice.killed[:SHOWN_KILLED]) + (f" and {more} more" if more > 0 else "")
