"""Converts columns of job fields to lines of SWF. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import sub, truediv
from typing import Any, Final

from jobfeatures.formats.swf.fields import CANCELLED, COMPLETED, FAILED, UNKNOWN, Number
from jobfeatures.formats.swf.firstpass import NameNumbers, Numbering, SwfRow
from jobfeatures.formats.swf.records import INTERACTIVE, KIB, STATES
from jobfeatures.joblogs.loggedjob import Lost, compute_run_secs
from jobfeatures.records.columns import are_same
from jobfeatures.records.model import JobState

_STATUSES: Final = {
    JobState.COMPLETED: COMPLETED,
    JobState.FAILED: FAILED,
    JobState.NODE_FAIL: FAILED,
    JobState.OUT_OF_MEMORY: FAILED,
    JobState.TIMEOUT: FAILED,
    JobState.PREEMPTED: FAILED,
    JobState.CANCELLED: CANCELLED,
}
_ENDED: Final = frozenset(state for state in JobState if state.is_finished)
_STATED: Final = frozenset({*STATES.values(), JobState.UNKNOWN})


def make_jobs(
    jobs: SwfRow,
    names: Iterable[int],
    numbers: Mapping[str, int],
    start_secs: int,
    numbering: Numbering,
    lost: Lost,
    is_cpu: bool,
) -> list[Sequence[Any]]:
    """Convert columns of jobs to the 18 columns of SWF, with times counted from `start_secs`.

    `names` are the numbers for these jobs; `numbers` has those of the jobs that others follow, by job id;
    `numbering` has those of users, groups and queues. `lost` is called with the name of each value that SWF
    cannot hold. If `is_cpu`, the requested time is the limit of CPU time, not of wall time.
    """
    cpus, asked = jobs.total_cpus, jobs.requested_cpus
    requested = [one or other for one, other in zip(asked, cpus, strict=True)]
    memory = jobs.requested_memory_bytes
    if not _are_whole(memory):
        memory = [_limit(each, "requested_memory_bytes", lost) for each in memory]
    waited, ran = _spans(jobs, lost)
    if unstated := sum(state not in _STATED for state in jobs.state):
        lost("state", unstated)
    has_queues = {*jobs.queue, *jobs.is_interactive} != {None}
    unknown = [UNKNOWN] * len(cpus)
    preceding: Sequence[int] = unknown
    think: Sequence[Number] = unknown
    if {*jobs.preceding_job_id, *jobs.think_secs} != {None}:
        links = zip(jobs.preceding_job_id, jobs.think_secs, strict=True)
        preceding, think = zip(*(_link(*each, numbers, lost) for each in links), strict=True)
    return [
        [*names],
        [UNKNOWN if submit is None else submit - start_secs for submit in jobs.submit_secs],
        waited,
        ran,
        [UNKNOWN if each is None else each for each in cpus],
        _shares(jobs.used_cpu_secs, cpus, 1, "used_cpu_secs", lost),
        _kibs(jobs.used_memory_bytes, cpus, "used_memory_bytes", lost),
        [UNKNOWN if each is None else each for each in asked],
        _requested(jobs, requested, lost, is_cpu),
        _kibs(memory, requested, "requested_memory_bytes", lost),
        [_STATUSES.get(state, UNKNOWN) for state in jobs.state],
        numbering["user"].column(jobs.user),
        numbering["group"].column(jobs.group),
        numbering["executable"].column(jobs.executable),
        [_queue(row, numbering["queue"], lost) for row in _rows(jobs)] if has_queues else unknown,
        numbering["partition"].column(jobs.partition),
        preceding,
        think,
    ]


def format_jobs(columns: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Format the 18 columns as lines without newlines; only numbers that are not whole have decimals."""
    shown = [str(column[0]) if are_same(column) else "%s" for column in columns]
    rows = zip(*(column for column, text in zip(columns, shown, strict=True) if text == "%s"), strict=True)
    line = " ".join(shown)
    return (line % row for row in rows) if "%s" in shown else iter([line] * len(columns[0]))


def _rows(jobs: SwfRow) -> Iterator[SwfRow]:
    return map(SwfRow._make, zip(*jobs, strict=True))


def _are_whole(*columns: Sequence[Any]) -> bool:
    """Return whether all values are whole numbers, as nearly all are."""
    return {*map(type, chain(*columns))} == {int}


def _spans(jobs: SwfRow, lost: Lost) -> tuple[Sequence[Number], Sequence[Number]]:
    """Return how long each job waited and ran."""
    submits, starts, ends = jobs.submit_secs, jobs.start_secs, jobs.end_secs
    if _are_whole(submits, starts, ends) and _ENDED.issuperset(jobs.state) and not any(jobs.suspended_secs):
        waited, ran = list(map(sub, starts, submits)), list(map(sub, ends, starts))
        if min(waited) >= 0 and min(ran) >= 0 and ran == list(jobs.run_secs):
            return waited, ran
    spans = [_waited_and_ran(row, row.submit_secs, lost) for row in _rows(jobs)]
    return [waited for waited, _ in spans], [ran for _, ran in spans]


def _requested(jobs: SwfRow, requested: Sequence[int | None], lost: Lost, is_cpu: bool) -> Sequence[Number]:
    """Return the time that each job requested."""
    if not is_cpu and _are_whole(jobs.wall_limit_secs) and {*jobs.cpu_limit_secs} == {None}:
        return jobs.wall_limit_secs  # type: ignore[no-any-return]
    rows = zip(_rows(jobs), requested, strict=True)
    return [_requested_secs(row, count, lost, is_cpu) for row, count in rows]


