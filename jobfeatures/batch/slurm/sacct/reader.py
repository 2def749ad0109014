"""Rows → jobs and steps, many at a time and column by column: what is not needed is not converted."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from functools import partial
from itertools import compress, repeat
from typing import Any, Final, NamedTuple

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.fields import UNKNOWN, expand_kept
from jobfeatures.batch.slurm.gpus import parse_resources
from jobfeatures.batch.slurm.sacct.lines import Rows, parse_header
from jobfeatures.batch.slurm.sacct.values import (
    Identity,
    Kept,
    RequestedMemory,
    Times,
    parse_duration,
    parse_durations,
    parse_exit_code,
    parse_job_id,
    parse_memory,
    parse_nodes,
    parse_number,
    parse_numbers,
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
from jobfeatures.joblog import StepUse
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


_make_row, _make_step = partial(tuple.__new__, Row), partial(tuple.__new__, StepUse)
_TIMES: Final = frozenset({"submit_secs", "eligible_secs", "start_secs", "end_secs"})
_UNLIKE: Final = frozenset(
    {"elapsed_secs", "cpu_secs", "user_cpu_secs", "system_cpu_secs", "priority", "memory_bytes"}
)
_TOGETHER: Final = {parse_duration: parse_durations, parse_number: parse_numbers}
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
_NODES, _CLUSTER, _MEMORY = map(_CONVERTED.index, ("nodes", "cluster", "memory_bytes"))


class _Column(NamedTuple):
    """A column of the log: its name, its place, and what makes values of its texts."""

    name: str
    place: int
    convert: Callable[[Sequence[str]], Sequence[Any]]


class RowConverter:
    """Texts of columns → rows. What a text says is kept: logs repeat themselves."""

    def __init__(
        self, names: Sequence[str], zone: tzinfo | None = None, *, folds_steps: bool = False
    ) -> None:
        """`names` are those of the columns, `zone` is that of the clock that showed the times.

        `folds_steps`: steps come as `StepUse`, though all that they say is read for its faults.
        """
        self._folds_steps = folds_steps
        self._times = Times(zone)
        places = {name: place for place, name in reversed(list(enumerate(names)))}
        self._id = places.get("JobID")
        self._id_place = places["JobIDRaw" if "JobIDRaw" in places else "JobID"]
        self._id_name = names[self._id_place]
        made: dict[tuple[str, Any], _Column] = {}  # two fields may be of one column
        self._columns: list[_Column | None] = []
        for field in _CONVERTED[:-1]:
            found = next((each for each in _COLUMNS[field] if each[0] in places), None)
            if found is not None:
                made.setdefault(found, _Column(found[0], places[found[0]], self._converter(field, found[1])))
            self._columns.append(made[found] if found else None)
        self._more: list[tuple[str, _Column]] = []
        for field, name, convert in _MORE:
            if name in places:
                column = _Column(name, places[name], self._converter(field, convert))
                self._more.append((field, made.setdefault((name, convert), column)))
        self._made = tuple(made.values())

    def _converter(self, field: str, convert: Any) -> Any:
        if field in _TIMES:
            return self._times.column
        if field in _UNLIKE:
            return _TOGETHER.get(convert) or partial(_each, convert)
        return list if convert is None else Kept(convert).column

    def each(self, numbers: Sequence[int], columns: Sequence[Sequence[str]]) -> Iterator[Any]:
        """Yield each row of some columns, or what is wrong with it."""
        try:
            yield from self.convert(numbers, columns)
        except ParseError:  # one of them is bad: each for itself
            for place, number in enumerate(numbers):
                try:
                    yield from self.convert([number], [column[place : place + 1] for column in columns])
                except ParseError as error:
                    yield error.at(line=number)

    def convert(self, numbers: Sequence[int], columns: Sequence[Sequence[str]]) -> list[Any]:
        """Return the rows of some columns. Raises ParseError naming the column."""
        if not numbers:
            return []
        heads: Sequence[str] = columns[self._id_place]
        steps: Sequence[str | None] = [None] * len(heads)
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
        known = [numbers, heads, steps, self._identities(heads, columns)]
        if self._folds_steps and any(steps):
            with contextlib.suppress(ParseError):  # what is wrong is said of the row
                return self._folded(known, columns)
            if len(numbers) > 1:
                raise ParseError("one of them is bad")
        return self._rows(known, columns)

    def _folded(self, known: Sequence[Sequence[Any]], columns: Sequence[Sequence[str]]) -> list[Any]:
        """Return the rows of jobs, and what steps add to them. Raises ParseError where a step's row would."""
        _, heads, steps, _ = known
        clusters, memory = (
            [None] * len(heads) if each is None else each.convert(columns[each.place])
            for each in (self._columns[_CLUSTER], self._columns[_MEMORY])
        )
        for column in self._made:
            if column is not self._columns[_MEMORY]:  # whose texts are different
                said = column.convert(list({*compress(columns[column.place], steps)}))
                for nodes in filter(None, said if column is self._columns[_NODES] else ()):
                    expand_kept(nodes)
        used = zip(repeat(NAME), heads, clusters, steps, (each or None for each in memory), strict=False)
        others = map(_make_step, compress(used, steps))
        is_job = [not step for step in steps]
        known, columns, [most] = (
            [list(compress(column, is_job)) for column in each]
            for each in (known, columns, [_with_steps(heads, steps, memory)])
        )
        rows = iter(self._rows(known, columns, most))
        return [next(others if step else rows) for step in steps]

    def _rows(
        self,
        known: Sequence[Sequence[Any]],
        columns: Sequence[Sequence[str]],
        memory: Sequence[int | None] | None = None,
    ) -> list[Row]:
        """Return rows: numbers of lines, ids, steps and identities are known, and the most memory may be."""
        said: dict[_Column | None, Sequence[Any]] = {}
        for column in self._made:
            try:
                said[column] = column.convert(columns[column.place])
            except ParseError as error:
                raise error.at(field=column.name) from error
        values = [
            [_ABSENT.get(field)] * len(known[0]) if each is None else said[each]
            for field, each in zip(_CONVERTED[:-1], self._columns, strict=True)
        ]
        if memory is not None:
            values[_MEMORY] = memory
        names = [field for field, _ in self._more]
        more = [
            tuple(pair for pair in zip(names, each, strict=True) if pair[1] is not None)
            for each in zip(*(said[each] for _, each in self._more), strict=True)
        ]
        return list(map(_make_row, zip(*known, *values, more or repeat(()), strict=False)))

    def _identities(self, heads: Sequence[str], columns: Sequence[Sequence[str]]) -> list[Identity]:
        if self._id is None:
            return [_PLAIN] * len(heads)
        texts, together = columns[self._id], "".join(heads)
        is_plain = together.isdigit() and together.isascii() and max(map(len, heads)) <= 10
        if is_plain and texts == columns[self._id_place] and all(head[:1] > "0" for head in heads):
            return [_PLAIN] * len(heads)
        known = Kept(parse_job_id)  # a job's steps stand together
        return [_PLAIN if text.isdigit() else known[text.partition(".")[0]] for text in texts]


