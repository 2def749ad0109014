"""Rows → records of jobs and steps, many at a time and column by column; unused columns are not converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from itertools import chain, compress, repeat
from operator import and_
from typing import Any, Final

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.fields import UNKNOWN
from jobfeatures.batch.slurm.gpus import parse_resources, parse_tres_gpus
from jobfeatures.batch.slurm.sacct.derived import DERIVED, TOLD, derive
from jobfeatures.batch.slurm.sacct.lines import Rows
from jobfeatures.batch.slurm.sacct.values import (
    Identity,
    Kept,
    Times,
    parse_duration,
    parse_durations,
    parse_energy,
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
    parse_sizes,
    parse_state,
    parse_state_word,
    parse_text,
    parse_time_limit,
)
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.folding import STEP
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, StepUse
from jobfeatures.records.model import JobState
from jobfeatures.records.quickrecord import made_of_columns

_make_step = partial(tuple.__new__, StepUse)
_TIMES: Final = frozenset({"submit_secs", "eligible_secs", "start_secs", "end_secs"})
# Fields that are not cached here: texts that rarely repeat, and node lists, which have a cache of their own.
_UNLIKE: Final = frozenset(
    {
        *("run_secs", "used_cpu_secs", "user_cpu_secs", "system_cpu_secs", "priority", "used_memory_bytes"),
        "nodes",
    }
)
_TOGETHER: Final[dict[Any, Callable[[Sequence[str]], Sequence[Any]]]] = {
    parse_duration: parse_durations,
    parse_number: parse_numbers,
    parse_size: parse_sizes,
}
_FAULTLESS: Final = frozenset({parse_text, parse_state_word})
_ABSENT: Final[dict[str, Any]] = {
    "state": JobState.UNKNOWN,
    "exit": (None, None),
    "allocated": {},
    "requested": {},
}
# The columns of each field; the first that the log has counts.
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
    "run_secs": (("ElapsedRaw", parse_number), ("Elapsed", parse_duration)),
    "suspended_secs": (("Suspended", parse_duration),),
    "restarts": (("Restarts", parse_number),),
    "exit": (("ExitCode", parse_exit_code),),
    "total_nodes": (("AllocNodes", parse_number), ("NNodes", parse_number)),
    "requested_nodes": (("ReqNodes", parse_positive),),
    "total_cpus": (("AllocCPUS", parse_number), ("NCPUS", parse_number)),
    "requested_cpus": (("ReqCPUS", parse_positive),),
    "allocated": (("AllocTRES", parse_resources),),
    "requested": (("ReqTRES", parse_resources),),
    "total_gpus": (("AllocTRES", parse_tres_gpus),),
    "requested_gpus": (("ReqTRES", parse_tres_gpus),),
    "requested_memory_bytes": (("ReqMem", parse_requested_memory),),
    "wall_limit_secs": (("TimelimitRaw", parse_raw_time_limit), ("Timelimit", parse_time_limit)),
    "used_cpu_secs": (("TotalCPU", parse_duration),),
    "user_cpu_secs": (("UserCPU", parse_duration),),
    "system_cpu_secs": (("SystemCPU", parse_duration),),
    "used_memory_bytes": (("TRESUsageInTot", parse_memory), ("MaxRSS", parse_size)),
    "cluster": (("Cluster", parse_text),),
    "qos": (("QOS", parse_text),),
    "energy_joules": (("ConsumedEnergyRaw", parse_energy), ("ConsumedEnergy", parse_energy)),
    "state_word": (("State", parse_state_word),),
    "nodes": (("NodeList", parse_nodes),),
}
# Values that few kinds of logs have, by their names in `jobfeatures.joblogs.loggedjob.MORE`.
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
_NEEDED: Final = frozenset(
    {
        *("JobID", "JobIDRaw", "State", "Submit", "Eligible", "Start", "End", "NodeList"),
        *("AllocCPUS", "NCPUS", "AllocTRES"),
    }
)
TAKEN: Final = frozenset(
    {"JobID", "JobIDRaw", *(name for reported in _COLUMNS.values() for name, _ in reported)}
    | {name for _, name, _ in _MORE}
)
_PLAIN: Final = Identity("")


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """A column of the log: its name, its position, and the conversion of its texts to values."""

    name: str
    place: int
    convert: Callable[[Sequence[str]], Sequence[Any]]
    reads: Any  # equal for columns with the same conversion, None if any text is valid


class RecordConverter:
    """Converts the texts of columns to records, with caches: logs repeat the same texts."""

    def __init__(
        self,
        names: Sequence[str],
        zone: tzinfo | None = None,
        *,
        notes: Notes,
        adds_memory: bool = False,
        folds_steps: bool = False,
    ) -> None:
        """`names` are the columns' names, `zone` is the time zone of their times.

        `adds_memory` gives a job the most memory of the steps after it. `folds_steps` does so too, and counts
        these steps in `notes` instead of returning them; others become `StepUse`. All texts are checked.
        """
        self._notes = notes
        self._adds_memory, self._folds_steps = adds_memory, folds_steps
        self._times = Times(zone)
        places = {name: place for place, name in reversed(list(enumerate(names)))}
        self._optional = {name: place for name, place in places.items() if name not in _NEEDED}
        self._id = places.get("JobID")
        self._id_place = places["JobIDRaw" if "JobIDRaw" in places else "JobID"]
        self._id_name = names[self._id_place]
        made: dict[tuple[str, Any], _Column] = {}  # two fields may share one column
        self._columns: dict[str, _Column] = {}
        for field, candidates in _COLUMNS.items():
            found = next((each for each in candidates if each[0] in places), None)
            if found is not None:
                column = self._column(field, *found, places[found[0]])
                self._columns[field] = made.setdefault(found, column)
        self._more: list[tuple[str, _Column]] = []
        for field, name, convert in _MORE:
            if name in places:
                column = self._column(field, name, convert, places[name])
                self._more.append((field, made.setdefault((name, convert), column)))
        self._made = tuple(made.values())
        self._fallible: dict[Any, list[_Column]] = {}
        for column in self._made:
            if column.reads is not None and column is not self._columns.get("used_memory_bytes"):
                self._fallible.setdefault(column.reads, []).append(column)

    def _column(self, field: str, name: str, convert: Callable[[str], Any] | None, place: int) -> _Column:
        if field in _TIMES:
            return _Column(name, place, self._times.column, self._times)
        if convert is None:
            return _Column(name, place, list, None)
        many: Callable[[Sequence[str]], Sequence[Any]] = Kept(convert).column
        if field in _UNLIKE:
            many = _TOGETHER.get(convert) or (lambda texts: list(map(convert, texts)))
        return _Column(name, place, many, None if convert in _FAULTLESS else convert)

    def each(
        self, numbers: Sequence[int], columns: Sequence[Sequence[str]]
    ) -> Iterator[JobRecord | StepUse | ParseError]:
        """Yield for each row its record, or the error that it has.

        Where a job can do without a column, what cannot be read there is unknown, and counted in `notes`.
        """
        try:
            yield from self.convert(columns)
        except ParseError:  # at least one row is malformed: convert them one by one
            for place, number in enumerate(numbers):
                yield from self._alone([column[place : place + 1] for column in columns], number)

    def _alone(self, row: list[Sequence[str]], number: int) -> Iterator[JobRecord | StepUse | ParseError]:
        unread: list[tuple[str, str]] = []
        while True:
            try:
                found = self.convert(row)
            except ParseError as error:
                place = self._optional.get(error.field or "")
                if place is None or not row[place][0]:
                    yield error.at(line=number)
                    return
                unread.append((error.field, row[place][0]))
                row[place] = [""]
            else:
                for name, text in unread:
                    self._notes.miss(name, text)
                yield from found
                return

    def convert(self, columns: Sequence[Sequence[str]]) -> Sequence[JobRecord | StepUse]:
        """Return the records of all rows. Raises ParseError naming the column."""
        if not columns:
            return []
        heads: Sequence[str] = columns[self._id_place]
        steps: Sequence[str | None] = [None] * len(heads)
        if "." in "".join(heads):
            heads, _, texts = zip(*map(str.partition, heads, repeat(".")), strict=True)
            steps = [text or None for text in texts]
        together = "".join(heads)
        if not (together.isdigit() and together.isascii() and all(heads)):
            for head in heads:
                try:
                    parse_job_id(head)
                except ParseError as error:
                    raise error.at(field=self._id_name) from error
        known = [heads, steps, self._identities(heads, columns)]
        if not self._folds_steps or not any(steps):
            return self._records(known, columns)
        if len(heads) > 1:
            return self._folded(known, columns)
        [step] = self._records(known, columns)
        return [StepUse(NAME, step.job_id, step.cluster, str(step.step), step.used_memory_bytes)]

    def _folded(
        self, known: Sequence[Sequence[Any]], columns: Sequence[Sequence[str]]
    ) -> list[JobRecord | StepUse]:
        """Return jobs' records, and `StepUse` of steps whose job is not among the rows. Raises ParseError."""
        heads, steps, _ = known
        clusters, used = (
            [None] * len(heads) if column is None else column.convert(columns[column.place])
            for column in map(self._columns.get, ("cluster", "used_memory_bytes"))
        )
        most, is_shown = _with_steps(heads, steps, clusters, used)
        is_job = [step is None for step in steps]
        jobs = [list(compress(column, is_job)) for column in columns]
        for alike in self._fallible.values():
            texts = {*chain.from_iterable(compress(columns[each.place], steps) for each in alike)}
            alike[0].convert(list(texts.difference(*(jobs[each.place] for each in alike))))
        known = [list(compress(each, is_job)) for each in known]
        records = iter(self._records(known, jobs, list(compress(most, is_job))))
        uses = zip(repeat(NAME), heads, clusters, steps, (each or None for each in used), strict=False)
        others = map(_make_step, compress(uses, map(and_, is_shown, map(bool, steps))))
        if count := is_shown.count(False):
            self._notes.read += count
            self._notes.folded[STEP] += count
        found: dict[bool, Iterator[JobRecord | StepUse]] = {True: records, False: others}
        return [next(found[step is None]) for step in compress(steps, is_shown)]

    def _records(
        self,
        known: Sequence[Sequence[Any]],
        columns: Sequence[Sequence[str]],
        memory: Sequence[int | None] | None = None,
    ) -> list[JobRecord]:
        """Return records of known ids, steps and identities, with the most memory if given. May raise."""
        heads, steps, identities = known
        if not heads:
            return []
        converted: dict[_Column, Sequence[Any]] = {}
        for column in self._made:
            try:
                converted[column] = column.convert(columns[column.place])
            except ParseError as error:
                raise error.at(field=error.field if column.reads is parse_nodes else column.name) from error
        values: dict[str, Iterable[Any]] = {
            field: converted[column] for field, column in self._columns.items()
        }
        if memory is None:
            memory = list(values.get("used_memory_bytes", ()))
            if memory and self._adds_memory:
                memory, _ = _with_steps(heads, steps, heads, memory)
        arguments = (values.get(name) or repeat(_ABSENT.get(name), len(heads)) for name in TOLD)
        values.update(zip(DERIVED, zip(*map(derive, *arguments), strict=True), strict=True))
        names = [field for field, _ in self._more]
        values |= {
            "batch_system": repeat(NAME),
            "job_id": heads,
            "step": steps,
            "used_memory_bytes": [each or None for each in memory],
            "more": [
                tuple(pair for pair in zip(names, each, strict=True) if pair[1] is not None)
                for each in zip(*(converted[each] for _, each in self._more), strict=True)
            ],
        }
        if identities.count(_PLAIN) < len(identities):
            values.update(zip(Identity._fields[1:], list(zip(*identities, strict=True))[1:], strict=True))
        return made_of_columns(JobRecord, len(heads), values)

    def _identities(self, heads: Sequence[str], columns: Sequence[Sequence[str]]) -> list[Identity]:
        if self._id is None:
            return [_PLAIN] * len(heads)
        texts, together = columns[self._id], "".join(heads)
        is_plain = together.isdigit() and together.isascii() and max(map(len, heads)) <= 10
        if is_plain and texts == columns[self._id_place] and min(heads)[:1] > "0":
            return [_PLAIN] * len(heads)
        known = Kept(parse_job_id)  # a job's steps follow one another
        return [_PLAIN if text.isdigit() else known[text.partition(".")[0]] for text in texts]


