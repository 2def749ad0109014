"""SSS job objects → `Job` records of live jobs: pure.

Source: SSS Job Object Specification 3.1.0. A document is one Job, or one
JobGroup of Jobs whose properties default to those of its JobDefaults, such as

    <Job><Id>1234.0</Id><State>Running</State><User>ada</User>
    <Processors>4</Processors><Duration>3600</Duration></Job>

Times are seconds since the epoch, durations seconds, Memory, Swap and Disk
megabytes (2^20 bytes) where no units are given. Absent elements are unknown;
"unlimited" can be said of a ResourceLimit only. Which of a requested, a
delivered and an uncategorized value counts is told in `properties`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from jobfeatures.errors import ParseError, Rejected, shown
from jobfeatures.formats.sss import values
from jobfeatures.formats.sss.awareness import REJECT, policy_of, understood, understood_child
from jobfeatures.formats.sss.extensions import STATES, exact_state
from jobfeatures.formats.sss.properties import Properties
from jobfeatures.formats.sss.tasks import read_places
from jobfeatures.formats.sss.vocabulary import CONTENT, ROOTS
from jobfeatures.formats.sss.xml import MAX_BYTES, Element, parse_element, reason_at
from jobfeatures.model import UNLIMITED, Job, JobKey, JobState, Limit, Limits

# Elements of which the value is used: their attribute values have to be understood.
USED: Final = frozenset(
    {
        "Account", "Disk", "Duration", "Memory", "Node", "NodeCount", "Partition", "Processors",
        "Project", "QualityOfService", "Queue", "Reservation", "Resource", "Swap", "User",
    }
)  # fmt: skip
T = TypeVar("T")
MAX_NOTES: Final = 100
MAX_INHERITED: Final = 2**20  # elements and characters that all jobs of a group inherit together


@dataclass(frozen=True, slots=True)
class Document:
    """What one document says."""

    jobs: tuple[Job, ...]  # in its order; an id may occur twice
    rejected: tuple[Rejected, ...] = ()  # a job each, that is not in `jobs`
    warnings: tuple[Rejected, ...] = ()  # parts that were passed over; their jobs are in `jobs`


def parse_jobs(data: bytes, *, source: str, batch_system: str = "spool") -> tuple[list[Job], list[Rejected]]:
    """Return the jobs of a document, and what was rejected or passed over in it.

    Raises ParseError if the document as a whole is unusable.
    """
    document = parse_document(data, source=source, batch_system=batch_system)
    return list(document.jobs), [*document.rejected, *document.warnings]


def parse_document(
    data: bytes,
    *,
    source: str,
    batch_system: str = "spool",
    node: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Document:
    """Return what a document says, with rejected jobs and mere warnings apart.

    With `node`, process and session ids of tasks on other nodes are left out.
    Raises ParseError if the document as a whole is unusable: not well-formed,
    hostile, neither Job nor JobGroup, or with something in its JobGroup or
    JobDefaults that has to be refused.
    """
    root = parse_element(data, source=source, max_bytes=max_bytes)
    reader = _Reader(source, batch_system, node)
    try:
        if root.name == "Job":
            reader.read_job(root, REJECT, None)
        elif root.name == "JobGroup":
            reader.read_group(root)
        else:
            raise values.error_at(root, "neither Job nor JobGroup")
    except ParseError as error:
        raise ParseError(
            error.reason, source=source, line=error.line, field=error.field, text=error.text
        ) from None
    return Document(tuple(reader.jobs), tuple(reader.rejected), tuple(reader.warnings))


class _Reader:
    """Collects what one document says."""

    def __init__(self, source: str, batch_system: str, node: str | None) -> None:
        self.jobs: list[Job] = []
        self.rejected: list[Rejected] = []
        self.warnings: list[Rejected] = []
        self._source = source
        self._batch_system = batch_system
        self._node = node

    def read_group(self, group: Element) -> None:
        """Read all jobs of a JobGroup. Raises ParseError if the group or its defaults have to be refused."""
        if not any(child.name == "Job" for child in group.children):
            raise values.error_at(group, "no Job in it")
        policy = policy_of(group)
        jobs = [child for child in group.children if child.name == "Job"]
        rest = tuple(child for child in group.children if child.name != "Job")
        shell = Element(group.name, group.attributes, group.text, group.line, group.column, rest)
        kept = understood(shell, ROOTS["JobGroup"], REJECT, self._warn, USED)
        defaults = [child for child in kept.children if child.name == "JobDefaults"] if kept else []
        if len(defaults) > 1:
            raise values.error_at(defaults[1], "stands here twice")
        if defaults and _weight(defaults[0]) * len(jobs) > MAX_INHERITED:
            raise values.error_at(defaults[0], f"too large for {len(jobs)} jobs")
        for job in jobs:
            self.read_job(job, policy, defaults[0] if defaults else None)

    def read_job(self, job: Element, policy: str, defaults: Element | None) -> None:
        """Read one job; if it has to be refused, say why."""
        try:
            if not job.children:
                raise values.error_at(job, "a reference to a job, or nothing: no Id in it", job.text.strip())
            kept = understood_child(job, CONTENT["JobGroup"], policy, self._warn, USED)
            if kept is not None:
                self.jobs.append(self._interpret(kept, Properties(kept, defaults)))
        except ParseError as error:
            self.rejected.append(
                Rejected(
                    self._source,
                    error.reason,
                    error.line,
                    error.field,
                    shown(error.text) if error.text else "",
                )
            )

    def _interpret(self, job: Element, properties: Properties) -> Job:
        identity = properties.one("Id")
        if identity is None:
            raise values.error_at(job, "no Id in it")
        key = JobKey(self._batch_system, values.read_id(identity))
        state = self._state(properties)
        places = read_places(properties, self._node)
        processors = _read(values.read_count, properties.actual("Processors"))
        end_secs = _read(values.read_count, properties.one("EndTime"))
        starts = _read(values.read_count, properties.one("StartCount"))
        return Job(
            key=key,
            state=state,
            name=_read(values.read_text, properties.one("Name")),
            user=_first_text(properties, "User"),
            account=_first_text(properties, "Project", "Account"),
            partition=_first_text(properties, "Partition", "Queue"),
            submit_secs=_read(values.read_count, properties.one("SubmitTime")),
            start_secs=_read(values.read_count, properties.one("StartTime")),
            end_secs=end_secs if state.is_finished else None,
            nodes=places.nodes,
            total_cpus=processors,
            allocated_cpus=_allocated(properties, processors, places.is_one_node),
            limits=_read_limits(properties, state),
            processes=places.processes,
            sessions=places.sessions,
            restarts=starts - 1 if starts else None,
            total_nodes=_read(values.read_count, properties.actual("NodeCount")),
            total_gpus=_read(values.read_number, properties.actual("Resource GPU")),
            reason=_read(values.read_text, properties.one("StatusMessage")),
            eligible_secs=_read(values.read_count, properties.one("EligibleTime")),
            priority=_read(values.read_integer, properties.one("Priority")),
            reservation=_first_text(properties, "Reservation"),
            uid=_extended(values.read_count, properties, "uid"),
            allocated_gpus=_extended(values.read_count, properties, "allocated_gpus"),
            gpus=_extended(values.read_words, properties, "gpus") or (),
            array_job_id=_extended(values.read_text, properties, "array_job_id"),
            array_task_id=_extended(values.read_text, properties, "array_task_id"),
            het_job_id=_extended(values.read_text, properties, "het_job_id"),
            het_offset=_extended(values.read_count, properties, "het_offset"),
            sluid=_extended(values.read_text, properties, "sluid"),
            tasks=_extended(values.read_count, properties, "tasks") or 1,
        )

    def _state(self, properties: Properties) -> JobState:
        element = properties.one("State")
        word = _read(values.read_text, element)
        if element is None or word is None:
            return JobState.UNKNOWN
        state = STATES.get(word)
        if state is None:
            self._warn(
                Rejected(
                    "",
                    reason_at(element, "not a state of a job; read as unknown"),
                    element.line,
                    "State",
                    shown(word),
                )
            )
        said = _extended(values.read_text, properties, "state")
        return exact_state(word, said) or state or JobState.UNKNOWN

    def _warn(self, note: Rejected) -> None:
        if len(self.warnings) < MAX_NOTES:
            self.warnings.append(Rejected(self._source, note.reason, note.line, note.field, note.text))


def _weight(element: Element) -> int:
    """Return the work and the memory that an element costs, counted in elements and characters."""
    return 1 + len(element.text) + sum(map(_weight, element.children))


def _read(read: Callable[[Element], T], element: Element | None) -> T | None:
    return None if element is None else read(element)


def _extended(read: Callable[[Element], T], properties: Properties, name: str) -> T | None:
    """Return what an Extension of our own type says."""
    return _read(read, properties.one(f"Extension {name}")) if properties.has_extensions else None


def _allocated(properties: Properties, processors: int | None, is_one_node: bool) -> int | None:
    """Return the processors on this node: all of a job on one node, unless an Extension says otherwise."""
    said = properties.one("Extension allocated_cpus")
    if said is None:
        return processors if is_one_node else None
    return values.read_count(said) if said.text.strip() else None


def _first_text(properties: Properties, *names: str) -> str | None:
    for name in names:
        text = _read(values.read_text, properties.actual(name))
        if text is not None:
            return text
    return None


def _read_limits(properties: Properties, state: JobState) -> Limits:
    """Return the limits: a ResourceLimit before a requested amount before an uncategorized one.

    A Duration outside any category is the time used once a job is completed,
    as a Delivered one always is; before that it is what the job may use.
    """
    durations = properties.limits("Duration")
    if state.is_finished:
        durations = [each for each in durations if each is not properties.one("Duration")]
    return Limits(
        wall_secs=_first_limit(
            _resource_limit(properties, values.read_count, "Duration"),
            _lowest(values.read_duration, durations),
        ),
        cpu_secs=_resource_limit(properties, values.read_count, "CPUTime"),
        memory_bytes=_first_limit(
            _resource_limit(properties, values.read_limit_size, "MaxMemory", "MaxMemorySize"),
            _lowest(values.read_size, properties.limits("Memory")),
        ),
        swap_bytes=_first_limit(
            _resource_limit(properties, values.read_limit_size, "Swap"),
            _lowest(values.read_size, properties.limits("Swap")),
        ),
        scratch_bytes=_first_limit(
            _resource_limit(properties, values.read_limit_size, "MaxDisk"),
            _lowest(values.read_size, properties.limits("Disk")),
        ),
    )


def _lowest(read: Callable[[Element], int], elements: Iterable[Element]) -> int | None:
    return min(map(read, elements), default=None)


def _first_limit(first: Limit, second: Limit) -> Limit:
    return second if first is None else first


def _resource_limit(properties: Properties, read: Callable[[Element], int], *names: str) -> Limit:
    """Return the first of some ResourceLimits; a Soft one only where there is no other of its name."""
    for name in names:
        found = properties.all(f"ResourceLimit {name}")
        hard = [each for each in found if each.attributes.get("type") != "Soft"] or found
        if len(hard) > 1:
            raise values.error_at(hard[1], "stands here twice", name)
        if hard:
            return UNLIMITED if hard[0].text.strip().lower() == "unlimited" else read(hard[0])
    return None
