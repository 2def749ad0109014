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

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss import extensions, values
from jobfeatures.formats.sss.names import expand_names
from jobfeatures.formats.sss.objects import (
    DELIVERED,
    DIRECT,
    REQUESTED,
    SssJob,
)
from jobfeatures.formats.sss.said import Said, whole
from jobfeatures.formats.sss.stream import read_jobs
from jobfeatures.joblog import JobRecord, Notes
from jobfeatures.model import JobState

BATCH_SYSTEM: Final = "sss"
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
            raise told.at(source)
        yield Rejected.from_error(told.at(source))


def make_record(job: SssJob) -> JobRecord:
    """Return the record of a job whose defaults are resolved. Raises ParseError for an id that is none."""
    said = Said(job)
    state = _state(said)
    is_pending = state is JobState.PENDING  # what stands outside any category is what it asks for
    allocated = (DELIVERED,) if is_pending else (DELIVERED, DIRECT)
    requested = (REQUESTED, DIRECT) if is_pending else (REQUESTED,)
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
        account=said.text("Project", "Account"),
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
        nodes=_nodes(job),
        total_nodes=said.amount("NodeCount", *allocated),
        total_cpus=said.amount("Processors", *allocated),
        total_gpus=said.amount("Resource GPU", *allocated),
        requested_nodes=said.amount("NodeCount", *requested),
        requested_cpus=said.amount("Processors", *requested),
        requested_gpus=said.amount("Resource GPU", *requested),
        requested_memory_bytes=said.limit("Memory", "MaxMemory", "MaxMemorySize"),
        wall_limit_secs=said.limit("Duration", "Duration", is_used=state.is_finished),
        cpu_limit_secs=said.limit("", "CPUTime"),
        used_cpu_secs=said.number("CpuDuration"),
        user_cpu_secs=said.extended_number("user_cpu_secs"),
        system_cpu_secs=said.extended_number("system_cpu_secs"),
        energy_joules=said.extended_number("energy_joules"),
        used_memory_bytes=_used_memory(said),
        array_job_id=said.extended_text("array_job_id"),
        array_task_id=said.extended_text("array_task_id"),
        het_job_id=said.extended_text("het_job_id"),
        het_offset=said.extended_number("het_offset"),
        preceding_job_id=_preceding(said),
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
    for scope in job.scopes():
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


def _state(said: Said) -> JobState:
    state = said.state()
    is_exact = said.extended("state") == state.name
    has_failed = state is JobState.COMPLETED and said.number("ExitCode") and not is_exact
    return JobState.FAILED if has_failed else state


def _used_memory(said: Said) -> int | None:
    found = said.all("Memory", DELIVERED)
    found += [each for each in said.all("Memory") if each.text("context") == "Used"]
    peaks = [each for each in found if each.text("metric", "Max") in {"Max", "Total"}]
    return max(map(whole, peaks), default=None)


def _nodes(job: SssJob) -> tuple[str, ...]:
    """Return the nodes that the job was on, as it, its task groups and its tasks name them."""
    names: dict[str, None] = {}
    for scope in job.scopes():
        for each in [*scope.all("Node", DELIVERED), *scope.all("Node")]:
            if each.text("aggregation") != "Pattern":
                names.update(dict.fromkeys(expand_names(each)))
    return tuple(names)


def _preceding(said: Said) -> str | None:
    found = said.all("Dependency")
    if len(found) != 1 or found[0].text("designator", "JobId") != "JobId":
        return None
    return str(found[0].value) or None
