"""One record a job, of records of jobs, their steps and their runs: pure.

Accounting has an entry for each step of a job, and after a requeue one more for the job, under the same id.
Formats with one entry a job take these. The same id is the same job only for one user on one cluster, and
where the times allow it: numbers are used again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, Final

from jobfeatures.joblog import MOST, JobRecord, Lost, Number, Pair, Sorter, StepUse, sort_in_memory

EARLIER_RUN: Final = "earlier run"
SAME_RUN: Final = "run that is told twice"
STEP: Final = "step"
ORPHAN: Final = "step without its job"
SAME_ID: Final = "another job under the id of one before: both are kept"
# A requeue is a submission of its own, at the end of the run before; what comes later is another job.
REQUEUED_WITHIN_SECS: Final = 86400
_ID: Final = attrgetter("batch_system", "cluster", "job_id")


class _Run:
    """One run of a job, and what its steps add; or a step that does not stand behind its run."""

    __slots__ = ("memory_bytes", "place", "record")

    def __init__(self, place: int, record: Any) -> None:
        self.place = place
        self.record = record
        self.memory_bytes = record.used_memory_bytes

    def has_step(self, step: JobRecord | StepUse) -> bool:
        """Return whether a step is one of this run."""
        return self.record.step is None and _ID(self.record) == _ID(step)

    def add_step(self, step: JobRecord | StepUse) -> None:
        """Take the most memory that a step used: only steps have it, and most run one after the other."""
        if self.record.used_memory_bytes is None and step.used_memory_bytes is not None:
            self.memory_bytes = max(self.memory_bytes or 0, step.used_memory_bytes)

    @property
    def age(self) -> tuple[float, float]:
        """Return what is larger for the later of two runs: a requeue is a submission of its own."""
        record = self.record
        started = record.start_secs if record.start_secs is not None else record.end_secs
        return (record.submit_secs or 0, started or 0)

    def fold(self, earlier: int) -> JobRecord:
        """Return the record with what its steps and the runs before it add."""
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
    """Return one record a job, in the order in which they come first; none before all have come.

    Steps come behind the run of their job, as sacct writes them. Of several runs the latest counts: by its
    submission, else by its start, else by its place. `all_runs` keeps each, with the id they share. `folded`
    is called with each record that became one with another. More than `MOST` of them are sorted.
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
    """Yield runs with the steps that stand right behind them, other steps by themselves."""
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
    """Return what has one id together, as it came."""
    found: dict[Any, list[_Run]] = {}
    for run in runs:
        found.setdefault(_ID(run.record), []).append(run)
    return found.values()


def _sorted(runs: Iterable[_Run], sort: Sorter) -> Iterator[Iterable[_Run]]:
    """Yield the same of any number of them."""
    keyed = (
        ((system, cluster or "", cluster is None, job_id), run)
        for run in runs
        for system, cluster, job_id in [_ID(run.record)]
    )
    for _, same in groupby(sort(keyed), key=itemgetter(0)):
        yield (run for _, run in same)


def _fold_each(found: Iterable[Iterable[_Run]], folded: Lost, *, all_runs: bool) -> Iterator[Pair]:
    """Yield the jobs, with the place at which each came first."""
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
    """Return the jobs that have the same id: each the latest of its runs."""
    found: list[list[_Run]] = []
    for run in sorted(runs, key=lambda each: each.age):  # equal ones as they came
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
    """Return whether two records under one id are of one job: of its user, one run after the other."""
    if None not in {earlier.user, later.user} and earlier.user != later.user:
        return False
    return is_same_run(earlier, later) or is_next_run(
        (earlier.submit_secs, earlier.start_secs, earlier.end_secs), (later.submit_secs, later.start_secs)
    )


def is_same_run(one: JobRecord, other: JobRecord) -> bool:
    """Return whether two records report one run, perhaps the first before its end."""
    if (one.submit_secs, one.start_secs) != (other.submit_secs, other.start_secs):
        return False
    return one.end_secs == other.end_secs or (
        one.start_secs is not None and None in {one.end_secs, other.end_secs}
    )


def is_next_run(
    earlier: tuple[Number | None, Number | None, Number | None], later: tuple[Number | None, Number | None]
) -> bool:
    """Return whether times allow a run to follow another of the same job: submit, start, end of both."""
    submit, start, end = earlier
    submit_again, start_again = later
    if submit == submit_again or None in {submit, submit_again}:
        return end is None or start_again is None or start is None or start_again >= end
    if end is None or submit_again is None:
        return False
    return 0 <= submit_again - end <= REQUEUED_WITHIN_SECS
