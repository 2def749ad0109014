"""The records that all log formats share → one JobGroup, as `records` reads it back: pure.

A log that was read with its text is written as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final
from xml.sax.saxutils import escape  # text only, nothing is parsed

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss import extensions
from jobfeatures.formats.sss.extensions import state_word
from jobfeatures.formats.sss.stream import GROUP, GROUP_ID
from jobfeatures.formats.sss.values import BLANKS, MAX_LONG_CHARACTERS, MAX_NUMBER, checked_id
from jobfeatures.formats.sss.xml import DECLARATION, NOT_XML
from jobfeatures.joblog import JobRecord, LastLine, Lost, Passage
from jobfeatures.model import UNLIMITED, JobState

_SIGNED: Final = frozenset({"priority", "exit_status", "exit_signal"})
_PLAIN_CHARACTERS: Final = 100  # a text that is letters and digits alone, and no longer, stands as it is
_How = Callable[[str, Any, Lost], str | int | None]
_Row = tuple[str, str, str, _How]  # the field; what stands before and behind its value; how that is written


def write_records(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    """Return the lines of a document, without newlines: a JobGroup, a job after the other.

    Times and amounts are whole numbers there; texts have no blanks around them. Steps have no place, nor do
    jobs whose id has blanks or is too long. Of what was read with its text every document stands as it was,
    but for jobs that could not be read; a job whose record was changed is written of its record.
    """
    rest = iter(records)
    first = next(rest, None)
    whole = rest if first is None else chain([first], rest)
    if isinstance(first, Passage) or (first is not None and first.source_text is not None):
        yield from _write_as_it_was(whole, lost)
        return
    yield DECLARATION
    yield f"<{GROUP}>"
    yield f"  <Id>{GROUP_ID}</Id>"
    for record in whole:
        if isinstance(record, JobRecord) and (text := _make_job(record, lost)):
            yield text
    yield f"</{GROUP}>"


def _write_as_it_was(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    line = ""
    for each in records:
        if isinstance(each, Passage):
            line += each.text
        elif each.source_text is not None and each.source_text.record == each:
            line += each.source_text.text
        else:
            lost("what a changed job says and its record does not")
            line += _make_job(each, lost).lstrip()
        *lines, line = line.split("\n")
        yield from lines
    if line:
        yield LastLine(line)


def _make_job(record: JobRecord, lost: Lost) -> str:
    """Return the lines of a job, nothing for one that has no place."""
    if record.step is not None:
        lost("step")
        return ""
    job_id = record.job_id
    if not _is_plain(job_id):
        try:
            job_id = escape(checked_id(job_id))
        except ParseError:
            lost("job without a usable id")
            return ""
    for name, _ in record.more:
        lost(name)
    lines = [f"  <Job>\n    <Id>{job_id}</Id>"]
    lines += _said(_OWN_VALUES(record), _OWN, lost)
    plain = JobState.FAILED if record.exit_status else JobState.COMPLETED
    if state_word(record.state) and record.state not in {plain, *_STATES_WITH_WORDS}:
        lines.append(f"    {_extension('state')}{record.state.value}</Extension>")
    if requested := _said(_REQUESTED_VALUES(record), _REQUESTED, lost):
        lines += ("    <Requested>", *requested, "    </Requested>")
    if delivered := _said(_DELIVERED_VALUES(record), _DELIVERED, lost):
        lines += ("    <Delivered>", *delivered, "    </Delivered>")
    lines.append("  </Job>")
    return "\n".join(lines)


def _said(values: Iterable[object], rows: tuple[_Row, ...], lost: Lost) -> list[str]:
    return [
        f"{before}{text}{behind}"
        for value, (field, before, behind, how) in zip(values, rows, strict=True)
        if value is not None and (text := how(field, value, lost)) is not None
    ]


def _is_plain(text: str) -> bool:
    return text.isalnum() and text.isascii() and len(text) <= _PLAIN_CHARACTERS


def _text(field: str, value: str, lost: Lost) -> str | None:
    if _is_plain(value):
        return value
    if not value:
        return None
    if value.strip(BLANKS) != value or len(value) > MAX_LONG_CHARACTERS or NOT_XML.search(value):
        lost(field)
        return None
    return escape(value, {"\r": "&#13;"})


def _whole(field: str, value: object, lost: Lost) -> int | None:
    """Return a value as a whole number in the format's range, None if it is none or does not fit."""
    if type(value) is int and 0 <= value <= MAX_NUMBER:
        return value
    if not isinstance(value, int | float):
        return None
    if not -MAX_NUMBER <= value <= MAX_NUMBER or (value < 0 and field not in _SIGNED):
        lost(field)
        return None
    whole = round(value)
    if whole != value:
        lost(f"{field}: fractions")
    return whole


