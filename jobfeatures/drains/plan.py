"""Finds the cheapest time to drain a node, and the order in which to drain several. Pure arithmetic.

A shutdown at time T is announced now. From then on no job starts. A job that ends before T loses nothing, but
its CPUs are idle until T; a job that still runs at T is killed. Between the ends of two jobs the total loss
never decreases as T grows; it drops only when a job ends. So the cheapest T is the earliest one allowed, or
the end of a job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jobfeatures.drains.drain import OPERATOR
from jobfeatures.drains.nodemetrics import SeenNode
from jobfeatures.status.waste import Basis, IdleCpus, combine_bases


@dataclass(frozen=True, slots=True)
class ShutdownChoice:
    """One possible shutdown time, `after_secs` from now, and the waste that it causes in core seconds.

    The waste is that of idle CPUs, of jobs that drain, and of jobs that are killed; `killed` names the killed
    jobs. `basis` says whether these figures were reported by the jobs, measured, estimated or mixed.
    """

    after_secs: float
    idle_core_secs: float  # CPUs without a job, before the shutdown
    draining_core_secs: float  # CPUs that jobs hold and leave idle while they drain
    kill_core_secs: float  # work lost in jobs that are killed
    killed: tuple[str, ...]
    basis: Basis

    @property
    def core_secs(self) -> float:
        """Return the total waste in core seconds."""
        return self.idle_core_secs + self.draining_core_secs + self.kill_core_secs


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The possible shutdown times of a node with their costs, and what is unknown.

    Too little is known about the `unknown_jobs`, so their waste is missing in the costs. The `capped_jobs`
    report more waste than their CPUs can produce. The `silent` job sources have not answered yet, so there
    may be further jobs. `announced` is the cost of the next shutdown that is already announced;
    `announced_by` is its source.
    """

    node: str
    total_cpus: int
    choices: tuple[ShutdownChoice, ...]
    unknown_jobs: tuple[str, ...] = ()
    capped_jobs: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    announced: ShutdownChoice | None = None
    announced_by: str = ""

    @property
    def is_known(self) -> bool:
        """Return whether enough is known about the jobs to say which shutdown time is best."""
        return not self.unknown_jobs and not self.silent

    @property
    def best(self) -> ShutdownChoice | None:
        """Return the time with the least waste, the earliest of several; None if too little is known."""
        if not self.is_known:
            return None
        return min(self.choices, key=lambda choice: (choice.core_secs, choice.after_secs))

    @property
    def killing_none(self) -> ShutdownChoice | None:
        """Return the earliest shutdown time that kills no job.

        Returns None if there is no such time, or if too little is known.
        """
        if not self.is_known:
            return None
        return next((choice for choice in self.choices if not choice.killed), None)


def compute_choice(node: SeenNode, after_secs: float, idle: IdleCpus | None = None) -> ShutdownChoice:
    """Return the cost of a shutdown at the time T, which is `after_secs` from now.

        idle:     ∫ from 0 to T: max(0, total − Σ over jobs that still run: allocated_j) dt
        draining: Σ draining_waste_j × min(1, T ÷ end_j)
        kill:     Σ over jobs with end_j > T: kill_waste_j + rate_j × T

    T and end_j count from now. A job's draining waste accrues evenly until its end. rate_j is the CPUs that
    the job reports as used, else its measured mean CPU use so far, else all CPUs allocated to it; payloads
    that end before T make the real loss smaller. A job without a known end still runs at every T. The CPUs of
    a job whose allocation or kill waste is unknown count as neither idle nor lost.

    `idle` is the result of `compute_idle` for the node, if it has been computed already.
    """
    idle_core_secs = (idle or compute_idle(node)).until(after_secs)
    draining = kill = 0.0
    killed: list[str] = []
    bases: list[Basis] = []
    for job in node.jobs:
        if job.allocated_cpus is None or not job.is_known:
            continue
        end = math.inf if job.end_secs is None else max(0.0, job.end_secs)
        bases += [job.kill_basis] if end > after_secs else [job.kill_basis, job.end_basis]
        if end <= after_secs:
            draining += job.draining_core_secs or 0.0
        else:
            killed.append(job.name)
            kill += (job.kill_core_secs or 0.0) + (job.kill_rate_cpus or 0.0) * after_secs
            if math.isfinite(end):
                draining += (job.draining_core_secs or 0.0) * after_secs / end
    return ShutdownChoice(after_secs, idle_core_secs, draining, kill, tuple(killed), combine_bases(bases))


def compute_idle(node: SeenNode) -> IdleCpus:
    """Return the CPU time that stays idle if no job starts, as a function of time.

    Jobs about which too little is known are taken to never end.
    """
    jobs = (
        (job.allocated_cpus or 0, job.end_secs if job.is_known and job.end_secs is not None else math.inf)
        for job in node.jobs
    )
    return IdleCpus(node.total_cpus or 0, jobs)


def plan_drain(
    node: SeenNode, now_secs: float, *, earliest_secs: float = 0.0, before_secs: float | None = None
) -> NodePlan | None:
    """Return the costs of all shutdown times worth considering for a node.

    These are the earliest allowed time, the end of each job, `before_secs`, and announced shutdowns.
    `earliest_secs` and `before_secs`, the bounds of these times, are in seconds from `now_secs`, which is in
    epoch seconds. `before_secs` may not be less than `earliest_secs`; without it, the last end of a job is
    the last choice. A shutdown that a batch system announced takes place anyway, so no choice is later.
    Returns None for a node whose number of CPUs is unknown.
    """
    if node.total_cpus is None:
        return None
    announced = {by: at_secs - now_secs for by, at_secs in node.shutdowns.items() if at_secs >= now_secs}
    bounds = [after_secs for by, after_secs in announced.items() if by != OPERATOR]
    last = min([math.inf if before_secs is None else before_secs, *bounds])
    ends = {job.end_secs for job in node.jobs if job.is_known and job.end_secs is not None}
    others = {*ends, *announced.values(), *([] if before_secs is None else [before_secs])}
    times = {min(earliest_secs, last), *(each for each in others if earliest_secs < each <= last)}
    idle = compute_idle(node)
    choices = tuple(compute_choice(node, after_secs, idle) for after_secs in sorted(times))
    first = min(announced, key=announced.__getitem__, default="")
    return NodePlan(
        node.name,
        node.total_cpus,
        choices,
        tuple(job.name for job in node.jobs if not job.is_known),
        tuple(job.name for job in node.jobs if job.is_capped),
        node.silent,
        compute_choice(node, announced[first], idle) if announced else None,
        first,
    )


def order_nodes(plans: Sequence[NodePlan]) -> tuple[NodePlan, ...]:
    """Sort nodes by the order in which to drain them: those with the least waste per freed CPU first.

    Of equal nodes, the one that is free earlier comes first. Nodes about which too little is known come last.
    """

    def order(plan: NodePlan) -> tuple[float, float, str]:
        best = plan.best
        if best is None:
            return math.inf, math.inf, plan.node
        per_cpu = best.core_secs / plan.total_cpus if plan.total_cpus else math.inf
        return per_cpu, best.after_secs, plan.node

    return tuple(sorted(plans, key=order))
