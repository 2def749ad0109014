"""`Job` → SSS job object, as a site's script could write it: what `parse_document` reads back."""

from __future__ import annotations

from typing import Final

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.extensions import TYPE, state_word
from jobfeatures.formats.sss.values import checked_id, checked_text
from jobfeatures.formats.sss.xml import DECLARATION, Element, format_element
from jobfeatures.records.model import UNLIMITED, Job, JobState, Limit

_PLAIN_STATES: Final = frozenset(
    {JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETED, JobState.UNKNOWN}
)


def format_job(job: Job) -> str:
    """Return a document with what one can say of a job, ending in a newline.

    Amounts are written as Requested and the processors as Delivered, as they are allocated; limits that do
    not exist as a ResourceLimit "unlimited". What the format has no element for is in Extensions, and so is a
    state that State has no word for: see `extensions`.

    Raises ParseError for texts that the format does not allow, e.g. with
    control characters, naming the element.
    """
    limits = job.limits
    processors = job.total_cpus
    if processors is None and len(job.nodes) == 1:
        processors = job.allocated_cpus
    children = [
        *_element("Id", checked_id(job.key.job_id)),
        *_element("Name", job.name),
        *_element("Project", job.account),
        *_element("User", job.user),
        *_element("Partition", job.partition),
        *_element("State", state_word(job.state)),
        *_element("SubmitTime", job.submit_secs),
        *_element("EligibleTime", job.eligible_secs),
        *_element("DeadlineTime", job.deadline_secs),
        *_element("StartTime", job.start_secs),
        *_element("EndTime", job.end_secs),
        *_element("StartCount", None if job.restarts is None else job.restarts + 1),
        *_element("Priority", job.priority),
        *_element("Reservation", job.reservation),
        *_element("StatusMessage", job.reason),
        *_unlimited("Duration", limits.wall_secs),
        *_resource_limit("CPUTime", limits.cpu_secs),
        *_unlimited("MaxMemory", limits.memory_bytes),
        *_unlimited("Swap", limits.swap_bytes),
        *_unlimited("MaxDisk", limits.scratch_bytes),
        *_extensions(job, processors),
        *_container(
            "Requested",
            *_element("Duration", _number(limits.wall_secs)),
            *_element("Memory", _number(limits.memory_bytes), units="B"),
            *_element("Swap", _number(limits.swap_bytes), units="B"),
            *_element("Disk", _number(limits.scratch_bytes), units="B"),
        ),
        *_container(
            "Delivered",
            *_element("NodeCount", job.total_nodes),
            *_nodes(job),
            *_element("Processors", processors),
            *_element("Resource", job.total_gpus, name="GPU"),
        ),
        *_container("TaskGroup", *_tasks(job)),
    ]
    return f"{DECLARATION}\n{format_element(Element('Job', children=tuple(children)))}\n"


def _extensions(job: Job, processors: int | None) -> list[Element]:
    is_one_node = job.total_nodes == 1 if job.total_nodes is not None else len(job.nodes) <= 1
    found = []
    if job.allocated_cpus != (processors if is_one_node else None):
        found += _extension("allocated_cpus", "" if job.allocated_cpus is None else job.allocated_cpus)
    if job.state not in _PLAIN_STATES:
        found += _extension("state", job.state.value)
    if job.tasks != 1:
        found += _extension("tasks", job.tasks)
    if job.gpus:
        found += _extension("gpus", _list(job.gpus, "Extension"))
    for name in ("uid", "allocated_gpus", "het_offset"):
        found += _extension(name, getattr(job, name))
    for name in ("array_job_id", "array_task_id", "het_job_id", "sluid"):
        text = getattr(job, name)
        found += _extension(name, None if text is None else checked_text(text, "Extension"))
    return found


def _tasks(job: Job) -> list[Element]:
    ids = [("Process", each) for each in sorted(job.processes)]
    ids += [("Session", each) for each in sorted(job.sessions)]
    return [Element("Task", children=(Element(tag, text=str(number)),)) for tag, number in ids]


def _nodes(job: Job) -> list[Element]:
    if any("," in node for node in job.nodes):  # which a list would take for several
        return [Element("Node", text=checked_text(node, "Node")) for node in job.nodes]
    return [Element("Node", {"aggregation": "List"}, _list(job.nodes, "Node"))] if job.nodes else []


def _list(words: tuple[str, ...], tag: str) -> str:
    for word in words:
        if not word.strip() or "," in word:
            raise ParseError("cannot be in a list", field=tag, text=word)
        checked_text(word, tag)
    return ",".join(words)


def _number(limit: Limit) -> int | None:
    return limit if isinstance(limit, int) else None


def _unlimited(name: str, limit: Limit) -> list[Element]:
    return _element("ResourceLimit", "unlimited", name=name) if limit is UNLIMITED else []


def _resource_limit(name: str, limit: Limit) -> list[Element]:
    return _unlimited(name, limit) or _element("ResourceLimit", _number(limit), name=name)


def _element(tag: str, content: str | int | None, /, **attributes: str) -> list[Element]:
    """Return an element, or nothing for what is unknown."""
    if content is None or content == "":
        return []
    text = checked_text(content, tag) if isinstance(content, str) else str(content)
    return [Element(tag, attributes, text)]


def _extension(name: str, content: str | int | None) -> list[Element]:
    """Return an Extension of a field, or nothing for what is unknown."""
    return [] if content is None else [Element("Extension", {"name": name, "type": TYPE}, str(content))]


def _container(name: str, *children: Element) -> list[Element]:
    """Return an element around others, or nothing without any."""
    return [Element(name, children=children)] if children else []
