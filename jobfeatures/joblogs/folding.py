"""Merges the records of jobs, their steps and their runs into one record per job. Pure.

Logs may report a job several times, report its steps, and, after a requeue, report its next run under the
same id. Batch systems also reuse job ids. So records with the same id belong to one job only if cluster and
user are the same, and the times allow it.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, compress, count, groupby
from operator import attrgetter, itemgetter
from typing import Any, Final

from jobfeatures.joblogs.batches import HashedIds
from jobfeatures.joblogs.loggedjob import (
    AT_ONCE,
    MOST,
    JobBatch,
    JobRecord,
    Lost,
    Number,
    Pair,
    Sorter,
    StepUse,
    sort_in_memory,
)
from jobfeatures.joblogs.reportrelations import (
    Relation,
    continued,
    is_reported_again,
    joined,
    order_of,
    overridden,
    relation,
)

EARLIER_RUN: Final = Relation.NEXT.value
REPORTED_AGAIN: Final = Relation.SAME.value
PART: Final = Relation.PART.value
STEP: Final = "step"
ORPHAN: Final = "step without its job"
SAME_ID: Final = "another job under the id of one before: both are kept"
_ID: Final = attrgetter("batch_system", "cluster", "job_id")
_NO_STEPS: Final[dict[str, Any]] = {}  # of most runs, as readers fold steps that follow their job
_USE: Final = attrgetter(*StepUse._fields)


class _Run:
    """One run of a job with its steps, as reported so far; or a step that does not follow its run."""

    __slots__ = ("at_secs", "parts", "place", "record", "steps")

    def __init__(self, place: int, record: Any) -> None:
        self.place = place
        self.record = record
        self.at_secs: Number = 0
        self.parts: tuple[Any, ...] = ()  # before it was resized
        self.steps = _NO_STEPS

    def order(self) -> tuple[Number, bool, Number, int, int]:
        """Return a key that sorts by the time of the report, steps after their job."""
        if self.record.step is not None:
            report = getattr(self.record, "report", None)
            return (0 if report is None else report.at_secs, True, 0, 0, self.place)
        self.at_secs, submit, stage = order_of(self.record)
        return (self.at_secs, False, submit, stage, self.place)

    def is_whole(self) -> bool:
        """Return whether the record is the job's as it is, with nothing to merge."""
        return not self.steps and self.record.step is None and self.record.report is None

    def has_step(self, step: JobRecord | StepUse) -> bool:
        """Return whether a step that follows it in the log belongs to this run."""
        mine = self.record
        if mine.step is not None or _ID(mine) != _ID(step):
            return False
        report = getattr(step, "report", None)
        return report is None or (mine.report is not None and mine.report.at_secs == report.at_secs)

    def add_step(self, step: Any) -> None:
        """Add a step; of a known one, the later report counts."""
        if not self.steps:  # that without any may be shared, also by runs that went to disk together
            self.steps = {}
        known = self.steps.get(step.step)
        if isinstance(known, JobRecord) and isinstance(step, JobRecord):
            step = overridden(known, step)
        if known is None or step.used_memory_bytes is not None or isinstance(step, JobRecord):
            self.steps[step.step] = step

    def go_on(self, later: _Run, how: Relation) -> _Run:
        """Merge a later record of this run."""
        if how is Relation.PART:
            self.parts, self.record = (*self.parts, self.record), later.record
        else:
            self.record = overridden(self.record, later.record)
        self.at_secs = max(self.at_secs, later.at_secs)
        for step in later.steps.values():
            self.add_step(step)
        return self

    def whole(self, earlier: int) -> JobRecord:
        """Return the record with the number of `earlier` runs, and its largest step's memory if it has none.

        Most steps run one at a time.
        """
        record: JobRecord = reduce(joined, (*self.parts, self.record))
        used = [step.used_memory_bytes for step in self.steps.values() if step.used_memory_bytes is not None]
        if used and record.used_memory_bytes is None:
            record = replace(record, used_memory_bytes=max(used))
        if earlier > (record.restarts or 0):
            record = replace(record, restarts=earlier)
        return as_whole(record)


def as_whole(record: JobRecord) -> JobRecord:
    """Return a record without its field `report`, which is only needed to merge records."""
    return record if record.report is None else replace(record, report=None)


