"""`Job` → SSS job object, as `parse_jobs` reads it back: pure."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape, quoteattr  # escaping only, nothing is parsed

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.values import checked_id, checked_text
from jobfeatures.model import UNLIMITED, Job, JobState, Limit

_WORDS: Final = {
    JobState.PENDING: "Idle",
    JobState.RUNNING: "Running",
    JobState.SUSPENDED: "Suspended",
    JobState.COMPLETING: "Running",  # it still occupies its node
}


def format_job(job: Job) -> str:
    """Return a document with what the format can say of a job, ending in a newline.

    All ways of having ended become Completed, COMPLETING becomes Running, and
    UNKNOWN is left out. Also left out is what has no place in the format: the
    numeric user, array and heterogeneous job ids, restarts, an unlimited wall
    time or swap, and the CPUs on this node if there are several. Amounts are
    written as Requested and the processors as Delivered, as they are allocated.

    Raises ParseError for texts that the format does not allow, e.g. with
    control characters, naming the element.
    """
    limits = job.limits
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<Job>",
        _element("Id", checked_id(job.key.job_id)),
        _element("Name", job.name),
        _element("Project", job.account),
        _element("User", job.user),
        _element("Partition", job.partition),
        _element("State", _state_word(job.state)),
        _element("SubmitTime", job.submit_secs),
        _element("StartTime", job.start_secs),
        _element("EndTime", job.end_secs),
        _resource_limit("CPUTime", limits.cpu_secs),
        _resource_limit("MaxMemory", _only_unlimited(limits.memory_bytes)),
        _resource_limit("MaxDisk", _only_unlimited(limits.scratch_bytes)),
        *_container(
            "Requested",
            _element("Duration", _number(limits.wall_secs)),
            _element("Memory", _number(limits.memory_bytes), units="B"),
            _element("Swap", _number(limits.swap_bytes), units="B"),
            _element("Disk", _number(limits.scratch_bytes), units="B"),
        ),
        *_container(
            "Delivered",
            _element("NodeCount", len(job.nodes) or None),
            _element("Node", _node_list(job), aggregation="List"),
            _element("Processors", job.allocated_cpus if job.total_cpus is None else job.total_cpus),
        ),
        *_container("TaskGroup", *_tasks(job)),
        "</Job>",
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _tasks(job: Job) -> list[str]:
    lines = [f"<Task>{_element('Process', number).strip()}</Task>" for number in sorted(job.processes)]
    lines += [f"<Task>{_element('Session', number).strip()}</Task>" for number in sorted(job.sessions)]
    return [f"  {line}" for line in lines]


def _state_word(state: JobState) -> str | None:
    return "Completed" if state.is_finished else _WORDS.get(state)


def _node_list(job: Job) -> str | None:
    for name in job.nodes:
        if not name.strip() or "," in name:
            raise ParseError("not a node name", field="Node", text=name)
        checked_text(name, "Node")
    return ",".join(job.nodes) or None


def _number(limit: Limit) -> int | None:
    return limit if isinstance(limit, int) else None


def _only_unlimited(limit: Limit) -> Limit:
    return limit if limit is UNLIMITED else None


def _resource_limit(name: str, limit: Limit) -> str:
    return _element("ResourceLimit", "unlimited" if limit is UNLIMITED else _number(limit), name=name)


def _container(name: str, *lines: str) -> list[str]:
    written = [f"  {line}" for line in lines if line]
    return [f"  <{name}>", *written, f"  </{name}>"] if written else []


def _element(tag: str, content: str | int | None, /, **attributes: str) -> str:
    """Return one indented line, or nothing for unknown content."""
    if content is None or content == "":
        return ""
    text = str(content) if isinstance(content, int) else content
    if tag != "Node":
        checked_text(text, tag)
    written = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"  <{tag}{written}>{escape(text)}</{tag}>"
