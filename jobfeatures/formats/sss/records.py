"""Jobs of SSS documents ↔ the records that all log formats share: pure.

A log is read as `stream` says, and written as one JobGroup. What the format
has no element for stands in Extensions: see `extensions`. A State says that a
job has ended, not how: with an ExitCode other than 0 it has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from jobfeatures.errors import ParseError, Rejected, shown
from jobfeatures.formats.sss import extensions, values
from jobfeatures.formats.sss.amounts import amount_of
from jobfeatures.formats.sss.names import expand_names
from jobfeatures.formats.sss.objects import (
    DELIVERED,
    DIRECT,
    REQUESTED,
    Property,
    Scope,
    SssJob,
    SssTaskGroup,
)
from jobfeatures.formats.sss.stream import read_jobs
from jobfeatures.formats.sss.values import parse_value
from jobfeatures.formats.sss.vocabulary import Type
from jobfeatures.joblog import JobRecord, Notes
from jobfeatures.model import UNLIMITED, JobState, Limit

BATCH_SYSTEM: Final = "sss"
_LIMITING: Final = frozenset({"EQ", "LE", "LT"})
_HEAD = re.compile(
    r"\ufeff?\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--.*?-->\s*)*<(?:Job|JobGroup)[\s/>]", re.DOTALL
)


def recognise(head: str) -> bool:
    """Tell whether a text is an SSS document: its first element is Job or JobGroup."""
    return _HEAD.match(head) is not None


def read_records(
    lines: Iterable[str], *, source: str, strict: bool = False, notes: Notes | None = None
) -> Iterator[JobRecord | Rejected]:
    """Return the jobs of a log. What was passed over by the document's own policy Warn is told as rejected.

    A tolerant reader takes typographic quotes for straight ones. A strict one
    raises ParseError at the first fault.
    """
    for found in read_jobs(lines, repairing=not strict):
        told = found
        if isinstance(told, SssJob):
            try:
                record = make_record(told)
                _tell_not_taken(told, record, notes)
                yield record
                continue
            except ParseError as error:
                told = error
        if isinstance(told, Rejected):
            yield replace(told, source=source)
            continue
        if strict:
            raise ParseError(told.reason, source=source, line=told.line, field=told.field, text=told.text)
        yield Rejected(source, told.reason, told.line, told.field, shown(told.text) if told.text else "")


def make_record(job: SssJob) -> JobRecord:
    """Return the record of a job whose defaults are resolved. Raises ParseError for an id that is none."""
    said = _Said(job)
    state = _state(said)
    is_pending = state is JobState.PENDING
    start, end = said.number("StartTime"), said.number("EndTime")
    if end is None and start is not None and state.is_finished:
        used = said.amount("Duration", DELIVERED, DIRECT)
        end = None if used is None else start + used
    starts = said.number("StartCount")
    return JobRecord(
        batch_system=said.text("ResourceManagerType") or BATCH_SYSTEM,
        job_id=values.checked_id(job.id or ""),
        state=state,
        name=said.text("Name"),
        user=said.text("User"),
        uid=said.extended_number("uid"),
        group=said.text("Group"),
        gid=said.extended_number("gid"),
        account=said.text("Project") or said.text("Account"),
        queue=said.text("Queue"),
        partition=said.text("Partition"),
        qos=said.text("QualityOfService"),
        is_interactive=said.flag("Interactive"),
        cluster=said.extended_text("cluster"),
        state_word=said.extended_text("state_word"),
        executable=said.text("Executable"),
        reservation=said.text("Reservation"),
        priority=said.number("Priority"),
        submit_secs=said.number("SubmitTime"),
        eligible_secs=said.number("EligibleTime"),
        start_secs=start,
        end_secs=end,
        run_secs=said.extended_number("run_secs"),
        suspended_secs=said.number("SuspendDuration"),
        restarts=starts - 1 if starts else None,
        exit_status=said.number("ExitCode"),
        exit_signal=said.extended_number("exit_signal"),
        nodes=said.nodes(),
        total_nodes=said.allocated("NodeCount", is_pending),
        total_cpus=said.allocated("Processors", is_pending),
        total_gpus=said.allocated("Resource", is_pending),
        requested_nodes=said.requested("NodeCount", is_pending),
        requested_cpus=said.requested("Processors", is_pending),
        requested_gpus=said.requested("Resource", is_pending),
        requested_memory_bytes=said.limit("Memory", "MaxMemory", "MaxMemorySize"),
        wall_limit_secs=said.limit("Duration", "Duration", is_used=state.is_finished),
        cpu_limit_secs=said.limit("", "CPUTime"),
        used_cpu_secs=said.number("CpuDuration"),
        user_cpu_secs=said.extended_number("user_cpu_secs"),
        system_cpu_secs=said.extended_number("system_cpu_secs"),
        energy_joules=said.extended_number("energy_joules"),
        used_memory_bytes=said.used_memory(),
        array_job_id=said.extended_text("array_job_id"),
        array_task_id=said.extended_text("array_task_id"),
        het_job_id=said.extended_text("het_job_id"),
        het_offset=said.extended_number("het_offset"),
        preceding_job_id=said.preceding(),
        think_secs=said.extended_number("think_secs"),
    )


# What a record takes of a job, its task groups and tasks. The names of some tell what they are.
_TAKEN: Final = frozenset(
    {
        *("ResourceManagerType", "Id", "State", "Name", "User", "Group", "Project", "Queue", "Partition"),
        *("Executable", "Reservation", "Priority", "SubmitTime", "EligibleTime", "StartTime", "EndTime"),
        *("SuspendDuration", "StartCount", "ExitCode", "Node", "NodeCount", "Processors", "Memory"),
        *("Duration", "CpuDuration", "Interactive", "QualityOfService", "Dependency"),
    }
)
_TAKEN_LIMITS: Final = frozenset({"MaxMemory", "MaxMemorySize", "Duration", "CPUTime"})


def _tell_not_taken(job: SssJob, record: JobRecord, notes: Notes | None) -> None:
    """Count what a job says and its record does not."""
    if notes is None:
        return
    for scope in _scopes(job):
        if scope.environment is not None:
            notes.not_taken["Environment"] += 1
        inner = scope is not job  # of a task group or a task only the nodes are taken
        for each in (*scope.properties, *scope.requested, *scope.delivered):
            name, own = each.name, each.text("name")
            if name in {"ResourceLimit", "Resource"}:
                is_taken = own in _TAKEN_LIMITS if name == "ResourceLimit" else own == "GPU"
                name = f"{name} {own}"
            elif name == "Extension":
                is_taken = each.text("type") == extensions.TYPE
                name = f"Extension {own}".rstrip()
            elif name == "Dependency":
                is_taken = record.preceding_job_id is not None
            elif name == "Account":
                is_taken = str(each.value) == record.account
            else:
                is_taken = name in _TAKEN
            if not is_taken or (inner and name not in {"Node", "Id"}):
                notes.not_taken[name] += 1


def _state(said: _Said) -> JobState:
    word = said.text("State")
    state = extensions.STATES.get(word or "", JobState.UNKNOWN)
    exact = extensions.exact_state(word, said.extended_text("state"))
    if exact is None and state is JobState.COMPLETED and said.number("ExitCode"):
        return JobState.FAILED
    return exact or state


class _Said:
    """What a job says of itself, by category."""

    def __init__(self, job: SssJob) -> None:
        self._job = job
        self._extended = {
            each.text("name"): str(each.value)
            for each in job.all("Extension")
            if each.text("type") == extensions.TYPE
        }

    def actual(self, name: str) -> Property | None:
        """Return the Delivered property, else the one outside, else a Requested one without alternatives."""
        for category in (DELIVERED, DIRECT, REQUESTED):
            found = list(self._job.all(name, category))
            if found:
                is_said = len(found) == 1 and found[0].text("op", "EQ") == "EQ"
                return found[0] if is_said else None
        return None

    def text(self, name: str) -> str | None:
        found = self.actual(name)
        return str(found.value) or None if found is not None else None

    def number(self, name: str) -> int | None:
        return self._job.value(name, int)

    def flag(self, name: str) -> bool | None:
        return self._job.value(name, bool)

    def extended_text(self, name: str) -> str | None:
        return self._extended.get(name) or None

    def extended_number(self, name: str) -> int | None:
        text = self.extended_text(name)
        if text is None:
            return None
        value = parse_value(extensions.FIELDS[name], text)
        return value if isinstance(value, int) else None

    def allocated(self, name: str, is_pending: bool) -> int | None:
        """Return how many a job has: what is delivered, or outside of any category once it has started."""
        return self._count(name, DELIVERED) if is_pending else self._count(name, DELIVERED, DIRECT)

    def requested(self, name: str, is_pending: bool) -> int | None:
        """Return how many a job asked for, at least; see `allocated`."""
        return self._count(name, REQUESTED, DIRECT) if is_pending else self._count(name, REQUESTED)

    def amount(self, name: str, *categories: str) -> int | None:
        return next(
            (each for name_of in categories if (each := self._count(name, name_of)) is not None), None
        )

    def _count(self, name: str, *categories: str) -> int | None:
        for category in categories:
            found = [
                each
                for each in self._job.all(name, category)
                if name != "Resource" or each.text("name") == "GPU"
            ]
            if len(found) == 1 and found[0].text("op", "EQ") in {"EQ", "GE"}:
                return _whole(found[0])
        return None

    def limit(self, name: str, *limits: str, is_used: bool = False) -> Limit:
        """Return a ResourceLimit, else the lowest request, else what stands outside any category.

        `is_used`: what stands outside is what was used.
        """
        for each in limits:
            found = [limit for limit in self._job.all("ResourceLimit") if limit.text("name") == each]
            found = [limit for limit in found if limit.text("type") != "Soft"] or found
            if found:
                return _resource_limit(found[0])
        requests = [each for each in self._job.all(name, REQUESTED) if each.text("op", "EQ") in _LIMITING]
        if any(each.number("preference") or each.text("conj", "And") != "And" for each in requests):
            return None  # alternatives
        if requests:
            return min(map(_whole, requests))
        direct = self._job.one(name)
        if direct is None or is_used or direct.text("context") == "Used" or "metric" in direct.attributes:
            return None
        return _whole(direct)

    def used_memory(self) -> int | None:
        found = list(self._job.all("Memory", DELIVERED))
        found += [each for each in self._job.all("Memory") if each.text("context") == "Used"]
        peaks = [each for each in found if each.text("metric", "Max") in {"Max", "Total"}]
        return max(map(_whole, peaks), default=None)

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that the job was on, as it, its task groups and its tasks name them."""
        names: dict[str, None] = {}
        for scope in _scopes(self._job):
            for each in [*scope.all("Node", DELIVERED), *scope.all("Node")]:
                if each.text("aggregation") != "Pattern":
                    names.update(dict.fromkeys(expand_names(each)))
        return tuple(names)

    def preceding(self) -> str | None:
        found = list(self._job.all("Dependency"))
        if len(found) != 1 or found[0].text("designator", "JobId") != "JobId":
            return None
        return str(found[0].value) or None


def _scopes(job: SssJob) -> Iterator[Scope]:
    yield job
    for group in job.task_groups:
        if isinstance(group, SssTaskGroup):
            yield group
            yield from (task for task in group.tasks if isinstance(task, Scope))


def _whole(each: Property) -> int:
    """Return an amount in its base unit, rounded down. Raises ParseError beyond 63 bits."""
    amount = int(amount_of(each))
    if amount > values.MAX_NUMBER:
        raise each.error("number too large", str(each.value))
    return amount


def _resource_limit(each: Property) -> Limit:
    text = str(each.value)
    if text.lower() == "unlimited":
        return UNLIMITED
    scale = 2**20 if each.text("name").startswith("MaxMemory") else 1
    try:
        value = int(str(parse_value(Type.COUNT, text))) * scale
    except ParseError as error:
        raise each.error(error.reason, text) from None
    if value > values.MAX_NUMBER:
        raise each.error("number too large", text)
    return value
