"""Makes lines of SWF from the columns of jobs. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final

from jobfeatures.formats.swf.fields import CANCELLED, COMPLETED, FAILED, UNKNOWN, Number
from jobfeatures.formats.swf.records import INTERACTIVE, KIB, STATES
from jobfeatures.formats.swf.survey import Numbering, Numbers, SwfRow
from jobfeatures.joblogs.loggedjob import Lost, compute_run_secs
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
_SAID: Final = frozenset({*STATES.values(), JobState.UNKNOWN})


def make_jobs(
    rows: Sequence[Any],
    jobs: SwfRow,
    names: Iterable[int],
    numbers: Mapping[str, int],
    start_secs: int,
    numbering: Numbering,
    lost: Lost,
    is_cpu: bool,
) -> Iterator[Any]:
    """Return the values of `SwfJob` of each job; `jobs` are the columns of `rows`, `names` their numbers."""
    cpus, asked = jobs.total_cpus, jobs.requested_cpus
    requested = [one or other for one, other in zip(asked, cpus, strict=True)]
    memory = [_limit(each, "requested_memory_bytes", lost) for each in jobs.requested_memory_bytes]
    submits = jobs.submit_secs
    spans = zip(
        rows, submits, jobs.start_secs, jobs.end_secs, jobs.run_secs, jobs.suspended_secs, strict=True
    )
    are_whole = {*map(type, chain(submits, jobs.start_secs, jobs.end_secs))} == {int}
    waited, ran = zip(
        *[
            (start - submit, end - start)
            if are_whole and submit <= start <= end and run == end - start and not out and row.state in _ENDED
            else _waited_and_ran(row, submit, lost)
            for row, submit, start, end, run, out in spans
        ],
        strict=True,
    )
    deque(map(lost, repeat("state", sum(state not in _SAID for state in jobs.state))), 0)
    has_queues = {*jobs.queue, *jobs.is_interactive} != {None}
    links = [_link(*each, numbers, lost) for each in zip(jobs.preceding_job_id, jobs.think_secs, strict=True)]
    preceding, think = zip(*links, strict=True)
    return zip(
        names,
        [UNKNOWN if submit is None else submit - start_secs for submit in submits],
        waited,
        ran,
        [UNKNOWN if each is None else each for each in cpus],
        map(_share, jobs.used_cpu_secs, cpus, repeat(1), repeat("used_cpu_secs"), repeat(lost)),
        map(_kib, jobs.used_memory_bytes, cpus, repeat("used_memory_bytes"), repeat(lost)),
        [UNKNOWN if each is None else each for each in asked],
        [_requested_secs(row, count, lost, is_cpu) for row, count in zip(rows, requested, strict=True)],
        map(_kib, memory, requested, repeat("requested_memory_bytes"), repeat(lost)),
        [_STATUSES.get(state, UNKNOWN) for state in jobs.state],
        numbering["user"].column(jobs.user),
        numbering["group"].column(jobs.group),
        numbering["executable"].column(jobs.executable),
        [_queue(row, numbering["queue"], lost) for row in rows] if has_queues else repeat(UNKNOWN),
        numbering["partition"].column(jobs.partition),
        preceding,
        think,
        strict=False,
    )


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
    if not is_cpu and record.cpu_limit_secs is None and isinstance(record.wall_limit_secs, int):
        return record.wall_limit_secs  # most of them
    wall, cpu = ("wall_limit_secs", record.wall_limit_secs), ("cpu_limit_secs", record.cpu_limit_secs)
    (name, said), (other, unsaid) = (cpu, wall) if is_cpu else (wall, cpu)
    if unsaid is not None:
        lost(other)
    limit = _limit(said, name, lost)
    return _share(limit, requested, 1, name, lost) if is_cpu else limit


def _queue(record: Any, queues: Numbers, lost: Lost) -> int:
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
    if (
        type(submit) is type(started) is type(ended) is int and submit <= started <= ended and not swapped
    ) and (ran is None or (ran == ended - started and record.state.is_finished)):  # nearly all of them
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
    """Return a limit; SWF does not tell unlimited from unknown."""
    if isinstance(value, int):
        return value
    if value is not None:
        lost(name)
    return UNKNOWN


def _kib(size_bytes: Number | None, count: int | None, name: str, lost: Lost) -> int:
    """Return the memory that falls to one processor, in whole KiB: 0 only of nothing."""
    share = _share(size_bytes, count, KIB, name, lost)
    if type(share) is int:
        return share
    lost(f"{name}: rounded to KiB")
    return round(share) or 1


def _share(value: Number | None, count: int | None, unit: int, name: str, lost: Lost) -> Number:
    """Return what falls to one processor, as precisely as a whole number or six decimals are."""
    if value is None or value == UNKNOWN:
        return UNKNOWN
    if not count:
        lost(name)
        return UNKNOWN
    share = value / (count * unit)
    return int(share) if share.is_integer() else round(share, 6)