def fold_jobs(
    records: Iterable[JobRecord | StepUse | JobBatch],
    folded: Lost,
    *,
    all_runs: bool = False,
    keeps_steps: bool = False,
    sort: Sorter = sort_in_memory,
) -> Iterator[JobRecord]:
    """Merge records into one record per job, in order of first appearance, once all records have been read.

    Several reports of a run become one record: see `reportrelations`. A step belongs to the latest run of its
    job before it, as sacct writes them; in a log that has the time of each report, to the run at that time.
    Of several runs of a job, the latest is kept. With `all_runs`, every run is kept, under the same id; with
    `keeps_steps`, every step too, behind its run. `folded` is called with a reason for each record that is
    merged. More than `MOST` runs are grouped by `sort` instead of in memory.
    """
    found = fold_batches(records, folded, all_runs=all_runs, keeps_steps=keeps_steps, sort=sort)
    return (record for batch in found for record in batch)


def fold_batches(
    records: Iterable[JobRecord | StepUse | JobBatch],
    folded: Lost,
    *,
    all_runs: bool = False,
    keeps_steps: bool = False,
    sort: Sorter = sort_in_memory,
) -> Iterator[JobBatch]:
    """Merge records as `fold_jobs` does, and yield the results in batches.

    Jobs whose id occurs only once stay in their batch.
    """
    items = _in_batches(_runs(records, folded, keeps_steps=keeps_steps))
    held: deque[_Run] = deque()
    ids = HashedIds()

    def whole() -> Iterator[Pair]:
        for place, each in items:
            if isinstance(each, _Run):
                held.append(each)
                if len(held) > MOST:
                    return
            else:
                ids.add(each)
                yield place, each.pack()

    batches: Iterable[Pair] = sort(whole())
    again: set[int] = set()
    if len(held) > MOST:
        first = (held.popleft() for _ in range(len(held)))
        found: Iterable[Iterable[_Run]] = _sorted(chain(first, _each_run(items), _each_run(batches)), sort)
        batches = ()
    else:
        again = ids.again({hash(run.record.job_id) for run in held})
        found = _in_memory(chain(held, _taken(batches, ids, again)))
    jobs = sort(_fold_each(found, folded, all_runs=all_runs, keeps_steps=keeps_steps))
    if isinstance(batches, list):  # in memory: what is written makes room
        queue = deque(batches)
        batches = (queue.popleft() for _ in range(len(queue)))
    yield from _in_order(batches, ids, again, jobs)


def _runs(
    records: Iterable[Any], folded: Lost, *, keeps_steps: bool
) -> Iterator[_Run | tuple[int, JobBatch]]:
    """Yield runs with the steps that directly follow them, other steps by themselves, and placed batches."""
    last: _Run | None = None
    place = 0
    for record in records:
        if isinstance(record, JobBatch):
            if last is not None:
                yield last
                last = None
            yield place, record
            place += len(record)
            continue
        each: Any = record
        place += 1
        if (
            record.step is not None
            and not keeps_steps
            and isinstance(record, JobRecord)
            and record.report is None
        ):
            each = StepUse(*_USE(record))
        if last is not None and record.step is not None and last.has_step(each):
            if not keeps_steps:
                folded(STEP)
            last.add_step(each)
            continue
        if last is not None:
            yield last
        last = _Run(place - 1, each)
    if last is not None:
        yield last


def _in_batches(found: Iterable[Any]) -> Iterator[tuple[int, _Run | JobBatch]]:
    """Yield batches, also of runs with nothing to merge, and other runs, each with its place in the log."""
    some: list[_Run] = []
    for each in found:
        is_whole = isinstance(each, _Run) and each.is_whole()
        if some and (not is_whole or len(some) == AT_ONCE):
            yield some[0].place, JobBatch.of([run.record for run in some])
            some = []
        if is_whole:
            some.append(each)
        else:
            yield (each.place, each) if isinstance(each, _Run) else each
    if some:
        yield some[0].place, JobBatch.of([run.record for run in some])


def _each_run(items: Iterable[tuple[int, Any]]) -> Iterator[_Run]:
    for place, each in items:
        if isinstance(each, _Run):
            yield each
        else:
            yield from map(_Run, count(place), each)


def _taken(batches: Iterable[Pair], ids: HashedIds, again: set[int]) -> Iterator[_Run]:
    """Yield the runs of batches whose ids occur again."""
    for (place, batch), hashes in zip(batches if again else (), ids.of_batches, strict=False):
        if not again.isdisjoint(hashes):
            yield from compress(map(_Run, count(place), batch), map(again.__contains__, hashes))


