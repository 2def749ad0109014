"""Writes `JobRecord`s as one JobGroup, which `records` reads back as equal records. Pure.

A log that was read with its source text is written back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape  # text only, nothing is parsed

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss import extensions
from jobfeatures.formats.sss.extensions import state_word
from jobfeatures.formats.sss.stream import GROUP_ID
from jobfeatures.formats.sss.values import BLANKS, MAX_LONG_CHARACTERS, MAX_NUMBER, checked_id, checked_text
from jobfeatures.formats.sss.xml import DECLARATION, GROUP, NOT_XML
from jobfeatures.joblogs.loggedjob import JobRecord, LastLine, Lost, Notes, Passage, record_of, some_at_once
from jobfeatures.records.model import UNLIMITED, Job, JobState

_SIGNED: Final = frozenset({"priority", "exit_status", "exit_signal"})
_KEPT: Final = 4096  # cached texts per field
_PLAIN_CHARACTERS: Final = 100  # a text up to this long, of letters and digits only, needs no checks


class _Row(NamedTuple):
    """A field, the text before and after its value, and how the value is written."""

    field: str
    before: str
    behind: str
    how: Any  # a function (field, value, lost) → text, or a mapping from value to line


def write_records(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    """Yield the lines of a document, without newlines: a JobGroup that holds all jobs.

    Times and amounts are written as integers, texts without surrounding blanks. Steps are dropped, and so are
    jobs whose id has blanks or is too long; `lost` is called with what is dropped. Records read with their
    source text are written back unchanged, except jobs that could not be read; a job whose record was changed
    is written from its record.
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
    writer = _Writer(lost)
    jobs = (record for record in whole if isinstance(record, JobRecord))
    for some in some_at_once(jobs):
        yield from writer.make_jobs(some)
    yield f"</{GROUP}>"


