"""When a node is drained most cheaply, and which node first: pure arithmetic.

A shutdown time T is announced now. From then on no job starts; a job that ends before T is whole, and its
CPUs are idle until T; a job that still runs at T is killed. Between two ends the loss grows by all CPUs of
the node in a second, and it falls only where a job ends: the cheapest T is the earliest one that is allowed,
or the end of a job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jobfeatures.drains.nodemetrics import SeenNode
from jobfeatures.status.waste import Basis, combine_bases


@dataclass(frozen=True, slots=True)
class Choice:
    """What one shutdown time costs. `after_secs` counts from now; waste is core seconds, the sum of three."""

    after_secs: float
    idle_core_secs: float  # CPUs without a job, before the shutdown
    draining_core_secs: float  # CPUs that jobs hold and leave idle while they drain
    kill_core_secs: float  # work lost in jobs that are killed
    killed: tuple[str, ...]
    basis: Basis

    @property
    def core_secs(self) -> float:
        """Return the whole loss."""
        return self.idle_core_secs + self.draining_core_secs + self.kill_core_secs


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The choices for a node in the order of time, and what is not known of it.

    Of the `unknown_jobs` too little is known, so that each sum lacks a part.
    `capped_jobs` say of themselves that they waste more than their CPUs can do.
    The `silent` sources of jobs have not answered yet: jobs may be here that nobody knows.
    """

    node: str
    total_cpus: int
    choices: tuple[Choice, ...]
    unknown_jobs: tuple[str, ...] = ()
    capped_jobs: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Return whether enough is known to name a best choice."""
        return not self.unknown_jobs and not self.silent

    @property
    def best(self) -> Choice | None:
        """Return the cheapest choice, the earlier of equal ones; None where too little is known."""
        if not self.is_known:
            return None
        return min(self.choices, key=lambda choice: (choice.core_secs, choice.after_secs))

    @property
    def sparing(self) -> Choice | None:
        """Return the earliest choice that kills nobody; None where there is none or too little is known."""
        if not self.is_known:
            return None
        return next((choice for choice in self.choices if not choice.killed), None)


def compute_choice(node: SeenNode, after_secs: float) -> Choice:
    """Return what a shutdown after some seconds costs.

        idle:     (total − Σ allocated_j) × T + Σ over jobs with end_j ≤ T: allocated_j × (T − end_j)
        draining: Σ draining_waste_j × min(1, T ÷ end_j)
        kill:     Σ over jobs with end_j > T: kill_waste_j + rate_j × T

    T and end_j count from now. A job's draining waste falls due evenly until its end. rate_j is its used CPUs
    where the job reports, those that it was busy with so far where its use is measured, else all it was
    given; payloads that end before T make the real loss smaller. A job without a known end runs at every T;
    one whose allocation or kill waste is not known counts as CPUs that are neither idle nor lost.
    """
    total = node.total_cpus or 0
    held = sum(job.allocated_cpus or 0 for job in node.jobs)
    idle = max(0, total - held) * after_secs
    draining = kill = 0.0
    killed: list[str] = []
    bases: list[Basis] = []
    for job in node.jobs:
        if job.allocated_cpus is None or not job.is_known:
            continue
        end = math.inf if job.end_secs is None else max(0.0, job.end_secs)
        bases += [job.kill_basis] if end > after_secs else [job.kill_basis, job.end_basis]
        if end <= after_secs:
            idle += job.allocated_cpus * (after_secs - end)
            draining += job.draining_core_secs or 0.0
        else:
            killed.append(job.name)
            kill += (job.kill_core_secs or 0.0) + (job.kill_rate_cpus or 0.0) * after_secs
            if math.isfinite(end):
                draining += (job.draining_core_secs or 0.0) * after_secs / end
    return Choice(after_secs, idle, draining, kill, tuple(killed), combine_bases(bases))


def plan_drain(
    node: SeenNode, *, earliest_secs: float = 0.0, before_secs: float | None = None
) -> NodePlan | None:
    """Return what there is to choose from: the earliest time, each end of a job, the last one if it is given.

    Both bounds count from now; without `before_secs` the last end is the last choice. None for a node whose
    CPUs are not known. Raises ValueError if the bounds leave no time.
    """
    if before_secs is not None and before_secs < earliest_secs:
        raise ValueError(
            f"no time is left: the earliest is {earliest_secs - before_secs:.0f} s after the last"
        )
    if node.total_cpus is None:
        return None
    last = math.inf if before_secs is None else before_secs
    ends = {job.end_secs for job in node.jobs if job.is_known and job.end_secs is not None}
    times = {earliest_secs, *(end for end in ends if earliest_secs < end <= last)}
    if before_secs is not None:
        times.add(before_secs)
    choices = tuple(compute_choice(node, after_secs) for after_secs in sorted(times))
    return NodePlan(
        node.name,
        node.total_cpus,
        choices,
        tuple(job.name for job in node.jobs if not job.is_known),
        tuple(job.name for job in node.jobs if job.is_capped),
        node.silent,
    )


def order_nodes(plans: Sequence[NodePlan]) -> tuple[NodePlan, ...]:
    """Return the nodes in the order in which they are best drained: least loss for each CPU freed first.

    Of equal ones the one that is free earlier goes first. A node of which too
    little is known comes after all others.
    """

    def order(plan: NodePlan) -> tuple[float, float, str]:
        best = plan.best
        if best is None:
            return math.inf, math.inf, plan.node
        per_cpu = best.core_secs / plan.total_cpus if plan.total_cpus else math.inf
        return per_cpu, best.after_secs, plan.node

    return tuple(sorted(plans, key=order))