def _with_steps(
    heads: Sequence[str],
    steps: Sequence[str | None],
    clusters: Sequence[str | None],
    memory_bytes: Sequence[int | None],
) -> tuple[list[int | None], list[bool]]:
    """Return the rows' memory, with a job's steps counted for it, and which rows are no such steps."""
    most = list(memory_bytes)
    is_shown = [True] * len(most)
    job = -1
    for place, (step, used) in enumerate(zip(steps, memory_bytes, strict=True)):
        if step is None:
            job = place
        elif job >= 0 and heads[place] != heads[job]:
            job = -1
        elif job >= 0:
            is_shown[place] = clusters[place] != clusters[job]
            if used is not None:
                most[job] = max(used, most[job] or 0)
    return most, is_shown


def read_rows(
    lines: Iterable[str],
    delimiter: str,
    names: Sequence[str],
    *,
    source: str,
    zone: tzinfo | None,
    notes: Notes,
    folds_steps: bool,
) -> Iterator[JobRecord | StepUse | Rejected]:
    """Yield the jobs of the lines after a header, each followed by its steps, and rejected rows.

    `zone` is the time zone of the machine that ran sacct; None: this machine's. Memory use is constant.
    """
    converter = RecordConverter(names, zone, notes=notes, adds_memory=True, folds_steps=folds_steps)
    unused = [(name, place) for place, name in enumerate(names) if name and name not in TAKEN]
    rows = Rows(lines, delimiter, names)
    last: list[JobRecord | StepUse] = []  # a job and its steps so far
    for numbers, texts in rows.batches():
        for error in rows.rejected:
            yield Rejected.from_error(error.at(source))
        rows.rejected.clear()
        for name, place in unused if texts else ():
            notes.not_taken[name] += sum(text not in UNKNOWN for text in texts[place])
        for found in converter.each(numbers, texts):
            if isinstance(found, ParseError):
                place = numbers.index(found.line)
                if [column[place] for column in texts] != names:  # the header of a concatenated log
                    yield Rejected.from_error(found.at(source))
            elif found.step is None or not last or last[0].step or last[0].job_id != found.job_id:
                yield from last
                last = [found]
            else:
                most, used = last[0].used_memory_bytes, found.used_memory_bytes
                job = last[0]
                if isinstance(job, JobRecord) and used is not None and (most is None or used > most):
                    last[0] = replace(job, used_memory_bytes=used)
                last.append(found)
    yield from last
