"""Writes job records as SWF: newly formatted, or as they were read. Pure."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from operator import attrgetter
from typing import Final

from jobfeatures.formats.swf.bursts import join_bursts
from jobfeatures.formats.swf.fields import CANCELLED, COMPLETED, FAILED, UNKNOWN, Meaning, Number, SwfJob
from jobfeatures.formats.swf.header import Header, format_header, parse_comment
from jobfeatures.formats.swf.lines import BOM, SwfReader, format_job
from jobfeatures.formats.swf.records import BATCH_SYSTEM, INTERACTIVE, KIB, KINDS, STATES, Names, make_record
from jobfeatures.formats.swf.survey import (
    NUMBER,
    Numbering,
    Numbers,
    Survey,
    make_header,
    numbering_of,
    one_line,
    one_word,
)
from jobfeatures.joblogs.loggedjob import (
    JobRecord,
    Lost,
    Pair,
    Passage,
    Sorter,
    compute_run_secs,
    lines_of,
    some_at_once,
    sort_in_memory,
)
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
_SAID: Final = frozenset({*STATES.values(), JobState.UNKNOWN})
# Fields of a record that SWF cannot hold. Steps are left out entirely.
_HOMELESS: Final = (
    *("name", "uid", "gid", "account", "reservation", "priority", "eligible_secs", "suspended_secs"),
    *("restarts", "exit_status", "exit_signal", "nodes", "total_nodes", "total_gpus", "requested_nodes"),
    *("requested_gpus", "cluster", "state_word", "qos", "user_cpu_secs", "system_cpu_secs"),
    *("energy_joules", "array_job_id", "array_task_id", "het_job_id", "het_offset", "workflow_id"),
)
_HOMELESS_OF: Final = attrgetter(*_HOMELESS)
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")  # splitlines() also splits at \f and U+2028


def write_records(
    records: Iterable[JobRecord | Passage],
    lost: Lost,
    *,
    renumber: bool = False,
    rebase: bool = False,
    sort: Sorter = sort_in_memory,
) -> Iterator[str]:
    """Return the lines of a log, without newlines.

    A log that was read with its text is written as it stands: comments, order, numbers and times, and each
    line whose record still says what it did. `renumber` numbers its users, groups, programs, queues,
    partitions and jobs anew, in their order; `rebase` lets its times begin at the first submission.

    Other records are sorted by submit time, under a header. Job ids stay where all are different whole
    numbers from 1; else jobs are numbered in their order, and the ids are lost. Steps have no place, nor have
    records without a submit time, unless they follow another, as those of models may.
    """
    rest = iter(records)
    first = next(rest, None)
    whole = chain([first], rest) if first is not None else rest
    has_text = isinstance(first, Passage) or (first is not None and first.source_text is not None)
    if not has_text:
        jobs = (each for each in whole if isinstance(each, JobRecord))
        yield from _write_anew(jobs, lost, sort=sort)
    elif renumber or rebase:
        comments = Header()
        found = _without_passages(whole, comments)
        yield from _write_anew(found, lost, comments, renumber=renumber, rebase=rebase, sort=sort)
    else:
        yield from _write_as_it_was(whole, lost)


def _without_passages(records: Iterable[JobRecord | Passage], comments: Header) -> Iterator[JobRecord]:
    """Yield the records; what stands between them is read as comments."""
    for each in records:
        if isinstance(each, Passage):
            _read_comments(each, comments)
        else:
            yield each


def _read_comments(passage: Passage, header: Header) -> None:
    for line in _LINE.findall(passage.text):
        if comment := line.removeprefix(BOM).strip():
            parse_comment(comment, header)


def _write_anew(
    records: Iterable[JobRecord],
    lost: Lost,
    old: Header | None = None,
    *,
    renumber: bool = True,
    rebase: bool = True,
    sort: Sorter = sort_in_memory,
) -> Iterator[str]:
    """Return the lines of records sorted by submit time, under a header; `old` is that of their log."""
    followed: set[str] = set()
    kept = sort(_with_keys(records, followed, lost))
    dropped = _without_time(kept, followed, lost) if followed else set()

    def jobs() -> Iterator[JobRecord]:
        return (record for place, (_, record) in enumerate(kept) if place not in dropped)

    numbering = numbering_of(None if old is None or renumber else Names(old))
    survey = Survey(numbering, followed)
    for some in some_at_once(jobs()):
        survey.add(some)
    survey.number_queues()
    start_secs = int(survey.first_secs or 0)
    if old is not None and not rebase:
        start_secs = old.readable(Header.start_secs) or 0
    keeps = survey.keeps_ids and not (old is not None and renumber)
    if not survey.keeps_ids and not (old is not None and renumber):
        for _ in range(survey.jobs):
            lost("job_id")
    numbers = {name: int(name) if keeps else place for name, place in survey.places.items() if place}
    yield from format_header(make_header(survey, start_secs, numbering, old))
    for position, record in enumerate(_without_home(jobs(), lost), 1):
        number = int(record.job_id) if keeps else position
        yield format_job(_make_job(record, number, numbers, start_secs, numbering, lost, survey.is_cpu))


def _without_home(records: Iterable[JobRecord], lost: Lost) -> Iterator[JobRecord]:
    """Yield records; count the values that SWF cannot hold, in batches."""
    for some in some_at_once(records):
        for name, values in zip(_HOMELESS, zip(*map(_HOMELESS_OF, some), strict=True), strict=True):
            count = len(some) - values.count(None) - (values.count(()) if name == "nodes" else 0)
            deque(map(lost, repeat(name, count)), 0)
        for record in some:
            for name, _ in record.more:
                lost(name)
        yield from some


def _with_keys(records: Iterable[JobRecord], followed: set[str], lost: Lost) -> Iterator[Pair]:
    """Yield jobs keyed by submit time; a dependent job without one gets the key of the job before it."""
    key: Number = 0
    for record in records:
        if record.step is not None:
            lost("step")
            continue
        if record.preceding_job_id is not None:
            followed.add(record.preceding_job_id)
        elif record.submit_secs is None:
            lost("job without submit time")
            continue
        key = key if record.submit_secs is None else record.submit_secs
        yield key, record


def _without_time(jobs: Iterable[Pair], followed: set[str], lost: Lost) -> set[int]:
    """Return the positions of jobs without a submit time whose preceding job is dropped or ambiguous."""
    there: Counter[str] = Counter()
    timeless = []
    for place, (_, record) in enumerate(jobs):
        if record.job_id in followed:
            there[record.job_id] += 1
        if record.submit_secs is None:
            timeless.append((place, record.job_id, record.preceding_job_id))
    dropped: set[int] = set()
    while gone := [each for each in timeless if each[0] not in dropped and there[each[2]] != 1]:
        for place, job_id, _ in gone:
            lost("job without submit time")
            dropped.add(place)
            there[job_id] -= 1
    return dropped


def _write_as_it_was(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    """Return the lines of a log as they stand; a record that says something else is formatted."""
    header = Header()
    names, numbering = Names(header), numbering_of(Names(header))
    start_secs, preemption, is_cpu = 0, None, False
    has_begun = False
    for each in records:
        if isinstance(each, Passage):
            yield from lines_of(each.text)
            if has_begun:  # what is reported behind the first job was not known when it was read
                continue
            _read_comments(each, header)
            names = Names(header)
            numbering = numbering_of(names)
            start_secs, is_cpu = header.readable(Header.start_secs) or 0, header.requests_cpu_time()
            preemption = header.readable(Header.preemption)
            continue
        has_begun = True
        text = each.source_text
        if text is not None and text.kind == BATCH_SYSTEM:
            reader = SwfReader(_LINE.findall(text.text))
            again = list(join_bursts(reader, preemption))
            meant = (Meaning(requests_cpu_time=either) for either in (is_cpu, not is_cpu))
            said = (make_record(again[0], start_secs, names, meaning) for meaning in meant)
            if len(again) == 1 and each in said:
                yield from lines_of(text.text)
                continue
        if each.step is not None or (each.submit_secs is None and each.preceding_job_id is None):
            lost("step" if each.step is not None else "job without submit time")
            continue
        number, before = (
            int(name) if name is not None and NUMBER.match(name) else UNKNOWN
            for name in (each.job_id, each.preceding_job_id)
        )
        if number == UNKNOWN:
            lost("job_id")
        numbers = {} if before == UNKNOWN else {str(each.preceding_job_id): before}
        [record] = _without_home([each], lost)
        job = _make_job(record, number, numbers, start_secs, numbering, lost, is_cpu)
        for kind, label in KINDS.items():
            for name, code in numbering[kind].added.items():
                note = f"Note: {kind} {code} is {one_line(name)}"
                yield f"; {label}: {code} {one_word(name)}" if label else f"; {note}"
            numbering[kind].added.clear()
        yield format_job(job)


def _make_job(
    record: JobRecord,
    number: int,
    numbers: Mapping[str, int],
    start_secs: int,
    numbering: Numbering,
    lost: Lost,
    is_cpu: bool,
) -> SwfJob:
    submit = record.submit_secs
    waited, ran = _waited_and_ran(record, submit, lost)
    preceding = numbers.get(record.preceding_job_id or "", UNKNOWN)
    requested = record.requested_cpus or record.total_cpus
    status = _STATUSES.get(record.state, UNKNOWN)
    if record.state not in _SAID:
        lost("state")
    think = UNKNOWN if record.think_secs is None else record.think_secs
    if record.preceding_job_id is not None and preceding == UNKNOWN:
        lost("preceding_job_id")
        if think != UNKNOWN:
            lost("think_secs")
            think = UNKNOWN
    cpus, memory = record.total_cpus, _limit(record.requested_memory_bytes, "requested_memory_bytes", lost)
    return SwfJob(
        number,
        UNKNOWN if submit is None else submit - start_secs,
        waited,
        ran,
        UNKNOWN if cpus is None else cpus,
        _share(record.used_cpu_secs, cpus, 1, "used_cpu_secs", lost),
        _kib(record.used_memory_bytes, cpus, "used_memory_bytes", lost),
        UNKNOWN if record.requested_cpus is None else record.requested_cpus,
        _requested_secs(record, requested, lost, is_cpu),
        _kib(memory, requested, "requested_memory_bytes", lost),
        status,
        numbering["user"].of(record.user),
        numbering["group"].of(record.group),
        numbering["executable"].of(record.executable),
        _queue(record, numbering["queue"], lost),
        numbering["partition"].of(record.partition),
        preceding,
        think,
    )


def _requested_secs(record: JobRecord, requested: int | None, lost: Lost, is_cpu: bool) -> Number:
    """Return the wall limit, or the CPU time that falls to one processor."""
    if not is_cpu and record.cpu_limit_secs is None and isinstance(record.wall_limit_secs, int):
        return record.wall_limit_secs  # most of them
    wall, cpu = ("wall_limit_secs", record.wall_limit_secs), ("cpu_limit_secs", record.cpu_limit_secs)
    (name, said), (other, unsaid) = (cpu, wall) if is_cpu else (wall, cpu)
    if unsaid is not None:
        lost(other)
    limit = _limit(said, name, lost)
    return _share(limit, requested, 1, name, lost) if is_cpu else limit


def _queue(record: JobRecord, queues: Numbers, lost: Lost) -> int:
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


def _waited_and_ran(record: JobRecord, submit: Number | None, lost: Lost) -> tuple[Number, Number]:
    """Return both spans, to the microsecond. Where clocks have gone back, a span is none, its end lost.

    A run that is reported beside a start and an end counts where the two do not say the same.
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
    reported = ended - started - swapped
    if reported < 0:
        lost("end_secs")
    if ran is not None and _rounded(ran) != _rounded(max(0, reported)):
        lost("run_secs")
    return _rounded(started - submit), _rounded(max(0, reported))


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
    return int(share) if share == int(share) else round(share, 6)
