"""The records that all log formats share → one JobGroup, as `records` reads it back: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.extensions import make_container, make_element, make_extension, state_word
from jobfeatures.formats.sss.values import BLANKS, MAX_LONG_CHARACTERS, MAX_NUMBER, checked_id
from jobfeatures.formats.sss.xml import DECLARATION, NOT_XML, Element, format_element
from jobfeatures.joblog import JobRecord, Lost
from jobfeatures.model import UNLIMITED, JobState

GROUP_ID: Final = "log"
_TEXTS: Final = {
    "Name": "name",
    "Project": "account",
    "User": "user",
    "Group": "group",
    "Queue": "queue",
    "Partition": "partition",
    "Executable": "executable",
    "Reservation": "reservation",
    "ResourceManagerType": "batch_system",
    "QualityOfService": "qos",
}
_NUMBERS: Final = {
    "SubmitTime": "submit_secs",
    "EligibleTime": "eligible_secs",
    "StartTime": "start_secs",
    "EndTime": "end_secs",
    "SuspendDuration": "suspended_secs",
    "CpuDuration": "used_cpu_secs",
    "Priority": "priority",
    "ExitCode": "exit_status",
}
_SIGNED: Final = frozenset({"priority", "exit_status", "exit_signal"})
_EXTENDED_NUMBERS: Final = (
    *("uid", "gid", "exit_signal", "het_offset", "think_secs"),
    *("run_secs", "user_cpu_secs", "system_cpu_secs", "energy_joules"),
)
_EXTENDED_TEXTS: Final = ("array_job_id", "array_task_id", "het_job_id", "cluster", "state_word")


def write_records(records: Iterable[JobRecord], lost: Lost) -> Iterator[str]:
    """Return the lines of a document, without newlines: a JobGroup, a job after the other.

    Times and amounts are whole numbers there; texts have no blanks around them.
    Steps have no place, nor do jobs whose id has blanks or is too long.
    """
    yield DECLARATION
    yield "<JobGroup>"
    yield f"  <Id>{GROUP_ID}</Id>"
    for record in records:
        element = _make_job(record, lost)
        if element is not None:
            yield format_element(element, "  ")
    yield "</JobGroup>"


def _make_job(record: JobRecord, lost: Lost) -> Element | None:
    if record.step is not None:
        lost("step")
        return None
    try:
        job_id = checked_id(record.job_id)
    except ParseError:
        lost("job without a usable id")
        return None
    given = _Given(record, lost)
    children = [
        Element("Id", text=job_id),
        *(each for tag, name in _TEXTS.items() for each in given.text(tag, name)),
        *make_element("State", state_word(record.state)),
        *given.interactive(),
        *(each for tag, name in _NUMBERS.items() for each in given.number(tag, name)),
        *given.starts(),
        *given.dependency(),
        *given.limits(),
        *given.extensions(),
        *make_container(
            "Requested",
            *given.number("NodeCount", "requested_nodes"),
            *given.number("Processors", "requested_cpus"),
            *given.number("Resource", "requested_gpus", name="GPU"),
            *given.number("Memory", "requested_memory_bytes", units="B"),
            *given.number("Duration", "wall_limit_secs"),
        ),
        *make_container(
            "Delivered",
            *given.number("NodeCount", "total_nodes"),
            *given.nodes(),
            *given.number("Processors", "total_cpus"),
            *given.number("Resource", "total_gpus", name="GPU"),
            *given.number("Memory", "used_memory_bytes", metric="Max", units="B"),
        ),
    ]
    return Element("Job", children=tuple(children))


class _Given:
    """The fields of a record as elements; what does not fit is told to `lost`."""

    def __init__(self, record: JobRecord, lost: Lost) -> None:
        self._record = record
        self._lost = lost

    def text(self, tag: str, name: str) -> list[Element]:
        text = self._fitting(name, getattr(self._record, name))
        return make_element(tag, text)

    def number(self, tag: str, field: str, /, **attributes: str) -> list[Element]:
        number = self._whole(field, getattr(self._record, field))
        return make_element(tag, number, **attributes)

    def interactive(self) -> list[Element]:
        """Return whether somebody works with the job; what is no field of the format is told."""
        for name, _ in self._record.more:
            self._lost(name)
        said = self._record.is_interactive
        return make_element("Interactive", None if said is None else str(said).capitalize())

    def starts(self) -> list[Element]:
        """Return the number of starts: one more than of restarts."""
        restarts = self._whole("restarts", self._record.restarts)
        if restarts == MAX_NUMBER:
            self._lost("restarts")
            return []
        return make_element("StartCount", None if restarts is None else restarts + 1)

    def dependency(self) -> list[Element]:
        job_id = self._fitting("preceding_job_id", self._record.preceding_job_id)
        return make_element("Dependency", job_id, condition="OnExit")

    def limits(self) -> list[Element]:
        record = self._record
        found = self.number("ResourceLimit", "cpu_limit_secs", name="CPUTime")
        for name, limit in (
            ("Duration", record.wall_limit_secs),
            ("MaxMemory", record.requested_memory_bytes),
            ("CPUTime", record.cpu_limit_secs),
        ):
            if limit is UNLIMITED:
                found += make_element("ResourceLimit", "unlimited", name=name)
        return found

    def extensions(self) -> list[Element]:
        record = self._record
        found: list[Element] = []
        for name in _EXTENDED_NUMBERS:
            found += make_extension(name, self._whole(name, getattr(record, name)))
        for name in _EXTENDED_TEXTS:
            found += make_extension(name, self._fitting(name, getattr(record, name)))
        plain = JobState.FAILED if record.exit_status else JobState.COMPLETED
        if state_word(record.state) and record.state not in {plain, *_STATES_WITH_WORDS}:
            found += make_extension("state", record.state.value)
        return found

    def nodes(self) -> list[Element]:
        nodes = self._record.nodes
        if any("," in name or name.strip(BLANKS) != name or not name for name in nodes) or len(
            set(nodes)
        ) < len(nodes):
            self._lost("nodes")
            return []
        return make_element("Node", self._fitting("nodes", ",".join(nodes)), aggregation="List")

    def _fitting(self, name: str, text: str | None) -> str | None:
        if not text:
            return None
        if text.strip(BLANKS) != text or len(text) > MAX_LONG_CHARACTERS or NOT_XML.search(text):
            self._lost(name)
            return None
        return text

    def _whole(self, name: str, value: object) -> int | None:
        """Return a value as a whole number in the format's range, None if it is unknown or does not fit."""
        if not isinstance(value, int | float):
            return None
        if not -MAX_NUMBER <= value <= MAX_NUMBER or (value < 0 and name not in _SIGNED):
            self._lost(name)
            return None
        whole = round(value)
        if whole != value:
            self._lost(f"{name}: fractions")
        return whole


_STATES_WITH_WORDS: Final = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})
