"""Rows → jobs and steps, many at a time and column by column: what is not needed is not converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sacct.lines import Rows, parse_header
from jobfeatures.formats.sacct.values import (
    Identity,
    Kept,
    RequestedMemory,
    Times,
    parse_duration,
    parse_exit_code,
    parse_job_id,
    parse_memory,
    parse_nodes,
    parse_number,
    parse_positive,
    parse_raw_time_limit,
    parse_requested_memory,
    parse_resources,
    parse_size,
    parse_state,
    parse_text,
    parse_time_limit,
)
from jobfeatures.model import JobState, Limit


class Row(NamedTuple):
    """One job or step as sacct tells it; None where it tells nothing, or has no such column."""

    number: int  # of the line
    job_id: str
    step: str | None
    identity: Identity
    state: JobState
    name: str | None
    user: str | None
    uid: int | None
    group: str | None
    gid: int | None
    account: str | None
    partition: str | None
    reservation: str | None
    priority: int | None
    submit_secs: int | None
    eligible_secs: int | None
    start_secs: int | None
    end_secs: int | None
    elapsed_secs: float | None
    suspended_secs: float | None
    restarts: int | None
    exit: tuple[int | None, int | None]
    nodes: str | None  # compressed
    allocated_nodes: int | None
    requested_nodes: int | None
    allocated_cpus: int | None
    requested_cpus: int | None
    allocated: dict[str, int]
    requested: dict[str, int]
    requested_memory: RequestedMemory | None
    wall_limit_secs: Limit
    cpu_secs: float | None
    user_cpu_secs: float | None
    system_cpu_secs: float | None
    memory_bytes: int | None  # of a job: the most of its steps


_TIMES: Final = frozenset({"submit_secs", "eligible_secs", "start_secs", "end_secs"})
_UNLIKE: Final = frozenset({"elapsed_secs", "cpu_secs", "user_cpu_secs", "system_cpu_secs", "priority"})
_ABSENT: Final[dict[str, Any]] = {
    "state": JobState.UNKNOWN,
    "exit": (None, None),
    "allocated": {},
    "requested": {},
}
# By field: the columns that tell it, the first that is there counts.
_COLUMNS: Final[dict[str, tuple[tuple[str, Callable[[str], Any] | None], ...]]] = {
    "state": (("State", parse_state),),
    "name": (("JobName", None),),
    "user": (("User", parse_text),),
    "uid": (("UID", parse_number),),
    "group": (("Group", parse_text),),
    "gid": (("GID", parse_number),),
    "account": (("Account", parse_text),),
    "partition": (("Partition", parse_text),),
    "reservation": (("Reservation", parse_text),),
    "priority": (("Priority", parse_number),),
    "submit_secs": (("Submit", None),),
    "eligible_secs": (("Eligible", None),),
    "start_secs": (("Start", None),),
    "end_secs": (("End", None),),
    "elapsed_secs": (("ElapsedRaw", parse_number), ("Elapsed", parse_duration)),
    "suspended_secs": (("Suspended", parse_duration),),
    "restarts": (("Restarts", parse_number),),
    "exit": (("ExitCode", parse_exit_code),),
    "nodes": (("NodeList", parse_nodes),),
    "allocated_nodes": (("AllocNodes", parse_number), ("NNodes", parse_number)),
    "requested_nodes": (("ReqNodes", parse_positive),),
    "allocated_cpus": (("AllocCPUS", parse_number), ("NCPUS", parse_number)),
    "requested_cpus": (("ReqCPUS", parse_positive),),
    "allocated": (("AllocTRES", parse_resources),),
    "requested": (("ReqTRES", parse_resources),),
    "requested_memory": (("ReqMem", parse_requested_memory),),
    "wall_limit_secs": (("TimelimitRaw", parse_raw_time_limit), ("Timelimit", parse_time_limit)),
    "cpu_secs": (("TotalCPU", parse_duration),),
    "user_cpu_secs": (("UserCPU", parse_duration),),
    "system_cpu_secs": (("SystemCPU", parse_duration),),
    "memory_bytes": (("TRESUsageInTot", parse_memory), ("MaxRSS", parse_size)),
}
_CONVERTED: Final = Row._fields[4:]


class _Column(NamedTuple):
    """A column of the log: its name, its place, and what makes a value of a text; None: nothing."""

    name: str
    place: int
    convert: Callable[[str], Any] | None


class SacctReader:
    """The jobs of a log, steps folded into them or behind them, and what was rejected. In constant memory."""

    def __init__(
        self,
        lines: Iterable[str],
        *,
        source: str = "sacct",
        strict: bool = False,
        zone: tzinfo | None = None,
        with_steps: bool = False,
    ) -> None:
        """`zone` is that of the machine that sacct ran on, None: this machine's. Raises ParseError."""
        self._lines = iter(lines)
        self._source = source
        self._strict = strict
        self._with_steps = with_steps
        self._times = Times(zone)
        header = next((line for line in self._lines if line.strip()), "")
        self._delimiter, self._names = parse_header(header)
        places = {name: place for place, name in reversed(list(enumerate(self._names)))}
        self._id = places.get("JobID")
        self._id_place = places["JobIDRaw" if "JobIDRaw" in places else "JobID"]
        self._columns: list[_Column | None] = []
        for field in _CONVERTED:
            found = next(
                ((name, convert) for name, convert in _COLUMNS[field] if name in places),
                None,
            )
            if found is None:
                self._columns.append(None)
                continue
            name, convert = found
            if convert is not None and field not in _UNLIKE:
                convert = Kept(convert).__getitem__
            self._columns.append(_Column(name, places[name], convert))
        self._memory = self._columns[_CONVERTED.index("memory_bytes")]

    def __iter__(self) -> Iterator[Row | Rejected]:
        """Yield jobs, steps where they are wanted, and what could not be read; strict: raise it."""
        source = Rows(self._lines, self._delimiter, self._names)
        last: list[Row] = []  # a job and its steps, of which more may come
        for numbers, texts in source.batches():
            for error in source.rejected:
                yield self._reject(error)
            source.rejected.clear()
            try:
                found: Iterable[Row | Rejected] = self._convert(numbers, texts)
            except ParseError:  # one of them is bad: each for itself
                found = chain.from_iterable(
                    self._convert_one(*each) for each in zip(numbers, zip(*texts, strict=True), strict=True)
                )
            for row in found:
                if isinstance(row, Rejected):
                    yield row
                elif row.step is None or not last or last[0].step or last[0].job_id != row.job_id:
                    yield from last
                    last = [row]
                else:
                    job, most = last[0], last[0].memory_bytes
                    if row.memory_bytes is not None and (most is None or row.memory_bytes > most):
                        last[0] = job._replace(memory_bytes=row.memory_bytes)
                    if self._with_steps:
                        last.append(row)
        yield from last

    def _reject(self, error: ParseError) -> Rejected:
        if self._strict:
            raise ParseError(
                error.reason, source=self._source, line=error.line, field=error.field, text=error.text
            )
        return Rejected(self._source, error.reason, error.line, error.field, error.text)

    def _convert_one(self, number: int, texts: Sequence[str]) -> list[Row | Rejected]:
        if list(texts) == self._names:  # logs that were put together have a header each
            return []
        try:
            return list(self._convert([number], [(text,) for text in texts]))
        except ParseError as error:
            return [self._reject(ParseError(error.reason, line=number, field=error.field, text=error.text))]

    def _convert(self, numbers: Sequence[int], columns: Sequence[Sequence[str]]) -> list[Row]:
        """Return the rows of a batch; where steps are not wanted, jobs have the most memory of theirs."""
        if not numbers:
            return []
        ids = columns[self._id_place]
        memory = (
            [None] * len(ids) if self._memory is None else self._column("memory_bytes", self._memory, columns)
        )
        if not self._with_steps and "." in "".join(ids):
            places, memory = _fold(ids, memory)
            numbers = [numbers[place] for place in places]
            if len(places) > 1:
                columns = list(map(itemgetter(*places), columns))
            else:
                columns = [[column[place] for place in places] for column in columns]
        return self._rows(numbers, columns, memory)

    def _rows(
        self, numbers: Sequence[int], columns: Sequence[Sequence[str]], memory: Sequence[int | None]
    ) -> list[Row]:
        """Return the rows of some columns. Raises ParseError naming the column."""
        heads: Sequence[str] = columns[self._id_place]
        steps: Iterable[str | None] = repeat(None)
        if "." in "".join(heads):
            split = [text.partition(".") for text in heads]
            heads, steps = [head for head, _, _ in split], [step or None for _, _, step in split]
        together = "".join(heads)
        if not (together.isdigit() and together.isascii() and all(heads)):
            for head in heads:
                parse_job_id(head)
        values: list[Iterable[Any]] = [numbers, heads, steps, self._identities(columns)]
        for field, column in zip(_CONVERTED, self._columns, strict=True):
            if column is None:
                values.append(repeat(_ABSENT.get(field)))
            else:
                values.append(memory if column is self._memory else self._column(field, column, columns))
        return list(map(Row._make, zip(*values, strict=False)))  # some repeat without end

    def _identities(self, columns: Sequence[Sequence[str]]) -> list[Identity]:
        if self._id is None:
            return [_PLAIN] * len(columns[0])
        texts = columns[self._id]
        return [_PLAIN if text.isdigit() else parse_job_id(text.partition(".")[0]) for text in texts]

    def _column(self, field: str, column: _Column, columns: Sequence[Sequence[str]]) -> Sequence[Any]:
        texts = columns[column.place]
        try:
            if field in _TIMES:
                return self._times.column(texts)
            return texts if column.convert is None else list(map(column.convert, texts))
        except ParseError as error:
            raise ParseError(error.reason, field=column.name, text=error.text) from error


def _fold(ids: Sequence[str], memory: Sequence[int | None]) -> tuple[list[int], list[int | None]]:
    """Return the places of jobs, and of steps whose job is not before them, and the most memory of each."""
    places: list[int] = []
    most: list[int | None] = []
    own = ""  # what the steps of the job before begin with
    for place, (text, used) in enumerate(zip(ids, memory, strict=True)):
        if own and text.startswith(own):
            if used is not None and (most[-1] is None or used > most[-1]):
                most[-1] = used
            continue
        own = "" if "." in text else f"{text}."
        places.append(place)
        most.append(used)
    return places, most


_PLAIN: Final = Identity("")
