"""Converts rows of sacct to records of jobs and steps, column by column; unused columns are skipped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from itertools import chain, compress, repeat
from operator import and_
from typing import Any, Final

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.fields import UNKNOWN
from jobfeatures.batch.slurm.gpus import parse_resources, parse_tres_gpus
from jobfeatures.batch.slurm.sacct.derived import derive_columns, pairs_of
from jobfeatures.batch.slurm.sacct.lines import Rows
from jobfeatures.batch.slurm.sacct.requeued import with_ends, without_revoked
from jobfeatures.batch.slurm.sacct.stepuse import Entry, is_step, steps_of_last, with_cpu_times, with_steps
from jobfeatures.batch.slurm.sacct.values import (
    Identity,
    NodeNameCache,
    TextCache,
    Times,
    are_job_ids,
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
    parse_whole,
    split_step,
)
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.folding import STEP
from jobfeatures.joblogs.loggedjob import JobBatch, JobRecord, Notes, StepUse
from jobfeatures.records.localtimes import choose_moments

_make_step = partial(tuple.__new__, StepUse)
_IN_ORDER: Final = ("submit_secs", "eligible_secs", "start_secs", "end_secs")
_TIMES: Final = frozenset(_IN_ORDER)
# Fields that are not cached, since their texts rarely repeat.
_UNLIKE: Final = frozenset(
    {
        *("run_secs", "used_cpu_secs", "user_cpu_secs", "system_cpu_secs", "priority", "used_memory_bytes"),
    }
)
_TOGETHER: Final[dict[Any, Callable[[Sequence[str]], Sequence[Any]]]] = {
    parse_duration: parse_durations,
    parse_number: parse_numbers,
    parse_whole: partial(parse_numbers, parse=parse_whole),
    parse_size: parse_sizes,
}
_NUMBERS: Final = frozenset({parse_number, parse_whole})
_FAULTLESS: Final = frozenset({parse_text, parse_state_word})
# The columns of each field; the first that the log has counts.
_COLUMNS: Final[dict[str, tuple[tuple[str, Callable[[str], Any] | None], ...]]] = {
    "state": (("State", parse_state),),
    "name": (("JobName", None),),
    "user": (("User", parse_text),),
    "uid": (("UID", parse_whole),),
    "group": (("Group", parse_text),),
    "gid": (("GID", parse_whole),),
    "account": (("Account", parse_text),),
    "partition": (("Partition", parse_text),),
    "reservation": (("Reservation", parse_text),),
    "priority": (("Priority", parse_whole),),
    "submit_secs": (("Submit", None),),
    "eligible_secs": (("Eligible", None),),
    "start_secs": (("Start", None),),
    "end_secs": (("End", None),),
    "run_secs": (("ElapsedRaw", parse_whole), ("Elapsed", parse_duration)),
    "suspended_secs": (("Suspended", parse_duration),),
    "restarts": (("Restarts", parse_whole),),
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
    is_looked_up: bool = False  # or converted as fast as that


class RecordConverter:
    """Converts rows of sacct, a list of texts per column, to records of jobs and steps; caches results."""

    def __init__(
        self,
        names: Sequence[str],
        zone: tzinfo | None = None,
        *,
        notes: Notes,
        adds_memory: bool = False,
        folds_steps: bool = False,
    ) -> None:
        """`names` are the columns' names; times are local to `zone`.

        With either flag a job gets the largest memory use of the steps after it. With `folds_steps` these
        steps are counted in `notes`, not returned; steps without their job before them become `StepUse`.
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
        self._memory = self._columns.get("used_memory_bytes")
        self._others: dict[Any, list[_Column]] = {}  # columns whose texts are converted, by the conversion
        for column in self._made:
            if column.reads is not None and not column.is_looked_up and column is not self._memory:
                self._others.setdefault(column.reads, []).append(column)

    def _column(self, field: str, name: str, convert: Callable[[str], Any] | None, place: int) -> _Column:
        if field in _TIMES:
            return _Column(name, place, self._times.column, self._times)
        if convert is None:
            return _Column(name, place, list, None)
        kept = (NodeNameCache if field == "nodes" else TextCache)(convert)
        many: Callable[[Sequence[str]], Sequence[Any]] = kept.column
        if field in _UNLIKE:
            many = _TOGETHER.get(convert) or (lambda texts: list(map(convert, texts)))
        reads = None if convert in _FAULTLESS else convert
        return _Column(name, place, many, reads, field not in _UNLIKE or convert in _NUMBERS)

    def each(
        self, numbers: Sequence[int], columns: Sequence[Sequence[str]], repaired: Collection[int] = ()
    ) -> Iterator[Sequence[Entry | ParseError]]:
        """Yield lists of the rows' records, with the error in place of a malformed row's record.

        `numbers` are the rows' line numbers. Malformed text in an optional column is unknown and counted in
        `notes`; in a `repaired` row it is an error, as its fields may belong to other columns.
        """
        try:
            yield self.convert(columns)
        except ParseError:  # at least one row is malformed
            if len(numbers) == 1:
                yield self._alone([*columns], numbers[0], may_miss=numbers[0] not in repaired)
                return
            half = len(numbers) // 2
            for part in (slice(half), slice(half, None)):
                yield from self.each(numbers[part], [column[part] for column in columns], repaired)

    def _alone(
        self, row: list[Sequence[str]], number: int, *, may_miss: bool
    ) -> Sequence[Entry | ParseError]:
        unread: list[tuple[str, str]] = []
        while True:
            try:
                found = self.convert(row)
            except ParseError as error:
                place = self._optional.get(error.field or "")
                if place is None or not row[place][0] or not may_miss:
                    return [error.at(line=number)]
                unread.append((error.field, row[place][0]))
                row[place] = [""]
            else:
                for name, text in unread:
                    self._notes.count_unread(name, text)
                return found

    def convert(self, columns: Sequence[Sequence[str]]) -> Sequence[Entry]:
        """Return the rows' records; jobs in a `JobBatch` if steps are merged. ParseError names the column."""
        if not columns:
            return []
        heads: Sequence[str] = columns[self._id_place]
        steps: Sequence[str | None] = [None] * len(heads)
        if "." in (written := "".join(heads)):
            split = map(split_step, heads) if "[" in written else map(str.partition, heads, repeat("."))
            heads, _, texts = zip(*split, strict=True)
            steps = [text or None for text in texts]
        are_numbers = are_job_ids(heads)
        if not are_numbers:
            for head in heads:
                try:
                    parse_job_id(head)
                except ParseError as error:
                    raise error.at(field=self._id_name) from error
        known = [heads, steps, self._identities(heads, columns, are_numbers=are_numbers)]
        if not self._folds_steps:
            return list(self._batch(known, columns))
        if not any(steps):
            return [self._batch(known, columns)]
        if len(heads) > 1:
            return self._folded(known, columns)
        [step] = self._batch(known, columns)
        return [StepUse(NAME, step.job_id, step.cluster, str(step.step), step.used_memory_bytes)]

    def _folded(self, known: Sequence[Sequence[Any]], columns: Sequence[Sequence[str]]) -> Sequence[Entry]:
        """Return jobs' records, and `StepUse` of steps whose job is not among the rows. Raises ParseError."""
        heads, steps, _ = known
        clusters, used = (
            [None] * len(heads) if column is None else column.convert(columns[column.place])
            for column in map(self._columns.get, ("cluster", "used_memory_bytes"))
        )
        most, is_shown = with_steps(heads, steps, clusters, used)
        is_job = [step is None for step in steps]
        known = [list(compress(each, is_job)) for each in known]
        batch = self._batch(known, columns, is_job, used, list(compress(most, is_job)))
        uses = zip(repeat(NAME), heads, clusters, steps, (each or None for each in used), strict=False)
        others = map(_make_step, compress(uses, map(and_, is_shown, map(bool, steps))))
        if count := is_shown.count(False):
            self._notes.read += count
            self._notes.folded[STEP] += count
        order = [step is None for step in compress(steps, is_shown)]
        if order == sorted(order):  # steps of a job before these rows, then jobs
            return [*others, batch] if batch else [*others]
        found: dict[bool, Iterator[JobRecord | StepUse]] = {True: iter(batch), False: others}
        return [next(found[is_of_job]) for is_of_job in order]

    def _batch(
        self,
        known: Sequence[Sequence[Any]],
        columns: Sequence[Sequence[str]],
        is_job: Sequence[bool] | None = None,
        used: Sequence[int | None] = (),
        memory: Sequence[int | None] | None = None,
    ) -> JobBatch:
        """Return records of known ids, steps and identities. Raises ParseError.

        If the rows have steps, `is_job` is False for these, whose texts are only checked. Then `used` is the
        memory use of each row, and `memory` the largest of each job and its steps, in bytes.
        """
        heads, steps, identities = known
        self._times.are_odd = False
        converted: dict[_Column, Sequence[Any]] = {}
        of_jobs: dict[_Column, Sequence[str]] = {}
        times: list[tuple[Sequence[str], Sequence[Any]]] = []  # often two columns are the same
        for column in self._made:
            try:
                texts = columns[column.place]
                if is_job is not None:
                    if column is self._memory:
                        converted[column] = list(compress(used, is_job))
                        continue
                    if column.is_looked_up and column.reads is not None:
                        converted[column] = list(compress(column.convert(texts), is_job))
                        continue
                    texts = of_jobs[column] = list(compress(texts, is_job))
                if column.reads is not self._times:
                    converted[column] = column.convert(texts)
                    continue
                found = next((found for known, found in times if known == texts), None)
                converted[column] = column.convert(texts) if found is None else found
                times.append((texts, converted[column]))
            except ParseError as error:
                raise error.at(field=error.field if column.reads is parse_nodes else column.name) from error
        if is_job is not None:
            self._check_steps(columns, [not each for each in is_job], of_jobs)
        if not heads:
            return JobBatch(0, {})
        values = {field: converted[column] for field, column in self._columns.items()}
        if memory is None:
            memory = list(values.get("used_memory_bytes", ()))
            if memory and self._adds_memory:
                memory, _ = with_steps(heads, steps, values.get("cluster", [None] * len(heads)), memory)
        if self._times.are_odd:
            self._settle(values, len(heads))
        values |= derive_columns(values, len(heads))
        values |= {
            "batch_system": [NAME] * len(heads),
            "job_id": heads,
            "step": steps,
            "used_memory_bytes": [each or None for each in memory],
            "more": pairs_of([(field, converted[each]) for field, each in self._more], len(heads)),
        }
        if identities.count(_PLAIN) < len(identities):
            values.update(zip(Identity._fields[1:], list(zip(*identities, strict=True))[1:], strict=True))
        return JobBatch(len(heads), values)

    def _check_steps(
        self,
        columns: Sequence[Sequence[str]],
        is_step: Sequence[bool],
        of_jobs: Mapping[_Column, Sequence[str]],
    ) -> None:
        """Check the texts of steps that are not converted already. Raises ParseError."""
        for alike in self._others.values():
            texts = {*chain.from_iterable(compress(columns[each.place], is_step) for each in alike)}
            alike[0].convert(list(texts.difference(*(of_jobs[each] for each in alike))))

    def _settle(self, values: dict[str, Sequence[Any]], count: int) -> None:
        """Choose which of two epoch times is meant by a local time in an hour that clocks repeat."""
        wanted = (
            values.get(name) or repeat(None, count) for name in (*_IN_ORDER, "run_secs", "suspended_secs")
        )
        rows: Iterable[Sequence[Any]] = zip(*wanted, strict=False)
        settled = [choose_moments(row[:4], row[4], row[5], self._notes.doubtful) for row in rows]
        values.update(zip(_IN_ORDER, zip(*settled, strict=True), strict=True))

    def _identities(
        self, heads: Sequence[str], columns: Sequence[Sequence[str]], *, are_numbers: bool
    ) -> list[Identity]:
        if self._id is None:
            return [_PLAIN] * len(heads)
        texts = columns[self._id]
        if are_numbers and texts == columns[self._id_place]:
            return [_PLAIN] * len(heads)
        known = TextCache(parse_job_id)  # a job's steps follow one another
        return [_PLAIN if text.isdigit() else known[split_step(text)[0]] for text in texts]