def _each(convert: Callable[[str], Any], texts: Sequence[str]) -> list[Any]:
    return list(map(convert, texts))


def _with_steps(
    heads: Sequence[str], steps: Sequence[str | None], memory_bytes: Sequence[int | None]
) -> list[int | None]:
    """Return memory with that of the steps behind a job for the job, where it is more."""
    found = list(memory_bytes)
    job = -1
    for place, (step, used) in enumerate(zip(steps, memory_bytes, strict=True)):
        if step is None:
            job = place
        elif job >= 0 and heads[place] != heads[job]:
            job = -1
        elif job >= 0 and used is not None:
            found[job] = max(used, found[job] or 0)
    return found


class SacctReader:
    """The jobs of a log, their steps behind them, and what was rejected. In constant memory."""

    def __init__(
        self,
        lines: Iterable[str],
        *,
        source: str = "sacct",
        zone: tzinfo | None = None,
        folds_steps: bool = False,
    ) -> None:
        """`zone` is that of the machine that sacct ran on, None: this machine's. Raises ParseError."""
        self._lines = iter(lines)
        self._source = source
        header = next((line for line in self._lines if line.strip()), "")
        self._delimiter, self.names = parse_header(header)
        self._converter = RowConverter(self.names, zone, folds_steps=folds_steps)
        self.not_taken: Counter[str] = Counter()  # texts by column
        self._passed_over = [
            (name, place) for place, name in enumerate(self.names) if name and name not in TAKEN
        ]

    def __iter__(self) -> Iterator[Row | StepUse | Rejected]:
        """Yield jobs and steps, and what could not be read."""
        source = Rows(self._lines, self._delimiter, self.names)
        last: list[Any] = []  # a job and its steps, of which more may come
        for numbers, texts in source.batches():
            for error in source.rejected:
                yield Rejected.from_error(error.at(self._source))
            source.rejected.clear()
            for name, place in self._passed_over if texts else ():
                self.not_taken[name] += sum(text not in UNKNOWN for text in texts[place])
            for place, row in enumerate(self._converter.each(numbers, texts)):
                if isinstance(row, ParseError):
                    if [column[place] for column in texts] != self.names:  # put together, with a header each
                        yield Rejected.from_error(row.at(self._source))
                elif row.step is None or not last or last[0].step or last[0].job_id != row.job_id:
                    yield from last
                    last = [row]
                else:
                    job, most = last[0], last[0].memory_bytes
                    used = row.memory_bytes if isinstance(row, Row) else row.used_memory_bytes
                    if used is not None and (most is None or used > most):
                        last[0] = job._replace(memory_bytes=used)
                    last.append(row)
        yield from last


_PLAIN: Final = Identity("")
