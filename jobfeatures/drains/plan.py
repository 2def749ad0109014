"""Find the cheapest time to drain a node, and the order in which to drain several: pure arithmetic.

A shutdown time T is announced now. From then on no job starts; a job that ends before T loses nothing, but
its CPUs are idle until T; a job that still runs at T is killed. Between two ends the loss never decreases;
it drops only when a job ends. So the cheapest T is the earliest one allowed or the end of a job.
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
    """One possible shutdown time, `after_secs` from now, and its cost; waste is in core seconds."""

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
    """The possible shutdown times of a node with their costs, and what is not known of it.

    Too little is known of the `unknown_jobs`, so the costs lack their share.
    The `capped_jobs` report more waste than their CPUs can produce.
    The `silent` job sources have not answered yet, so there may be further jobs.
    `announced` is the cost of the next shutdown that is announced already, by `announced_by`.
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
        """Return whether enough is known to say which time is best."""
        return not self.unknown_jobs and not self.silent

    @property
    def best(self) -> ShutdownChoice | None:
        """Return the time with the least waste, the earliest of equals; None if too little is known."""
        if not self.is_known:
            return None
        return min(self.choices, key=lambda choice: (choice.core_secs, choice.after_secs))

    @property
    def sparing(self) -> ShutdownChoice | None:
        """Return the earliest time that kills no job; None if there is none or too little is known."""
        if not self.is_known:
            return None
        return next((choice for choice in self.choices if not choice.killed), None)


def compute_choice(node: SeenNode, after_secs: float, idle: IdleCpus | None = None) -> ShutdownChoice:
    """Return the cost of a shutdown in `after_secs` seconds; `idle` is the node's `compute_idle`, if at hand.

        idle:     ∫ from 0 to T: max(0, total − Σ over jobs that still run: allocated_j) dt
        draining: Σ draining_waste_j × min(1, T ÷ end_j)
        kill:     Σ over jobs with end_j > T: kill_waste_j + rate_j × T

    T and end_j count from now. A job's draining waste accrues evenly until its end. rate_j is the CPUs that
    the job reports as used, else its measured mean CPU use so far, else all CPUs allocated to it; payloads
    that end before T make the real loss smaller. A job without a known end still runs at every T. The CPUs
    of a job whose allocation or kill waste is unknown count as neither idle nor lost.
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
    """Return the CPU time that stays idle if no job starts. Jobs of which too little is known never end."""
    jobs = (
        (job.allocated_cpus or 0, job.end_secs if job.is_known and job.end_secs is not None else math.inf)
        for job in node.jobs
    )
    return IdleCpus(node.total_cpus or 0, jobs)


def plan_drain(
    node: SeenNode, now_secs: float, *, earliest_secs: float = 0.0, before_secs: float | None = None
) -> NodePlan | None:
    """Return the costs of the times worth considering: the earliest, each job's end, and `before_secs`.

    `now_secs` is epoch, both bounds are seconds from then; without `before_secs` (at least `earliest_secs`)
    the last end is the last choice. An announced shutdown is a choice too. One that a batch system announced
    takes place anyway: no choice is later. None for a node whose number of CPUs is unknown.
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
    """Return the nodes in the best order of draining: least waste per freed CPU first.

    Of equals, the node that is free earlier comes first; nodes of which too little is known come last.
    """

    def order(plan: NodePlan) -> tuple[float, float, str]:
        best = plan.best
        if best is None:
            return math.inf, math.inf, plan.node
        per_cpu = best.core_secs / plan.total_cpus if plan.total_cpus else math.inf
        return per_cpu, best.after_secs, plan.node

    return tuple(sorted(plans, key=order))