def _shares(
    values: Sequence[Number | None], counts: Sequence[int | None], unit: int, name: str, lost: Lost
) -> list[Number]:
    """Return what falls to one processor of each job."""
    if None not in values and UNKNOWN not in values and all(counts):
        found = map(truediv, values, counts if unit == 1 else [(count or 0) * unit for count in counts])
        return [int(each) if each.is_integer() else round(each, 6) for each in found]
    return [_share(value, count, unit, name, lost) for value, count in zip(values, counts, strict=True)]


def _kibs(
    sizes_bytes: Sequence[Number | None], counts: Sequence[int | None], name: str, lost: Lost
) -> Sequence[int]:
    """Return the memory that falls to one processor of each job, in whole KiB: 0 only of nothing."""
    shares = _shares(sizes_bytes, counts, KIB, name, lost)
    if count := sum(type(share) is not int for share in shares):
        lost(f"{name}: rounded to KiB", count)
    return [share if type(share) is int else round(share) or 1 for share in shares]


def _link(
    before: str | None, think: Number | None, numbers: Mapping[str, int], lost: Lost
) -> tuple[int, Number]:
    """Return the number of the preceding job, and the time between them."""
    if before is None:
        return UNKNOWN, UNKNOWN if think is None else think
    if before in numbers:
        return numbers[before], UNKNOWN if think is None else think
    lost("preceding_job_id")
    if think not in {None, UNKNOWN}:
        lost("think_secs")
    return UNKNOWN, UNKNOWN


def _requested_secs(record: Any, requested: int | None, lost: Lost, is_cpu: bool) -> Number:
    """Return the wall limit, or the CPU time that falls to one processor."""
    wall, cpu = ("wall_limit_secs", record.wall_limit_secs), ("cpu_limit_secs", record.cpu_limit_secs)
    (name, stated), (other, unstated) = (cpu, wall) if is_cpu else (wall, cpu)
    if unstated is not None:
        lost(other)
    limit = _limit(stated, name, lost)
    return _share(limit, requested, 1, name, lost) if is_cpu else limit


def _queue(record: Any, queues: NameNumbers, lost: Lost) -> int:
    if record.is_interactive:
        if (
            record.queue not in {None, str(INTERACTIVE)}
            and queues.names.get(record.queue or "") != INTERACTIVE
        ):
            lost("queue")  # one name can be that of queue 0
        return INTERACTIVE
    if record.is_interactive is not None:
        lost("is_interactive")
    number = queues.of(record.queue)
    if number == INTERACTIVE:
        lost("queue")  # of jobs that are not interactive, in a log that calls queue 0 so
        return UNKNOWN
    return number


def _waited_and_ran(record: Any, submit: Number | None, lost: Lost) -> tuple[Number, Number]:
    """Return both spans, to the microsecond. Where clocks have gone back, a span is none, its end lost.

    A run that is reported beside a start and an end counts, unless it is longer than from one to the other.
    """
    started, ended, swapped = record.start_secs, record.end_secs, record.suspended_secs or 0
    ran = record.run_secs
    are_whole = type(submit) is type(started) is type(ended) is int and submit <= started <= ended
    # Whole they stay, though the run may be told with decimals.
    if (are_whole and not swapped) and (ran is None or (ran == ended - started and record.state.is_finished)):
        return started - submit, ended - started
    if submit is None:
        for name, value in (("start_secs", started), ("end_secs", ended)):
            if value is not None:
                lost(name)
        ran = compute_run_secs(record)
        return UNKNOWN, UNKNOWN if ran is None or ran < 0 else _rounded(ran)
    if ran is not None and (ran < 0 or record.state.is_on_node or record.state is JobState.PENDING):
        lost("run_secs")
        ran = None
    if started is None and ended is not None and ran is not None and ended - ran - swapped >= submit:
        started = ended - ran - swapped
    if started is None:
        if ran is not None:  # a model tells no more
            if ended is not None:
                lost("end_secs")
            return UNKNOWN, _rounded(ran)
        if ended is not None and record.state is JobState.CANCELLED and ended >= submit:
            return _rounded(ended - submit), UNKNOWN  # cancelled in the queue: it never ran
        if ended is not None:
            lost("end_secs")
        return UNKNOWN, UNKNOWN
    if started < submit:
        lost("start_secs")
        started = submit
    if ended is None:
        if ran is not None:
            return _rounded(started - submit), _rounded(ran)
        if record.state is JobState.CANCELLED:
            lost("start_secs")
        return _rounded(started - submit), UNKNOWN
    if swapped:
        lost("end_secs")  # it is that of the run alone
    span = max(0, ended - started - swapped)
    if span > ended - started - swapped or (ran is not None and _rounded(ran) < _rounded(span)):
        lost("end_secs")
    if ran is not None and _rounded(ran) > _rounded(span):
        lost("run_secs")
    return _rounded(started - submit), _rounded(span if ran is None else min(ran, span))


def _rounded(span: Number) -> Number:
    return span if isinstance(span, int) else round(span, 6)


def _limit(value: object, name: str, lost: Lost) -> int:
    """Return a limit; SWF cannot distinguish unlimited from unknown."""
    if isinstance(value, int):
        return value
    if value is not None:
        lost(name)
    return UNKNOWN


def _share(value: Number | None, count: int | None, unit: int, name: str, lost: Lost) -> Number:
    """Return what falls to one processor, as precisely as a whole number or six decimals are."""
    if value is None or value == UNKNOWN:
        return UNKNOWN
    if not count:
        lost(name)
        return UNKNOWN
    share = value / (count * unit)
    return int(share) if share.is_integer() else round(share, 6)