def _in_order(
    batches: Iterable[Pair], ids: HashedIds, again: set[int], jobs: Iterable[Pair]
) -> Iterator[JobBatch]:
    """Yield batches without what was taken from them, and jobs between them, in order of first appearance."""
    rest = iter(jobs)
    due = next(rest, None)
    nothing: tuple[Pair, Sequence[int]] = ((math.inf, JobBatch.of([])), ())
    for (place, batch), hashes in chain(zip(batches, ids.of_batches, strict=False), [nothing]):
        while due is not None and due[0] < place:
            some = [due[1]]
            while (due := next(rest, None)) is not None and due[0] < place and len(some) < AT_ONCE:
                some.append(due[1])
            yield JobBatch.of(some)
        if again.isdisjoint(hashes):
            yield batch.unpack()
            continue
        left = map(operator.not_, map(again.__contains__, hashes))
        here: list[Pair] = list(compress(enumerate(batch, place), left))
        while due is not None and due[0] < place + len(batch):
            here.append(due)
            due = next(rest, None)
        yield JobBatch.of([record for _, record in sorted(here, key=itemgetter(0))])


def _in_memory(runs: Iterable[_Run]) -> Iterable[Iterable[_Run]]:
    """Group runs by job id."""
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


def _fold_each(
    found: Iterable[Iterable[_Run]], folded: Lost, *, all_runs: bool, keeps_steps: bool
) -> Iterator[Pair]:
    """Yield the merged jobs, each with the position of its first record."""
    for same in found:
        runs = sorted(same, key=attrgetter("place"))
        first = runs[0].place
        if len(runs) == 1 and runs[0].is_whole():
            yield first, runs[0].record
            continue
        if len(runs) == 1 and runs[0].record.step is None:
            jobs: list[list[_Run]] = [runs]
            orphans: dict[str, Any] = {}
        else:
            jobs, orphans = _jobs_of(runs, folded, keeps_steps=keeps_steps)
        for mine in jobs:
            for earlier, run in enumerate(mine):
                if all_runs or keeps_steps or run is mine[-1]:
                    yield first, run.whole(earlier)
                else:
                    folded(EARLIER_RUN)
                for step in run.steps.values() if keeps_steps else ():
                    yield first, as_whole(step)
        for step in orphans.values() if keeps_steps else ():
            yield first, as_whole(step)


def _jobs_of(runs: list[_Run], folded: Lost, *, keeps_steps: bool) -> tuple[list[list[_Run]], dict[str, Any]]:
    """Return the jobs that share an id, each with its runs; and the steps if there is no job."""
    jobs: list[list[_Run]] = []
    waiting = _Run(0, None)  # for the steps without a run yet
    latest = waiting
    for each in sorted(_with_steps(runs), key=_Run.order):
        if each.record.step is None:
            latest = _placed(each, jobs, folded)
            for step in waiting.steps.values():
                latest.add_step(step)
            waiting.steps = _NO_STEPS
        else:
            latest.add_step(each.record)
    for each in runs:
        if each.record.step is not None and not keeps_steps:
            folded(STEP if jobs else ORPHAN)
    return jobs, waiting.steps


def _with_steps(runs: list[_Run]) -> Iterator[_Run]:
    """Yield runs with the steps that follow them; other steps, and those with a report time, alone."""
    last: _Run | None = None
    for each in runs:
        if each.record.step is None:
            last = each
        elif last is not None and getattr(each.record, "report", None) is None:
            last.add_step(each.record)
            continue
        yield each


def _placed(each: _Run, jobs: list[list[_Run]], folded: Lost) -> _Run:
    """Add a run to the jobs of its id, and return the run that it belongs to."""
    for known in (run for mine in reversed(jobs) for run in reversed(mine)):
        if is_reported_again(known.record, each.record):
            folded(REPORTED_AGAIN)
            return known.go_on(each, Relation.SAME)
        if any(is_reported_again(part, each.record) for part in known.parts):
            folded(REPORTED_AGAIN)
            return known
    for mine in reversed(jobs):
        how = relation(mine[-1].record, each.record, mine[-1].at_secs)
        if how is Relation.NEXT:
            each.record = continued(mine[-1].record, each.record)
            mine.append(each)
            return each
        if how is not None:
            folded(how.value)
            return mine[-1].go_on(each, how)
    if jobs:
        folded(SAME_ID)
    jobs.append([each])
    return each
