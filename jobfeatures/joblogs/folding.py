"""Merges the records of jobs, their steps and their runs into one record per job: pure.

Accounting has an entry for each step of a job and, after a requeue, another for the job under the same id.
Formats with one entry per job need them merged. Job ids are reused: records with the same id belong to one
job only if cluster and user are the same and the times allow it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, Final

from jobfeatures.joblogs.loggedjob import MOST, JobRecord, Lost, Number, Pair, Sorter, StepUse, sort_in_memory

EARLIER_RUN: Final = "earlier run"
SAME_RUN: Final = "run that is told twice"
STEP: Final = "step"
ORPHAN: Final = "step without its job"
SAME_ID: Final = "another job under the id of one before: both are kept"
# Accounting shows a requeue as a new submission at the end of the run before; a later one is another job.
REQUEUED_WITHIN_SECS: Final = 86400
_ID: Final = attrgetter("batch_system", "cluster", "job_id")


class _Run:
    """One run of a job with what its steps add; or a step that does not directly follow its run."""

    __slots__ = ("memory_bytes", "place", "record")

    def __init__(self, place: int, record: Any) -> None:
        self.place = place
        self.record = record
        self.memory_bytes = record.used_memory_bytes

    def has_step(self, step: JobRecord | StepUse) -> bool:
        """Return whether a step belongs to this run."""
        return self.record.step is None and _ID(self.record) == _ID(step)

    def add_step(self, step: JobRecord | StepUse) -> None:
        """Use the largest step's memory if the job has none of its own: most steps run one at a time."""
        if self.record.used_memory_bytes is None and step.used_memory_bytes is not None:
            self.memory_bytes = max(self.memory_bytes or 0, step.used_memory_bytes)

    @property
    def age(self) -> tuple[float, float]:
        """Return a key that sorts runs by submission, which each requeue repeats, then by start."""
        record = self.record
        started = record.start_secs if record.start_secs is not None else record.end_secs
        return (record.submit_secs or 0, started or 0)

    def fold(self, earlier: int) -> JobRecord:
        """Return the record with its steps' memory and the number of `earlier` runs added."""
        record: JobRecord = self.record
        if self.memory_bytes != record.used_memory_bytes:
            record = replace(record, used_memory_bytes=self.memory_bytes)
        if earlier > (record.restarts or 0):
            record = replace(record, restarts=earlier)
        return record


def fold_jobs(
    records: Iterable[JobRecord | StepUse],
    folded: Lost,
    *,
    all_runs: bool = False,
    sort: Sorter = sort_in_memory,
) -> Iterator[JobRecord]:
    """Return one record per job, in order of first appearance, after reading all records.

    Steps follow the run of their job, as sacct writes them. Of several runs the latest is kept, by submission
    time, else start, else position. `all_runs` keeps every run, under the shared id. `folded` is called with
    a reason for each record that is merged. More than `MOST` runs are grouped by `sort` instead of in memory.
    """
    runs = _runs(records, folded)
    held = deque(islice(runs, MOST))
    if (more := next(runs, None)) is None:
        found = _in_memory(held)
    else:
        found = _sorted(chain((held.popleft() for _ in range(len(held))), [more], runs), sort)
    for _, job in sort(_fold_each(found, folded, all_runs=all_runs)):
        yield job


def _runs(records: Iterable[JobRecord | StepUse], folded: Lost) -> Iterator[_Run]:
    """Yield runs with the steps that directly follow them, and other steps by themselves."""
    last: _Run | None = None
    for place, record in enumerate(records):
        if last is not None and record.step is not None and last.has_step(record):
            folded(STEP)
            last.add_step(record)
            continue
        if last is not None:
            yield last
        last = _Run(place, record)
    if last is not None:
        yield last


def _in_memory(runs: Iterable[_Run]) -> Iterable[Iterable[_Run]]:
    """Group runs by job id, in order of first appearance."""
    found: dict[Any, list[_Run]] = {}
    for run in runs:
        found.setdefault(_ID(run.record), []).append(run)
    return found.values()


def _sorted(runs: Iterable[_Run], sort: Sorter) -> Iterator[Iterable[_Run]]:
    """Group any number of runs by job id, by sorting them."""
    keyed = (
        ((system, cluster or "", cluster is None, job_id), run)
        for run in runs
        for system, cluster, job_id in [_ID(run.record)]
    )
    for _, same in groupby(sort(keyed), key=itemgetter(0)):
        yield (run for _, run in same)


def _fold_each(found: Iterable[Iterable[_Run]], folded: Lost, *, all_runs: bool) -> Iterator[Pair]:
    """Yield the merged jobs, each with the position of its first record."""
    for same in found:
        runs: list[_Run] = []
        for run in same:
            if run.record.step is None:
                runs.append(run)
            elif not runs:
                folded(ORPHAN)
            else:
                folded(STEP)
                runs[-1].add_step(run.record)
        first = runs[0].place if runs else -1
        if len(runs) == 1:
            yield first, runs[0].fold(0)
        elif runs:
            yield from ((first, job) for job in _fold_runs(runs, folded, all_runs=all_runs))


def _fold_runs(runs: list[_Run], folded: Lost, *, all_runs: bool) -> Iterator[JobRecord]:
    """Separate the jobs that share an id, and yield the latest run of each (all with `all_runs`)."""
    found: list[list[_Run]] = []
    for run in sorted(runs, key=lambda each: each.age):
        same = next((mine for mine in found if may_be_one(mine[-1].record, run.record)), None)
        if same is None:
            if found:
                folded(SAME_ID)
            found.append([run])
        elif is_same_run(same[-1].record, run.record):
            folded(SAME_RUN)
            same[-1] = run if run.record.end_secs is not None else same[-1]
        else:
            same.append(run)
    for mine in found:
        if all_runs:
            yield from (run.fold(0) for run in mine)
            continue
        for _ in mine[1:]:
            folded(EARLIER_RUN)
        yield mine[-1].fold(len(mine) - 1)


def may_be_one(earlier: JobRecord, later: JobRecord) -> bool:
    """Return whether two records with the same id can be one job: same user, runs that do not overlap."""
    if None not in {earlier.user, later.user} and earlier.user != later.user:
        return False
    return is_same_run(earlier, later) or is_next_run(
        (earlier.submit_secs, earlier.start_secs, earlier.end_secs), (later.submit_secs, later.start_secs)
    )


def is_same_run(one: JobRecord, other: JobRecord) -> bool:
    """Return whether two records report the same run, one of them perhaps before it ended."""
    if (one.submit_secs, one.start_secs) != (other.submit_secs, other.start_secs):
        return False
    return one.end_secs == other.end_secs or (
        one.start_secs is not None and None in {one.end_secs, other.end_secs}
    )


def is_next_run(
    earlier: tuple[Number | None, Number | None, Number | None], later: tuple[Number | None, Number | None]
) -> bool:
    """Return whether a run (submit, start) can follow an earlier one (submit, start, end) of its job."""
    submit, start, end = earlier
    submit_again, start_again = later
    if submit == submit_again or None in {submit, submit_again}:
        return end is None or start_again is None or start is None or start_again >= end
    if end is None or submit_again is None:
        return False
    return 0 <= submit_again - end <= REQUEUED_WITHIN_SECS
