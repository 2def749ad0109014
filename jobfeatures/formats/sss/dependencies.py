"""Which job waits for which: the graph of a job group, its order and its cycles. Pure.

Source: SSS Job Object Specification 3.1.0, sections 3.0 and 5.1 (Dependency).
"""

from __future__ import annotations

import contextlib
import graphlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import Property, Reference, SssJob

MAX_CYCLES: Final = 20
_ID, _NAME = "JobId", "JobName"
_Node = tuple[str, str]  # a job by its id, or all jobs of a name
_Graph = dict[_Node, set[_Node]]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job may start once another has ended in a certain way. `code`: with OnExit, this exit code only."""

    on: str
    designator: str = _ID  # or JobName
    condition: str = "OnSuccess"  # or OnFailure, OnExit
    code: int | None = None

    def is_met(self, *, has_ended: bool, exit_code: int | None) -> bool | None:
        """Return whether the state of the other job lets this one start; None if its exit code is needed."""
        if not has_ended:
            return False
        if self.condition == "OnExit" and self.code is None:
            return True
        if exit_code is None:
            return None
        if self.condition == "OnExit":
            return exit_code == self.code
        return (exit_code == 0) is (self.condition == "OnSuccess")


@dataclass(frozen=True, slots=True)
class JobOrder:
    """The jobs of a group, by id.

    `order`: one in which they can run. `cycles`: jobs that wait for each other
    in a ring, each for the next; 20 at most are reported. `blocked`: jobs that
    wait for one of those, or are in another cycle. `missing`: a job, and an id or name that it waits
    for and that no job of the group has: jobs from before may be meant.
    """

    order: tuple[str, ...]
    cycles: tuple[tuple[str, ...], ...] = ()
    blocked: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


def read_dependencies(job: SssJob) -> tuple[Dependency, ...]:
    """Return what a job waits for; what its task groups and tasks wait for, it waits for as well."""
    return tuple(_dependency(each) for scope in job.scopes() for each in scope.all("Dependency"))


def order_jobs(jobs: Sequence[SssJob | Reference]) -> JobOrder:
    """Return how the jobs of a group wait for each other. Raises ParseError where two have the same id."""
    graph: _Graph = {}
    waiting: list[tuple[str, Dependency]] = []
    for job in jobs:
        job_id = job.id or ""
        if (_ID, job_id) in graph:
            raise ParseError("two jobs with this id", line=getattr(job, "line", 0), field="Id", text=job_id)
        graph[_ID, job_id] = set()
        if isinstance(job, SssJob):
            waiting += [(job_id, each) for each in read_dependencies(job)]
            if name := job.value("Name", str):
                graph.setdefault((_NAME, name), set())
    for job in jobs:
        name = job.value("Name", str) if isinstance(job, SssJob) else None
        if name:  # one node a name: many jobs that wait for many of one name are no product
            graph[_NAME, name].add((_ID, job.id or ""))
    missing = []
    for job_id, each in waiting:
        other = (each.designator, each.on)
        if other in graph:
            graph[_ID, job_id].add(other)
        else:
            missing.append((job_id, each.on))
    order, left = _order(graph)
    cycles = _find_cycles(graph, left)
    in_cycles = {name for cycle in cycles for name in cycle}
    return JobOrder(
        tuple(name for kind, name in order if kind == _ID),
        tuple(cycles),
        tuple(name for kind, name in graph if kind == _ID and (kind, name) in left and name not in in_cycles),
        tuple(missing),
    )


def _dependency(each: Property) -> Dependency:
    code = each.attributes.get("code")
    return Dependency(
        str(each.value),
        each.text("designator", _ID),
        each.text("condition", "OnSuccess"),
        code if isinstance(code, int) else None,
    )


def _order(graph: _Graph) -> tuple[list[_Node], set[_Node]]:
    """Return the nodes that no cycle keeps from running, in order, and those that one does."""
    sorter = graphlib.TopologicalSorter(graph)
    with contextlib.suppress(graphlib.CycleError):  # it then gives those that it can
        sorter.prepare()
    order: list[_Node] = []
    while ready := sorter.get_ready():
        order += ready
        sorter.done(*ready)
    return order, graph.keys() - set(order)


def _find_cycles(graph: _Graph, left: set[_Node]) -> list[tuple[str, ...]]:
    """Return cycles without common jobs in what is left of a graph, each from its smallest id on."""
    cycles: list[tuple[str, ...]] = []
    while len(cycles) < MAX_CYCLES:
        try:
            graphlib.TopologicalSorter({node: graph[node] & left for node in left}).prepare()
            break
        except graphlib.CycleError as error:
            ring: list[_Node] = error.args[1][:-1]  # each is what the next one waits for
        ids = [name for kind, name in reversed(ring) if kind == _ID]
        first = ids.index(min(ids))
        cycles.append((*ids[first:], *ids[:first]))
        left = left - set(ring)
    return sorted(cycles)
