"""Reads logs of SSS documents as `JobRecord`s, which all log formats share. Pure.

A log is read as `stream` documents, and written as one JobGroup. Fields without an element in the format are
stored as Extensions: see `extensions`. A State says that a job has ended, but not how: with an ExitCode other
than 0 the job has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss import values
from jobfeatures.formats.sss.extensions import NUMBER_ELEMENTS, NUMBERS, TEXT_ELEMENTS, TEXTS
from jobfeatures.formats.sss.objects import (
    DELIVERED,
    DIRECT,
    REQUESTED,
    Reference,
    SssJob,
    SssTask,
    SssTaskGroup,
)
from jobfeatures.formats.sss.properties import JobProperties, whole_amount
from jobfeatures.formats.sss.requests.names import expand_names
from jobfeatures.formats.sss.stream import GROUP_ID_NAME, KIND, KeptJob, read_jobs
from jobfeatures.formats.sss.vocabulary import AWARENESS_POLICY
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, Passage, SourceText
from jobfeatures.records.model import JobState

BATCH_SYSTEM: Final = "sss"
_HEAD = re.compile(
    # Atomic: else each comment could end at each later end of one, in so many ways as there are sets of them.
    r"\ufeff?\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?>(?:<!--.*?-->\s*)*)<(?:Job|JobGroup)[\s/>]",
    re.DOTALL,
)


def recognise(head: str) -> bool:
    """Return whether a text is an SSS document: its first element is Job or JobGroup."""
    return _HEAD.match(head) is not None


def read_records(
    lines: Iterable[str],
    *,
    source: str,
    notes: Notes,
    strict: bool = False,
    keep_text: bool = False,
) -> Iterator[JobRecord | Rejected | Passage]:
    """Yield the jobs of a log; jobs with errors are yielded as Rejected.

    Parts that are skipped under the document's own policy Warn are counted in `notes`. With `keep_text`, each
    record also holds its source text, and the text between jobs is yielded as Passage. Typographic quotes are
    accepted as straight ones, unless `strict`. If `strict`, ParseError is raised at the first fault.
    """
    for found in read_jobs(lines, repaired=None if strict else notes.repaired, keep_text=keep_text):
        try:
            if isinstance(found, SssJob):
                yield make_record(found, notes)
            elif isinstance(found, KeptJob):
                record = make_record(found.job)
                yield replace(record, source_text=SourceText(KIND, found.text, record))
            elif isinstance(found, Passage):
                yield found
            elif isinstance(found, Rejected):
                notes.not_taken[f"{found.field} (awarenessPolicy Warn)"] += 1
            elif isinstance(found, ParseError):
                raise found
            elif not keep_text and found.name != GROUP_ID_NAME:  # which becomes the jobs' workflow_id
                notes.not_taken[found.name] += 1
        except ParseError as error:
            if strict:
                raise error.at(source) from None
            yield Rejected.from_error(error.at(source))


def make_record(job: SssJob, notes: Notes | None = None) -> JobRecord:
    """Convert a job, defaults filled in, to a record. Raises ParseError for an invalid job id.

    `notes` counts values that a record cannot hold.
    """
    stated = JobProperties(job)
    state = _state(stated)
    is_pending = state is JobState.PENDING  # values outside any category are requests
    allocated = (DELIVERED,) if is_pending else (DELIVERED, DIRECT)
    requested = (REQUESTED, DIRECT) if is_pending else (REQUESTED,)
    found: dict[str, Any] = {field: stated.text(element) for field, element in TEXT_ELEMENTS.items()}
    found["batch_system"] = found["batch_system"] or BATCH_SYSTEM
    found["account"] = found["account"] or stated.text("Account")
    found |= {field: stated.direct_number(element) for field, element in NUMBER_ELEMENTS.items()}
    found |= {field: stated.extension_value(field) for field in (*NUMBERS, *TEXTS)}
    found["workflow_id"] = found["workflow_id"] or job.group_id
    start = found["start_secs"]
    if found["end_secs"] is None and start is not None and state.is_finished:
        used = stated.amount("Duration", DELIVERED, DIRECT)
        found["end_secs"] = None if used is None else start + used
    if found["run_secs"] is None:
        found["run_secs"] = _run_secs(stated, start, found["end_secs"])
    starts = stated.direct_number("StartCount")
    record = JobRecord(
        **found,
        job_id=values.checked_id("".join(str(stated.mark_used(each).value) for each in job.all("Id"))),
        state=state,
        is_interactive=stated.direct_flag("Interactive"),
        restarts=starts - 1 if starts else None,
        nodes=_nodes(job, stated),
        total_nodes=stated.amount("NodeCount", *allocated),
        total_cpus=_processors(stated, allocated),
        total_gpus=stated.amount("Resource GPU", *allocated),
        requested_nodes=stated.amount("NodeCount", *requested),
        requested_cpus=_processors(stated, requested),
        requested_gpus=stated.amount("Resource GPU", *requested),
        requested_memory_bytes=stated.memory_wanted() if (most := stated.memory_limit()) is None else most,
        wall_limit_secs=stated.limit("Duration", "Duration", is_used=state.is_finished),
        cpu_limit_secs=stated.limit("", "CPUTime"),
        used_memory_bytes=_used_memory(stated),
        preceding_job_id=_preceding(stated),
    )
    if notes is not None:
        _count_not_taken(job, stated.used, record, notes)
    return record


def _run_secs(stated: JobProperties, start: int | None, end: int | None) -> int | None:
    """Return the run time delivered, None if that is just the time from start to end less suspensions."""
    delivered = stated.amount("Duration", DELIVERED)
    if delivered is None or start is None or end is None:
        return delivered
    return None if delivered == end - start - (stated.direct_number("SuspendDuration") or 0) else delivered


def _processors(stated: JobProperties, categories: tuple[str, ...]) -> int | None:
    return stated.processors(
        lambda each: each.amount("Processors", *categories), by_tasks=DIRECT in categories
    )


# Attributes whose meaning is part of the value taken.
_PLAIN_ATTRIBUTES: Final = frozenset(
    {("op", "EQ"), ("op", "LE"), ("condition", "OnExit"), ("designator", "JobId")}
)
_TAKEN_ATTRIBUTES: Final = frozenset(
    {*("units", "aggregation", "delimiter", "name", "type", "metric", "context"), AWARENESS_POLICY}
)
_PREFIXES: Final = {SssJob: "", SssTaskGroup: "TaskGroup ", SssTask: "Task "}


def _count_not_taken(job: SssJob, used: set[int], record: JobRecord, notes: Notes) -> None:
    """Count the values of a job that its record drops."""
    reported = notes.not_taken
    for group in job.task_groups:
        for part in (group, *(group.tasks if isinstance(group, SssTaskGroup) else ())):
            if isinstance(part, Reference):
                reported[f"{part.name} reference"] += 1
    for scope in job.scopes():
        prefix = _PREFIXES.get(type(scope), "")
        if scope.environment is not None:
            reported[f"{prefix}Environment"] += 1
        for each in (*scope.properties, *scope.requested, *scope.delivered):
            is_used = id(each) in used
            if is_used and not each.attributes:
                continue
            name = prefix + " ".join(each.key[:2]).rstrip()
            is_account = each.name == "Account" and str(each.value) == record.account
            if not is_used and (each.value != "" or each.attributes) and not is_account:
                reported[name] += 1
            for attribute, value in each.attributes.items() if is_used else ():
                if attribute not in _TAKEN_ATTRIBUTES and (attribute, value) not in _PLAIN_ATTRIBUTES:
                    reported[f"{name}@{attribute}"] += 1


def _state(stated: JobProperties) -> JobState:
    state = stated.state()
    is_exact = stated.extension_value("state") == state.name
    has_failed = state is JobState.COMPLETED and stated.direct_number("ExitCode") and not is_exact
    return JobState.FAILED if has_failed else state


def _used_memory(stated: JobProperties) -> int | None:
    found = stated.all("Memory", DELIVERED)
    found += [each for each in stated.all("Memory") if each.text("context") == "Used"]
    peaks = [each for each in found if each.text("metric", "Max") in {"Max", "Total"}]
    return max((whole_amount(stated.mark_used(each)) for each in peaks), default=None)


def _nodes(job: SssJob, stated: JobProperties) -> tuple[str, ...]:
    """Return the nodes on which the job ran, as named by the job, its task groups and its tasks."""
    names: dict[str, None] = {}
    for scope in job.scopes():
        for each in [*scope.all("Node", DELIVERED), *scope.all("Node")]:
            if each.text("aggregation") != "Pattern":
                names.update(dict.fromkeys(expand_names(stated.mark_used(each))))
    return tuple(names)


def _preceding(stated: JobProperties) -> str | None:
    """Return the id of the only job that this one depends on; records do not hold the condition."""
    found = stated.all("Dependency")
    if len(found) != 1 or found[0].text("designator", "JobId") != "JobId":
        return None
    if found[0].text("condition") == "OnExit" and "code" not in found[0].attributes:
        stated.mark_used(found[0])
    return str(found[0].value) or None
