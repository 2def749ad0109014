"""Drain plans and lists of victims as text and as JSON: pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from jobfeatures.drains.plan import Choice, NodePlan
from jobfeatures.drains.victims import Victim, cores_found

SHOWN_KILLED = 3


def format_time(epoch_secs: float, tz: tzinfo | None = None) -> str:
    """Return a time with its zone, by default this machine's; the plain number where no calendar has it."""
    try:
        return datetime.fromtimestamp(epoch_secs, tz).astimezone(tz).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return f"{epoch_secs:.0f}"


def format_span(secs: float) -> str:
    """Return seconds as ``1d 02:03:04``, ``02:03:04``, with a sign if negative."""
    sign, whole = ("-" if secs < 0 else ""), abs(round(secs))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{sign}{days}d {clock}" if days else f"{sign}{clock}"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: frozenset[int]) -> str:
    """Return aligned columns; those in `left` by number to the left, all others to the right."""
    escaped = [[cell.encode("unicode_escape").decode() for cell in row] for row in (head, *rows)]
    widths = [max(len(row[number]) for row in escaped) for number in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in escaped
    ]
    return "".join(f"{line}\n" for line in lines)


def format_plan(plan: NodePlan, *, now_secs: float, tz: tzinfo | None = None) -> str:
    """Return the choices of one node as a table, waste in core hours, the best one marked."""
    rows = [
        (
            "*" if choice is plan.best else "",
            format_time(now_secs + choice.after_secs, tz),
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
    text = f"{plan.node}: {plan.total_cpus} CPUs; waste in core hours\n"
    text += format_table(head, rows, frozenset({0, 1, 7, 8}))
    best = plan.best
    text += (
        f"best: {format_time(now_secs + best.after_secs, tz)}, in {format_span(best.after_secs)}, "
        f"wastes {_hours(best.core_secs)} core hours ({best.basis})\n"
    )
    if plan.unknown_jobs:
        text += (
            f"not counted, too little is known of: {', '.join(plan.unknown_jobs)}\n".encode("unicode_escape")
            .decode()
            .replace("\\n", "\n")
        )
    return text


def format_order(plans: Sequence[NodePlan], *, now_secs: float, tz: tzinfo | None = None) -> str:
    """Return the nodes in the order of `order_nodes`, each with its best time."""
    rows = [
        (
            str(number),
            plan.node,
            str(plan.total_cpus),
            format_time(now_secs + plan.best.after_secs, tz),
            format_span(plan.best.after_secs),
            _hours(plan.best.core_secs),
            f"{plan.best.core_secs / plan.total_cpus / 3600:.2f}" if plan.total_cpus else "–",
            str(plan.best.basis),
            str(len(plan.best.killed)),
            str(len(plan.unknown_jobs)) if plan.unknown_jobs else "",
        )
        for number, plan in enumerate(plans, 1)
    ]
    head = (
        *("", "node", "CPUs", "best shutdown", "in", "waste", "per CPU", "basis", "jobs killed"),
        "not counted",
    )
    return "order of draining; waste in core hours\n" + format_table(head, rows, frozenset({1, 3, 7}))


def plans_document(plans: Sequence[NodePlan], *, now_secs: float) -> str:
    """Return the plans as JSON, waste in core seconds, times in epoch seconds, in the order given."""

    def choice_of(choice: Choice) -> dict[str, Any]:
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
            "choices": [choice_of(choice) for choice in plan.choices],
            "unknown_jobs": list(plan.unknown_jobs),
        }
        for plan in plans
    ]
    return json.dumps({"now_secs": now_secs, "nodes": nodes}, indent=1) + "\n"


def format_victims(victims: Sequence[Victim], cores: int) -> str:
    """Return the jobs in the order of giving up; a star marks those that have to go."""
    rows = [
        (
            "*" if each.needed else "",
            each.job.batch_system,
            each.job.job_id,
            each.job.user or "?",
            "?" if each.job.allocated_cpus is None else str(each.job.allocated_cpus),
            "?" if each.job.kill_core_secs is None else _hours(each.job.kill_core_secs),
            "?" if each.core_secs_per_core is None else f"{each.core_secs_per_core / 3600:.2f}",
            "?" if each.job.kill_core_secs is None else str(each.job.kill_basis),
            "" if each.job.priority_factor is None else str(each.job.priority_factor),
            "can be postponed" if each.job.can_postpone else "",
        )
        for each in victims
    ]
    head = ("", "batch", "job", "user", "cores", "waste", "per core", "basis", "priority", "")
    text = format_table(head, rows, frozenset({0, 1, 2, 3, 7, 9}))
    found = cores_found(victims)
    lost = sum(each.job.kill_core_secs or 0.0 for each in victims if each.needed)
    said = f"{found} of {cores} cores" if found < cores else f"{found} cores"
    return text + f"jobs marked * free {said} and waste {_hours(lost)} core hours\n"


def victims_document(victims: Sequence[Victim], cores: int) -> str:
    """Return the jobs in the order of giving up as JSON."""
    jobs = [
        {
            "batch_system": each.job.batch_system,
            "job_id": each.job.job_id,
            "user": each.job.user,
            "cores": each.job.allocated_cpus,
            "kill_waste_core_secs": each.job.kill_core_secs,
            "kill_waste_per_core_secs": each.core_secs_per_core,
            "basis": None if each.job.kill_core_secs is None else str(each.job.kill_basis),
            "priority_factor": each.job.priority_factor,
            "can_postpone": each.job.can_postpone,
            "needed": each.needed,
        }
        for each in victims
    ]
    return json.dumps({"cores": cores, "freed": cores_found(victims), "jobs": jobs}, indent=1) + "\n"


def _hours(core_secs: float) -> str:
    return f"{core_secs / 3600:.2f}"


def _killed(choice: Choice) -> str:
    more = len(choice.killed) - SHOWN_KILLED
    return ", ".join(choice.killed[:SHOWN_KILLED]) + (f" and {more} more" if more > 0 else "")