def _starts(field: str, value: int, lost: Lost) -> int | None:
    restarts = _whole(field, value, lost)
    if restarts == MAX_NUMBER:
        lost(field)
        return None
    return None if restarts is None else restarts + 1


def _state(field: str, value: JobState, lost: Lost) -> str | None:
    del field, lost
    return state_word(value)


def _flag(field: str, value: bool, lost: Lost) -> str:
    del field, lost
    return str(value)


def _unlimited(field: str, value: object, lost: Lost) -> str | None:
    del field, lost
    return "unlimited" if value is UNLIMITED else None


def _nodes(field: str, nodes: tuple[str, ...], lost: Lost) -> str | None:
    if not nodes:
        return None
    is_list = all(name and "," not in name and name.strip(BLANKS) == name for name in nodes)
    if not is_list or len(set(nodes)) < len(nodes):
        lost(field)
        return None
    return _text(field, ",".join(nodes), lost)


def _row(field: str, tag: str, how: _How, attributes: str = "", indent: str = "    ") -> _Row:
    return field, f"{indent}<{tag}{attributes}>", f"</{tag}>", how


def _extension(name: str) -> str:
    return f'<Extension name="{name}" type="{extensions.TYPE}">'


def _extended(how: _How, *fields: str) -> list[_Row]:
    return [(field, f"    {_extension(field)}", "</Extension>", how) for field in fields]


_inner = partial(_row, indent="      ")
_OWN: Final[tuple[_Row, ...]] = (
    _row("name", "Name", _text),
    _row("account", "Project", _text),
    _row("user", "User", _text),
    _row("group", "Group", _text),
    _row("queue", "Queue", _text),
    _row("partition", "Partition", _text),
    _row("executable", "Executable", _text),
    _row("reservation", "Reservation", _text),
    _row("batch_system", "ResourceManagerType", _text),
    _row("qos", "QualityOfService", _text),
    _row("state", "State", _state),
    _row("is_interactive", "Interactive", _flag),
    _row("submit_secs", "SubmitTime", _whole),
    _row("eligible_secs", "EligibleTime", _whole),
    _row("start_secs", "StartTime", _whole),
    _row("end_secs", "EndTime", _whole),
    _row("suspended_secs", "SuspendDuration", _whole),
    _row("used_cpu_secs", "CpuDuration", _whole),
    _row("priority", "Priority", _whole),
    _row("exit_status", "ExitCode", _whole),
    _row("restarts", "StartCount", _starts),
    _row("preceding_job_id", "Dependency", _text, ' condition="OnExit"'),
    _row("cpu_limit_secs", "ResourceLimit", _whole, ' name="CPUTime"'),
    _row("wall_limit_secs", "ResourceLimit", _unlimited, ' name="Duration"'),
    _row("requested_memory_bytes", "ResourceLimit", _unlimited, ' name="MaxMemory"'),
    _row("cpu_limit_secs", "ResourceLimit", _unlimited, ' name="CPUTime"'),
    *_extended(_whole, "uid", "gid", "exit_signal", "het_offset", "think_secs"),
    *_extended(_whole, "run_secs", "user_cpu_secs", "system_cpu_secs", "energy_joules"),
    *_extended(_text, "array_job_id", "array_task_id", "het_job_id", "workflow_id", "cluster", "state_word"),
)
_REQUESTED: Final[tuple[_Row, ...]] = (
    _inner("requested_nodes", "NodeCount", _whole),
    _inner("requested_cpus", "Processors", _whole),
    _inner("requested_gpus", "Resource", _whole, ' name="GPU"'),
    _inner("requested_memory_bytes", "Memory", _whole, ' units="B"'),
    _inner("wall_limit_secs", "Duration", _whole),
)
_DELIVERED: Final[tuple[_Row, ...]] = (
    _inner("total_nodes", "NodeCount", _whole),
    _inner("nodes", "Node", _nodes, ' aggregation="List"'),
    _inner("total_cpus", "Processors", _whole),
    _inner("total_gpus", "Resource", _whole, ' name="GPU"'),
    _inner("used_memory_bytes", "Memory", _whole, ' metric="Max" units="B"'),
)
_OWN_VALUES, _REQUESTED_VALUES, _DELIVERED_VALUES = (
    attrgetter(*(row[0] for row in rows)) for rows in (_OWN, _REQUESTED, _DELIVERED)
)
_STATES_WITH_WORDS: Final = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})
