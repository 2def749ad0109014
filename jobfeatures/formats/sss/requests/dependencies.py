"""Finds the dependencies between the jobs of a group, and an order in which they can run. Pure.

Source: SSS Job Object Specification 3.1.0, sections 3.0 and 5.1 (Dependency).
"""

from __future__ import annotations

import graphlib
from collections.abc import Sequence
from dataclasses import dataclass

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import Property, Reference, SssJob

_ID, _NAME = "JobId", "JobName"
_Node = tuple[str, str]  # a job by id, or all jobs with a name
_Graph = dict[_Node, list[_Node]]  # node → the nodes it waits for


@dataclass(frozen=True, slots=True)
class Dependency:
    """A condition for the start of a job: another job (`on`) has ended in a certain way (`condition`).

    `designator` says whether `on` is an id or a name. With the condition OnExit, `code` is the exit code that
    the other job must have.
    """

    on: str
    designator: str = _ID  # or JobName
    condition: str = "OnSuccess"  # or OnFailure, OnExit
    code: int | None = None

    def is_met(self, *, has_ended: bool, exit_code: int | None) -> bool | None:
        """Return whether the other job's outcome lets this job start.

        Returns None if that depends on the other job's exit code, which is not known.
        """
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
    """The order of the jobs of a group, by id.

    `order` is an order in which the jobs can run. If there is a cycle, `order` is empty, and `cycle` holds
    jobs each of which waits for the next. `missing` holds pairs of a job and an id or name that it waits for,
    but that no job of the group has; these may be earlier jobs.
    """

    order: tuple[str, ...]
    cycle: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


def read_dependencies(job: SssJob) -> tuple[Dependency, ...]:
    """Return the dependencies of a job, including those of its task groups and tasks."""
    return tuple(_dependency(each) for scope in job.scopes() for each in scope.all("Dependency"))


def order_jobs(jobs: Sequence[SssJob | Reference]) -> JobOrder:
    """Order the jobs of a group by their dependencies. Raises ParseError if two have the same id."""
    graph: _Graph = {}
    waiting: list[tuple[str, Dependency]] = []
    for job in jobs:
        job_id = job.id or ""
        if (_ID, job_id) in graph:
            raise ParseError("two jobs have this Id", line=getattr(job, "line", 0), field="Id", text=job_id)
        graph[_ID, job_id] = []
        if isinstance(job, SssJob):
            waiting += [(job_id, each) for each in read_dependencies(job)]
            if name := job.value("Name", str):
                # One node per name, so that M jobs waiting for N of one name are M + N edges.
                graph.setdefault((_NAME, name), []).append((_ID, job_id))
    missing = []
    for job_id, each in waiting:
        other = (each.designator, each.on)
        if other in graph:
            graph[_ID, job_id].append(other)
        else:
            missing.append((job_id, each.on))
    try:
        order = tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        return JobOrder((), _cycle_of(error.args[1]), tuple(missing))
    return JobOrder(tuple(name for kind, name in order if kind == _ID), (), tuple(missing))


def _dependency(each: Property) -> Dependency:
    code = each.attributes.get("code")
    return Dependency(
        str(each.value),
        each.text("designator", _ID),
        each.text("condition", "OnSuccess"),
        code if isinstance(code, int) else None,
    )


def _cycle_of(ring: list[_Node]) -> tuple[str, ...]:
    """Return the jobs of a cycle in which each node waits for the one before, starting at the smallest id."""
    ids = [name for kind, name in reversed(ring[1:]) if kind == _ID]
    first = ids.index(min(ids))
    return (*ids[first:], *ids[:first])