def read_rows(
    lines: Iterable[str],
    delimiter: str,
    names: Sequence[str],
    *,
    source: str,
    zone: tzinfo | None,
    notes: Notes,
    folds_steps: bool,
) -> Iterator[Entry | Rejected]:
    """Yield the jobs of the lines after a header, each followed by its steps, and a Rejected for a bad row.

    `zone` is the time zone of sacct's machine (None: this one's). `folds_steps`: steps are merged into jobs.
    """
    converter = RecordConverter(names, zone, notes=notes, adds_memory=True, folds_steps=folds_steps)
    unused = [(name, place) for place, name in enumerate(names) if name and name not in TAKEN]
    rows = Rows(lines, delimiter, names)
    last: list[Entry] = []  # a job and its steps so far
    batches = with_cpu_times(without_revoked(rows.batches(), names, notes), names, notes)
    for numbers, texts in with_ends(batches, names):
        for error in rows.rejected:
            yield Rejected.from_error(error.at(source))
        rows.rejected.clear()
        for name, place in unused if texts else ():
            notes.not_taken[name] += len(numbers) - sum(map(UNKNOWN.__contains__, texts[place]))
        for found in converter.each(numbers, texts, rows.repaired):
            entries: list[Any] = [each for each in found if not isinstance(each, ParseError)]
            if len(entries) < len(found):
                errors = (each for each in found if isinstance(each, ParseError))
                yield from (Rejected.from_error(error.at(source)) for error in errors)
            place = steps_of_last(last, entries, notes)
            if place < len(entries):
                yield from last
                ends = (at for at in range(len(entries) - 1, place, -1) if not is_step(entries[at]))
                end = next(ends, place)
                yield from entries[place:end]
                last = entries[end:]
        rows.repaired.difference_update(numbers)
    yield from last
