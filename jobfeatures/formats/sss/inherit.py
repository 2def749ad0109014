"""Fills in defaults: computes the properties that each job, task group and task has. Pure.

Source: SSS Job Object Specification 3.1.0, sections 5.0, 6.0 and 7.0: the content of a JobDefaults,
TaskGroupDefaults or TaskDefaults applies to its siblings unless they override it. Properties are overridden
by name (limits, resources and extensions by their own names), separately in each category; so are the
properties of defaults within defaults. An Environment, and a list of task groups or tasks, is overridden only
as a whole. A default request that is one expression (alternatives, groups, preferences) is inherited or
overridden as a whole. An Id is never inherited.

A job without task groups has one, and a task group without tasks has one: section 3.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import (
    Property,
    Reference,
    Scope,
    SssJob,
    SssJobGroup,
    SssTask,
    SssTaskGroup,
)

MAX_INHERITED: Final = 2**20  # properties, counted once per inheriting element
_INNER: Final[Mapping[type[Scope], tuple[str, str]]] = {
    SssJob: ("task_groups", "task_group_defaults"),
    SssTaskGroup: ("tasks", "task_defaults"),
}
Kind = TypeVar("Kind", bound=Scope)


def resolve_group(group: SssJobGroup) -> tuple[SssJob | Reference, ...]:
    """Return a group's jobs with defaults filled in.

    Raises ParseError if more than MAX_INHERITED properties would be inherited.
    """
    budget = _Budget()
    return tuple(
        resolve_job(each, group.job_defaults, budget) if isinstance(each, SssJob) else each
        for each in group.jobs
    )


class _Budget:
    def __init__(self) -> None:
        self._left = MAX_INHERITED

    def take(self, scope: Scope) -> None:
        self._left -= 1 + len(scope.properties) + len(scope.requested) + len(scope.delivered)
        if self._left < 0:
            raise ParseError(
                f"more than {MAX_INHERITED} inherited properties: divide the file", line=scope.line
            )


def resolve_job(job: SssJob, defaults: SssJob | None = None, budget: _Budget | None = None) -> SssJob:
    """Return a job with its own defaults and those of its group (`defaults`) filled in.

    `budget` limits the properties that all jobs together inherit; ParseError is raised beyond it.
    """
    budget = budget or _Budget()
    if defaults is not None:
        job = _merge(job, defaults, budget)
    resolved = tuple(
        _resolve_task_group(each, job.task_group_defaults, budget) if isinstance(each, SssTaskGroup) else each
        for each in job.task_groups or (SssTaskGroup(),)
    )
    return replace(job, task_groups=resolved, task_group_defaults=None)


def _resolve_task_group(group: SssTaskGroup, defaults: SssTaskGroup | None, budget: _Budget) -> SssTaskGroup:
    if defaults is not None:
        group = _merge(group, defaults, budget)
    task_defaults = group.task_defaults or SssTask()
    resolved = tuple(
        _merge(each, task_defaults, budget) if isinstance(each, SssTask) else each
        for each in group.tasks or (SssTask(),)
    )
    return replace(group, tasks=resolved, task_defaults=None)


def _merge(own: Kind, defaults: Scope, budget: _Budget) -> Kind:
    budget.take(defaults)
    inherited = [each for each in defaults.properties if each.name != "Id"]
    inner = {
        name: _inner(getattr(own, name), getattr(defaults, name), budget)
        for name in _INNER.get(type(own), ())
    }
    return replace(
        own,
        **inner,
        properties=_override(own.properties, inherited),
        delivered=_override(own.delivered, defaults.delivered),
        requested=_override_requests(own.requested, defaults.requested),
        environment=own.environment or defaults.environment,
    )


def _inner(own: Any, inherited: Any, budget: _Budget) -> Any:
    """Return task groups or tasks, or defaults of them, of which both may be given."""
    if isinstance(own, Scope) and isinstance(inherited, Scope):
        return _merge(own, inherited, budget)
    return own or inherited


def _override(own: tuple[Property, ...], inherited: Sequence[Property]) -> tuple[Property, ...]:
    keys = {each.key for each in own}
    return (*own, *(each for each in inherited if each.key not in keys))


def _override_requests(own: tuple[Property, ...], inherited: tuple[Property, ...]) -> tuple[Property, ...]:
    if not own or not inherited:
        return own or inherited
    keys = {each.key for each in own}
    if _is_expression(inherited):
        kept = () if any(each.key in keys for each in inherited) else inherited
    else:
        kept = tuple(each for each in inherited if each.key not in keys)
    return (*_in_parentheses(own), *_in_parentheses(kept)) if kept else own


def _is_expression(requests: tuple[Property, ...]) -> bool:
    return any(
        each.text("conj", "And") != "And" or each.number("group") or each.number("preference")
        for each in requests
    )


def _in_parentheses(requests: tuple[Property, ...]) -> tuple[Property, ...]:
    """Return an expression as one group; other requests, and a single one, unchanged."""
    if len(requests) < 2 or not _is_expression(requests):
        return requests
    first, *middle, last = requests
    return (_regrouped(first, 1), *middle, _regrouped(last, -1))


def _regrouped(each: Property, change: int) -> Property:
    return replace(each, attributes={**each.attributes, "group": each.number("group") + change})