def _write_as_it_was(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    line = ""
    writer = _Writer(lost)
    for each in records:
        if isinstance(each, Passage):
            line += each.text
        elif each.source_text is not None and each.source_text.record == each:
            line += each.source_text.text
        else:
            lost("what a changed job says and its record does not")
            line += "".join(writer.make_jobs([each])).lstrip()
        *lines, line = line.split("\n")
        yield from lines
    if line:
        yield LastLine(line)


class _Writer:
    """Jobs → their lines, in batches and field by field: a field that no job has is skipped at once."""

    def __init__(self, lost: Lost) -> None:
        self._lost = lost
        self._texts: dict[_Row, dict[str | None, str]] = {}

    def make_jobs(self, records: Iterable[JobRecord]) -> Iterator[str]:
        """Yield the lines of each job that the format can hold."""
        placed = [(record, job_id) for record in records if (job_id := self._id(record)) is not None]
        if not placed:
            return
        values = zip(*(_VALUES(record) for record, _ in placed), strict=True)
        columns = dict(zip(_FIELDS, values, strict=True))
        parts = self._stated(_OWN, columns)
        parts.append(list(map(_exact_state, columns["state"], columns["exit_status"])))
        for name, rows in (("Requested", _REQUESTED), ("Delivered", _DELIVERED)):
            if inner := self._stated(rows, columns):
                before, behind = f"\n    <{name}>", f"\n    </{name}>"
                texts = map("".join, zip(*inner, strict=True))
                parts.append([f"{before}{text}{behind}" if text else "" for text in texts])
        for (_, job_id), stated in zip(placed, map("".join, zip(*parts, strict=True)), strict=True):
            yield f"  <Job>\n    <Id>{job_id}</Id>{stated}\n  </Job>"

    def _id(self, record: JobRecord) -> str | None:
        """Return a job's id as written, None for a step or an unusable id."""
        if record.step is not None:
            self._lost("step")
            return None
        job_id = record.job_id
        if not _is_plain(job_id):
            try:
                job_id = escape(checked_id(job_id))
            except ParseError:
                self._lost("job without a usable id")
                return None
        for name, _ in record.more:
            self._lost(name)
        return job_id

    def _stated(self, rows: Iterable[_Row], columns: Mapping[str, Sequence[Any]]) -> list[list[str]]:
        """Return, for each field that any job has, the text of each job ("" if it lacks the field)."""
        found = []
        for row in rows:
            values = columns[row.field]
            if values[0] in (None, ()) and values.count(values[0]) == len(values):
                continue
            if row.how is _whole:
                before, behind = row.before, row.behind
                found.append(
                    [
                        f"{before}{value}{behind}"
                        if type(value) is int and 0 <= value <= MAX_NUMBER
                        else self._line(row, value)
                        for value in values
                    ]
                )
            elif row.how is _text:
                known = self._texts.setdefault(row, {None: ""})
                found.append(
                    [known[each] if each in known else self._keep(row, each, known) for each in values]
                )
            elif isinstance(row.how, dict):
                line_of = row.how.get
                found.append([line_of(each, "") for each in values])
            else:
                found.append([self._line(row, each) for each in values])
        return found

    def _line(self, row: _Row, value: Any) -> str:
        text = None if value is None else row.how(row.field, value, self._lost)
        return "" if text is None else f"{row.before}{text}{row.behind}"

    def _keep(self, row: _Row, text: str, known: dict[str | None, str]) -> str:
        """Return the line of a text, cached if short enough to be likely to recur."""
        line = self._line(row, text)
        if line and len(text) <= _PLAIN_CHARACTERS and len(known) < _KEPT:
            known[text] = line
        return line


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
    """Return a value rounded to an integer, None if it is not a number or out of the format's range."""
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


def _nodes(field: str, nodes: tuple[str, ...], lost: Lost) -> str | None:
    if not nodes:
        return None
    is_list = all(name and "," not in name and name.strip(BLANKS) == name for name in nodes)
    if not is_list or len(set(nodes)) < len(nodes):
        lost(field)
        return None
    return _text(field, ",".join(nodes), lost)


@lru_cache(maxsize=1024)
def _exact_state(state: JobState, exit_status: int | None) -> str:
    """Return the Extension for a state that State and ExitCode do not fully express, else ""."""
    plain = JobState.FAILED if exit_status else JobState.COMPLETED
    if not state_word(state) or state in {plain, *_STATES_WITH_WORDS}:
        return ""
    return f"\n    {_extension('state')}{state.value}</Extension>"


def _row(field: str, tag: str, how: Any, attributes: str = "", indent: str = "    ") -> _Row:
    before, behind = f"\n{indent}<{tag}{attributes}>", f"</{tag}>"
    if isinstance(how, dict):
        how = {value: f"{before}{word}{behind}" for value, word in how.items()}
    return _Row(field, before, behind, how)


def _extension(name: str) -> str:
    return f'<Extension name="{name}" type="{extensions.TYPE}">'


def _extended(field: str, how: Any) -> _Row:
    return _Row(field, f"\n    {_extension(field)}", "</Extension>", how)


_STATES: Final = {state: word for state in JobState if (word := state_word(state))}
_FLAGS: Final = {True: "True", False: "False"}
_UNLIMITED: Final = {UNLIMITED: "unlimited"}
_inner = partial(_row, indent="      ")
_OWN: Final[tuple[_Row, ...]] = (
    *(_row(field, tag, _text) for field, tag in extensions.TEXT_ELEMENTS.items()),
    _row("state", "State", _STATES),
    _row("is_interactive", "Interactive", _FLAGS),
    *(_row(field, tag, _whole) for field, tag in extensions.NUMBER_ELEMENTS.items()),
    _row("restarts", "StartCount", _starts),
    _row("preceding_job_id", "Dependency", _text, ' condition="OnExit"'),
    _row("cpu_limit_secs", "ResourceLimit", _whole, ' name="CPUTime"'),
    _row("wall_limit_secs", "ResourceLimit", _UNLIMITED, ' name="Duration"'),
    _row("requested_memory_bytes", "ResourceLimit", _UNLIMITED, ' name="MaxMemory"'),
    _row("cpu_limit_secs", "ResourceLimit", _UNLIMITED, ' name="CPUTime"'),
    *(_extended(field, _whole) for field in extensions.NUMBERS),
    *(_extended(field, _text) for field in extensions.TEXTS),
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
_FIELDS: Final = tuple(dict.fromkeys(row.field for row in (*_OWN, *_REQUESTED, *_DELIVERED)))
_VALUES: Final = attrgetter(*_FIELDS)
_STATES_WITH_WORDS: Final = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})


def format_job(job: Job) -> str:
    """Format a job as a document for a spool folder, with the fields of a log record and its processes.

    Raises ParseError, naming the field, for a text that readers reject or a value that the format cannot
    hold.
    """
    notes = Notes()
    texts = {name: getattr(job, name) for name in ("name", "user", "account", "partition")}
    record = record_of(
        job,
        **{name: checked_text(text.strip(), name) for name, text in texts.items() if text is not None},
        total_cpus=job.total_cpus,
        cpu_limit_secs=job.limits.cpu_secs,
        requested_memory_bytes=job.limits.memory_bytes,
    )
    lines = [f"{line}\n" for line in write_records([record], notes.count_lost)]
    for name in notes.lost:
        raise ParseError("this value cannot be written in the SSS format", field=name)
    tasks = [f"<Task><Process>{each}</Process></Task>" for each in sorted(job.processes)]
    processes = f"    <TaskGroup>{''.join(tasks)}</TaskGroup>\n" if tasks else ""
    return "".join(lines).replace("  </Job>\n", f"{processes}  </Job>\n")
