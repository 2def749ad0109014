"""Converts SSS job objects to `Job` records of live jobs. Pure.

Source: SSS Job Object Specification 3.1.0. A document is one Job, or one JobGroup of Jobs whose properties
default to those of its JobDefaults, such as

    <Job><Id>1234.0</Id><State>Running</State><User>ada</User>
    <Processors>4</Processors><Duration>3600</Duration></Job>

Times are seconds since the epoch, durations seconds; Memory, Swap and Disk are megabytes (2^20 bytes) unless
units are given. Absent elements are unknown; only a ResourceLimit can be "unlimited". `properties` documents
which of a requested, a delivered and an uncategorized value applies. The Id of a task is a name within its
task group, not a process id. The element Process occurs only in the specification's elaborate example.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss import values
from jobfeatures.formats.sss.awareness import REJECT, policy_of, understood
from jobfeatures.formats.sss.extensions import STATES
from jobfeatures.formats.sss.objects import DELIVERED, REQUESTED, Property, SssJob, SssTask, SssTaskGroup
from jobfeatures.formats.sss.properties import JobProperties
from jobfeatures.formats.sss.reader import read_container
from jobfeatures.formats.sss.requests.names import expand_names
from jobfeatures.formats.sss.stream import read_job
from jobfeatures.formats.sss.vocabulary import CONTENT, ROOTS
from jobfeatures.formats.sss.xml import MAX_BYTES, Element, parse_element
from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures.records.nodelist import is_same_host

BATCH_SYSTEM: Final = "spool"
MAX_NOTES: Final = 100
MAX_INHERITED: Final = 2**20  # elements and characters inherited by all jobs of a group in total
MIN_PROCESS: Final = 2  # 0 is the kernel, 1 is init
MAX_PROCESS: Final = 2**22  # proc(5), /proc/sys/kernel/pid_max


@dataclass(frozen=True, slots=True)
class SssDocument:
    """The jobs of one document, the jobs that were rejected, and warnings."""

    jobs: tuple[Job, ...]  # in document order; an id may occur twice
    rejected: tuple[Rejected, ...] = ()  # one per rejected job, which is not in `jobs`
    warnings: tuple[Rejected, ...] = ()  # skipped parts, whose jobs are in `jobs`


def parse_document(
    data: bytes, *, source: str, node: str | None = None, max_bytes: int = MAX_BYTES
) -> SssDocument:
    """Parse a document into its jobs, rejected jobs and warnings.

    With `node`, process and session ids of tasks on other nodes are left out. Raises ParseError if the entire
    document is unusable: not well-formed, hostile, neither Job nor JobGroup, or with a part of its JobGroup
    or JobDefaults that has to be rejected.
    """
    root = parse_element(data, source=source, max_bytes=max_bytes)
    reader = _Reader(source, node)
    try:
        if root.name == "Job":
            reader.read_job(root, REJECT, None)
        elif root.name == "JobGroup":
            reader.read_group(root)
        else:
            raise values.error_at(root, "the root must be a Job or a JobGroup")
    except ParseError as error:
        raise error.at(source) from None
    return SssDocument(tuple(reader.jobs), tuple(reader.rejected), tuple(reader.warnings))


class _Reader:
    def __init__(self, source: str, node: str | None) -> None:
        self.jobs: list[Job] = []
        self.rejected: list[Rejected] = []
        self.warnings: list[Rejected] = []
        self._source = source
        self._node = node

    def read_group(self, group: Element) -> None:
        """Read all jobs of a JobGroup. Raises ParseError if the group or its defaults have to be rejected."""
        jobs = [child for child in group.children if child.name == "Job"]
        if not jobs:
            raise values.error_at(group, "contains no Job")
        policy = policy_of(group)
        rest = tuple(child for child in group.children if child.name != "Job")
        shell = Element(group.name, group.attributes, group.text, group.line, group.column, rest)
        kept = understood(shell, ROOTS["JobGroup"], REJECT, self._warn)
        found = [child for child in kept.children if child.name == "JobDefaults"] if kept else []
        if len(found) > 1:
            raise values.error_at(found[1], "occurs twice in one element")
        defaults = None
        if found and found[0].children:
            if _weight(found[0]) * len(jobs) > MAX_INHERITED:
                raise values.error_at(found[0], f"too large for {len(jobs)} jobs")
            defaults = read_container(found[0], CONTENT["JobGroup"]["JobDefaults"], policy, [])
        for job in jobs:
            self.read_job(job, policy, defaults if isinstance(defaults, SssJob) else None)

    def read_job(self, element: Element, policy: str, defaults: SssJob | None) -> None:
        """Read one job, or report why it is rejected."""
        for found in read_job(element, policy, defaults):
            try:
                if isinstance(found, ParseError):
                    raise found
                if isinstance(found, Rejected):
                    self._warn(found)
                else:
                    self.jobs.append(self._make_job(found))
            except ParseError as error:
                self.rejected.append(Rejected.from_error(error.at(self._source)))

    def _make_job(self, job: SssJob) -> Job:
        stated = JobProperties(job)
        state = stated.state()
        word = stated.text("State")
        if word is not None and word not in STATES:
            reported = next(job.all("State")).error("not a state of a job; read as unknown", word)
            self._warn(Rejected.from_error(reported))
        places = _Places(job, self._node)
        processors = total_cpus = stated.processors(lambda each: each.quantity("Processors"))
        if total_cpus is None and state is JobState.PENDING:  # the least that it requests
            total_cpus = stated.processors(_least_processors)
        starts = stated.direct_number("StartCount")
        nodes = stated.quantity("NodeCount")
        is_one_node = places.is_listed and len(places.nodes) <= 1 if nodes is None else nodes == 1
        return Job(
            key=JobKey(BATCH_SYSTEM, _checked(next(job.all("Id")), job.id or "")),
            state=state,
            name=_text(stated, "Name"),
            user=_text(stated, "User"),
            account=_text(stated, "Project", "Account"),
            partition=_text(stated, "Partition", "Queue"),
            submit_secs=stated.direct_number("SubmitTime"),
            start_secs=stated.direct_number("StartTime"),
            end_secs=stated.direct_number("EndTime") if state.is_finished else None,
            nodes=tuple(places.nodes),
            total_cpus=total_cpus,
            allocated_cpus=stated.extension_value("allocated_cpus")
            if stated.extension("allocated_cpus") is not None
            else (processors if is_one_node else None),
            limits=Limits(
                wall_secs=stated.limit("Duration", "Duration", is_used=state.is_finished),
                cpu_secs=stated.limit("", "CPUTime"),
                memory_bytes=stated.memory_limit(),
                swap_bytes=stated.limit("Swap", "Swap"),
                scratch_bytes=stated.limit("Disk", "MaxDisk"),
            ),
            processes=frozenset(places.processes),
            sessions=frozenset(places.sessions),
            restarts=starts - 1 if starts else None,
            total_nodes=nodes,
            total_gpus=stated.quantity("Resource GPU"),
            reason=_text(stated, "StatusMessage"),
            deadline_secs=stated.direct_number("DeadlineTime"),
            eligible_secs=stated.direct_number("EligibleTime"),
            priority=stated.direct_number("Priority"),
            reservation=_text(stated, "Reservation"),
            gpus=_gpus(stated),
            tasks=stated.extension_value("tasks") or 1,
            **{name: stated.extension_value(name) for name in ("uid", "allocated_gpus", "het_offset")},
            array_job_id=_extended(stated, "array_job_id"),
            array_task_id=_extended(stated, "array_task_id"),
            het_job_id=_extended(stated, "het_job_id"),
            sluid=_extended(stated, "sluid"),
        )

    def _warn(self, note: Rejected) -> None:
        if len(self.warnings) < MAX_NOTES:
            self.warnings.append(replace(note, source=self._source))


class _Places:
    """Where a job runs, according to its nodes, task groups and tasks, with defaults resolved.

    `is_listed` is false if a pattern or a count describes nodes. Process and session ids count if they can be
    on `node`, or always without it. In a multi-node job, an id without a node is ignored.
    """

    def __init__(self, job: SssJob, node: str | None) -> None:
        self.nodes: dict[str, None] = {}  # an ordered set
        self.is_listed = True
        self.processes: set[int] = set()
        self.sessions: set[int] = set()
        self._node = node
        nodes = self._names([*job.all("Node", DELIVERED)] or job.all("Node"))
        self._ids(job.all("Session"), self.sessions, nodes)
        for group in job.task_groups:
            if isinstance(group, SssTaskGroup):
                self._read_group(group, nodes)

    def _read_group(self, group: SssTaskGroup, outer: Sequence[str]) -> None:
        nodes = self._names(group.all("Node")) or outer
        self._ids(group.all("Session"), self.sessions, nodes)
        for task in group.tasks:
            if isinstance(task, SssTask) and task.properties:
                here = self._names(task.all("Node")) or nodes
                self._ids(task.all("Session"), self.sessions, here)
                self._ids(task.all("Process"), self.processes, here)

    def _names(self, found: Iterable[Property]) -> list[str]:
        """Record and return the nodes that are listed by name."""
        names: list[str] = []
        for each in found:
            if each.text("aggregation") == "Pattern" or each.number("count", 1) != 1:
                self.is_listed = False
            else:
                names += [_checked(each, name) for name in expand_names(each)]
        self.nodes.update(dict.fromkeys(names))
        return names

    def _ids(self, found: Iterable[Property], into: set[int], nodes: Sequence[str]) -> None:
        counts = self._node is None or not nodes or (len(nodes) == 1 and is_same_host(nodes[0], self._node))
        for each in found:
            if not isinstance(each.value, int) or not MIN_PROCESS <= each.value <= MAX_PROCESS:
                raise each.error("must be the id of one of the job's processes", str(each.value))
            if counts:
                into.add(each.value)


def _weight(element: Element) -> int:
    """Return the approximate cost of an element: its elements and characters."""
    return 1 + len(element.text) + sum(map(_weight, element.children))


def _text(stated: JobProperties, *names: str) -> str | None:
    """Return the first non-empty text; raises ParseError if it is unsafe in a label."""
    found = stated.first(*names)
    return None if found is None else _checked(found, str(found.value))


def _extended(stated: JobProperties, name: str) -> str | None:
    """Return the text of an Extension of our own type; raises as `_text` does."""
    found = stated.extension(name)
    return _checked(found, str(found.value)) or None if found is not None else None


def _gpus(stated: JobProperties) -> tuple[str, ...]:
    found = stated.extension("gpus")
    if found is None:
        return ()
    return tuple(_checked(found, word) for word in values.split_words(str(found.value)))


def _least_processors(stated: JobProperties) -> int | None:
    found = stated.quantity("Processors")
    return stated.amount("Processors", REQUESTED) if found is None else found


def _checked(each: Property, text: str) -> str:
    try:
        return values.checked_id(text) if each.name == "Id" else values.checked_text(text, each.name)
    except ParseError as error:
        raise each.error(error.reason, error.text or "(empty)") from None
