"""Rows → jobs and steps, many at a time and column by column: what is not needed is not converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import repeat
from typing import Any, Final, NamedTuple

from jobfeatures.batch.slurm.fields import UNKNOWN
from jobfeatures.batch.slurm.gpus import parse_resources
from jobfeatures.batch.slurm.sacct.lines import Rows, parse_header
from jobfeatures.batch.slurm.sacct.values import (
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
    parse_size,
    parse_state,
    parse_state_word,
    parse_text,
    parse_time_limit,
)
from jobfeatures.errors import ParseError, Rejected
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
    cluster: str | None
    qos: str | None
    energy_joules: int | None
    state_word: str | None
    more: tuple[tuple[str, str | float], ...]


_TIMES: Final = frozenset({"submit_secs", "eligible_secs", "start_secs", "end_secs"})
_UNLIKE: Final = frozenset({"elapsed_secs", "cpu_secs", "user_cpu_secs", "system_cpu_secs", "priority"})
_ABSENT: Final[dict[str, Any]] = {
    "state": JobState.UNKNOWN,
    "exit": (None, None),
    "allocated": {},
    "requested": {},
    "more": (),
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
    "cluster": (("Cluster", parse_text),),
    "qos": (("QOS", parse_text),),
    "energy_joules": (("ConsumedEnergyRaw", parse_positive), ("ConsumedEnergy", parse_positive)),
    "state_word": (("State", parse_state_word),),
    "more": (),  # of several columns
}
# What few other kinds of logs have, as `jobfeatures.joblog.MORE` names it.
_MORE: Final[tuple[tuple[str, str, Callable[[str], Any]], ...]] = (
    ("distribution", "Layout", parse_text),
    ("requested_resources", "ReqTRES", parse_text),
    ("allocated_resources", "AllocTRES", parse_text),
    ("min_cpu_secs", "MinCPU", parse_duration),
    ("average_cpu_secs", "AveCPU", parse_duration),
    ("average_read_bytes", "AveDiskRead", parse_size),
    ("average_written_bytes", "AveDiskWrite", parse_size),
    ("average_resident_bytes", "AveRSS", parse_size),
    ("average_virtual_bytes", "AveVMSize", parse_size),
    ("max_resident_bytes", "MaxRSS", parse_size),
    ("max_virtual_bytes", "MaxVMSize", parse_size),
)
TAKEN: Final = frozenset(
    {"JobID", "JobIDRaw", *(name for reported in _COLUMNS.values() for name, _ in reported)}
    | {name for _, name, _ in _MORE}
)
_CONVERTED: Final = Row._fields[4:]


class _Column(NamedTuple):
    """A column of the log: its name, its place, and what makes a value of a text; None: nothing."""

    name: str
    place: int
    convert: Callable[[str], Any] | None


class RowConverter:
    """Texts of columns → rows. What a text says is kept: logs repeat themselves."""

    def __init__(self, names: Sequence[str], zone: tzinfo | None = None) -> None:
        """`names` are those of the columns, `zone` is that of the clock that showed the times."""
        self._times = Times(zone)
        places = {name: place for place, name in reversed(list(enumerate(names)))}
        self._id = places.get("JobID")
        self._id_place = places["JobIDRaw" if "JobIDRaw" in places else "JobID"]
        self._id_name = names[self._id_place]
        self._columns: list[_Column | None] = []
        for field in _CONVERTED:
            found = next(((name, convert) for name, convert in _COLUMNS[field] if name in places), None)
            if found is None:
                self._columns.append(None)
                continue
            name, convert = found
            if convert is not None and field not in _UNLIKE:
                convert = Kept(convert).__getitem__
            self._columns.append(_Column(name, places[name], convert))
        self._more = [
            (field, _Column(name, places[name], Kept(convert).__getitem__))
            for field, name, convert in _MORE
            if name in places
        ]

    def each(self, numbers: Sequence[int], columns: Sequence[Sequence[str]]) -> Iterator[Row | ParseError]:
        """Yield each row of some columns, or what is wrong with it."""
        try:
            yield from self.convert(numbers, columns)
        except ParseError:  # one of them is bad: each for itself
            for place, number in enumerate(numbers):
                try:
                    yield from self.convert([number], [column[place : place + 1] for column in columns])
                except ParseError as error:
                    yield error.at(line=number)

    def convert(self, numbers: Sequence[int], columns: Sequence[Sequence[str]]) -> list[Row]:
        """Return the rows of some columns. Raises ParseError naming the column."""
        if not numbers:
            return []
        heads: Sequence[str] = columns[self._id_place]
        steps: Iterable[str | None] = repeat(None)
        if "." in "".join(heads):
            split = [text.partition(".") for text in heads]
            heads, steps = [head for head, _, _ in split], [step or None for _, _, step in split]
        together = "".join(heads)
        if not (together.isdigit() and together.isascii() and all(heads)):
            for head in heads:
                try:
                    parse_job_id(head)
                except ParseError as error:
                    raise error.at(field=self._id_name) from error
        values: list[Iterable[Any]] = [numbers, heads, steps, self._identities(columns)]
        for field, column in zip(_CONVERTED[:-1], self._columns, strict=False):
            absent = repeat(_ABSENT.get(field))
            values.append(absent if column is None else self._column(field, column, columns))
        values.append(self._pairs(columns) if self._more else repeat(()))
        return list(map(Row._make, zip(*values, strict=False)))  # some repeat without end

    def _pairs(self, columns: Sequence[Sequence[str]]) -> Iterator[tuple[tuple[str, Any], ...]]:
        names = [field for field, _ in self._more]
        reported = [self._column(field, column, columns) for field, column in self._more]
        for values in zip(*reported, strict=True):
            yield tuple((name, value) for name, value in zip(names, values, strict=True) if value is not None)

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
            raise error.at(field=column.name) from error


class SacctReader:
    """The jobs of a log, their steps behind them, and what was rejected. In constant memory."""

    def __init__(self, lines: Iterable[str], *, source: str = "sacct", zone: tzinfo | None = None) -> None:
        """`zone` is that of the machine that sacct ran on, None: this machine's. Raises ParseError."""
        self._lines = iter(lines)
        self._source = source
        header = next((line for line in self._lines if line.strip()), "")
        self._delimiter, self.names = parse_header(header)
        self._converter = RowConverter(self.names, zone)
        self.not_taken: Counter[str] = Counter()  # texts by column
        self._passed_over = [
            (name, place) for place, name in enumerate(self.names) if name and name not in TAKEN
        ]

    def __iter__(self) -> Iterator[Row | Rejected]:
        """Yield jobs and steps, and what could not be read."""
        source = Rows(self._lines, self._delimiter, self.names)
        last: list[Row] = []  # a job and its steps, of which more may come
        for numbers, texts in source.batches():
            for error in source.rejected:
                yield Rejected.from_error(error.at(self._source))
            source.rejected.clear()
            for name, place in self._passed_over if texts else ():
                self.not_taken[name] += sum(text not in UNKNOWN for text in texts[place])
            for row in self._rows(numbers, texts):
                if isinstance(row, Rejected):
                    yield row
                elif row.step is None or not last or last[0].step or last[0].job_id != row.job_id:
                    yield from last
                    last = [row]
                else:
                    job, most = last[0], last[0].memory_bytes
                    if row.memory_bytes is not None and (most is None or row.memory_bytes > most):
                        last[0] = job._replace(memory_bytes=row.memory_bytes)
                    last.append(row)
        yield from last

    def _rows(self, numbers: Sequence[int], texts: Sequence[Sequence[str]]) -> Iterator[Row | Rejected]:
        for place, found in enumerate(self._converter.each(numbers, texts)):
            if not isinstance(found, ParseError):
                yield found
            elif [column[place] for column in texts] != self.names:  # put together, with a header each
                yield Rejected.from_error(found.at(self._source))


_PLAIN: Final = Identity("")
