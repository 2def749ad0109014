"""The records that all log formats share → lines of SWF, anew or as they were read: pure."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from jobfeatures.errors import ParseError
from jobfeatures.formats.swf.bursts import join_bursts
from jobfeatures.formats.swf.fields import CANCELLED, COMPLETED, FAILED, UNKNOWN, Meaning, Number, SwfJob
from jobfeatures.formats.swf.header import Header, format_header, parse_comment
from jobfeatures.formats.swf.lines import BOM, LARGEST, SwfReader, format_job
from jobfeatures.formats.swf.newheader import make_header, one_line, one_word, start_of
from jobfeatures.formats.swf.numbering import NUMBER, Numbering, Numbers, kinds_of, numbering_of
from jobfeatures.formats.swf.records import (
    BATCH_SYSTEM,
    INTERACTIVE,
    KIB,
    STATES,
    Names,
    make_record,
)
from jobfeatures.joblog import JobRecord, Lost, Passage, compute_run_secs, lines_of
from jobfeatures.model import JobState

_STATUSES: Final = {
    JobState.COMPLETED: COMPLETED,
    JobState.FAILED: FAILED,
    JobState.NODE_FAIL: FAILED,
    JobState.OUT_OF_MEMORY: FAILED,
    JobState.TIMEOUT: FAILED,
    JobState.PREEMPTED: FAILED,
    JobState.CANCELLED: CANCELLED,
}
# What a record may hold and SWF has no place for. Steps are left out as a whole.
_HOMELESS: Final = (
    *("name", "uid", "gid", "account", "reservation", "priority", "eligible_secs", "suspended_secs"),
    *("restarts", "exit_status", "exit_signal", "nodes", "total_nodes", "total_gpus", "requested_nodes"),
    *("requested_gpus", "cluster", "state_word", "qos", "user_cpu_secs", "system_cpu_secs"),
    *("energy_joules", "array_job_id", "array_task_id", "het_job_id", "het_offset", "workflow_id"),
)


def write_records(
    records: Iterable[JobRecord | Passage], lost: Lost, *, renumber: bool = False, rebase: bool = False
) -> Iterator[str]:
    """Return the lines of a log, without newlines.

    A log that was read with its text is written as it stands: comments, order,
    numbers and times, and each line whose record still says what it did.
    `renumber` numbers its users, groups, programs, queues, partitions and jobs
    anew, in their order; `rebase` lets its times begin at the first submission.

    Other records are sorted by submit time, under a header. Job ids stay where
    all are different whole numbers from 1; else jobs are numbered in their
    order, and the ids are lost. Steps have no place, nor have records without
    a submit time, unless they follow another, as those of models may.
    """
    rest = iter(records)
    first = next(rest, None)
    whole = chain([first], rest) if first is not None else rest
    has_text = isinstance(first, Passage) or (first is not None and first.source_text is not None)
    if not has_text:
        yield from _write_anew([each for each in whole if isinstance(each, JobRecord)], lost)
    elif renumber or rebase:
        comments = Header()
        found: list[JobRecord] = []
        for each in whole:
            if isinstance(each, Passage):
                for line in each.text.splitlines():
                    if line.removeprefix(BOM).strip():
                        parse_comment(line.removeprefix(BOM).strip(), comments)
            else:
                found.append(each)
        yield from _write_anew(found, lost, comments, renumber=renumber, rebase=rebase)
    else:
        yield from _write_as_it_was(whole, lost)


def _write_anew(
    records: list[JobRecord],
    lost: Lost,
    old: Header | None = None,
    *,
    renumber: bool = True,
    rebase: bool = True,
) -> Iterator[str]:
    """Return the lines of records sorted by submit time, under a header; `old` is that of their log."""
    kept = _in_order(_with_times(records, lost))
    start_secs = int(min((each.submit_secs for each in kept if each.submit_secs is not None), default=0))
    if old is not None and not rebase:
        start_secs = start_of(old) or 0
    keeps = not (old is not None and renumber) and _may_keep_ids(kept, lost)
    ids = Counter(record.job_id for record in kept)
    numbers = {
        record.job_id: int(record.job_id) if keeps else position
        for position, record in enumerate(kept, 1)
        if ids[record.job_id] == 1
    }
    numbering = numbering_of(None if old is None or renumber else Names(old))
    numbering.queues.name_interactive(kept)
    # "the exact meaning is determined by a header comment"
    is_cpu = all(record.wall_limit_secs is None for record in kept) and any(
        isinstance(record.cpu_limit_secs, int) for record in kept
    )
    jobs = [
        _make_job(record, numbers, position, start_secs, numbering, lost, is_cpu)
        for position, record in enumerate(kept, 1)
    ]
    yield from format_header(make_header(kept, start_secs, numbering, is_cpu, old))
    yield from map(format_job, jobs)


def _with_times(records: list[JobRecord], lost: Lost) -> list[JobRecord]:
    """Return the jobs that have a submit time, or follow one that has."""
    kept = [record for record in records if record.step is None]
    for _ in range(len(records) - len(kept)):
        lost("step")
    while True:
        ids = Counter(record.job_id for record in kept)
        found = [
            each for each in kept if each.submit_secs is not None or ids[each.preceding_job_id or ""] == 1
        ]
        if len(found) == len(kept):
            return found
        for _ in range(len(kept) - len(found)):
            lost("job without submit time")
        kept = found


def _in_order(records: list[JobRecord]) -> list[JobRecord]:
    """Return records by submission; who has none stays behind the one before."""
    keys: list[Number] = []
    for record in records:
        keys.append(record.submit_secs if record.submit_secs is not None else keys[-1] if keys else 0)
    return [records[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]


def _write_as_it_was(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    """Return the lines of a log as they stand; a record that says something else is formatted."""
    header = Header()
    names, numbering = Names(header), numbering_of(Names(header))
    start_secs, preemption, is_cpu = 0, None, False
    has_begun = False
    for each in records:
        if isinstance(each, Passage):
            yield from lines_of(each.text)
            if has_begun:  # what is told behind the first job was not known when it was read
                continue
            for line in each.text.splitlines():
                if comment := line.removeprefix(BOM).strip():
                    parse_comment(comment, header)
            names = Names(header)
            numbering = numbering_of(names)
            start_secs, is_cpu = start_of(header) or 0, header.requests_cpu_time()
            with contextlib.suppress(ParseError):
                preemption = header.preemption()
            continue
        has_begun = True
        text = each.source_text
        if text is not None and text.kind == BATCH_SYSTEM:
            reader = SwfReader(text.text.splitlines(keepends=True))
            again = list(join_bursts(reader, preemption))
            meant = (Meaning(requests_cpu_time=either) for either in (is_cpu, not is_cpu))
            said = (make_record(again[0], start_secs, names, meaning) for meaning in meant)
            if len(again) == 1 and each in said:
                yield from lines_of(text.text)
                continue
        if each.step is not None or (each.submit_secs is None and each.preceding_job_id is None):
            lost("step" if each.step is not None else "job without submit time")
            continue
        number = {each.job_id: int(each.job_id)} if NUMBER.match(each.job_id) else {}
        if each.preceding_job_id is not None and NUMBER.match(each.preceding_job_id):
            number[each.preceding_job_id] = int(each.preceding_job_id)
        if each.job_id not in number:
            lost("job_id")
        job = _make_job(each, number, UNKNOWN, start_secs, numbering, lost, is_cpu)
        for word, label, kind in kinds_of(numbering):
            for name, code in kind.added.items():
                yield (
                    f"; {label}: {code} {one_word(name)}"
                    if label
                    else (f"; Note: {word} {code} is {one_line(name)}")
                )
            kind.added.clear()
        yield format_job(job)


def _may_keep_ids(records: list[JobRecord], lost: Lost) -> bool:
    """Tell whether the ids of jobs can be their numbers."""
    numbers = {
        int(record.job_id)
        for record in records
        if NUMBER.match(record.job_id) and 0 < int(record.job_id) <= LARGEST
    }
    if len(numbers) == len(records):
        return True
    for _ in records:
        lost("job_id")
    return False


def _make_job(
    record: JobRecord,
    numbers: Mapping[str, int],
    position: int,
    start_secs: int,
    numbering: Numbering,
    lost: Lost,
    is_cpu: bool,
) -> SwfJob:
    for name in _HOMELESS:
        if getattr(record, name) not in {None, ()}:
            lost(name)
    for name, _ in record.more:
        lost(name)
    submit = record.submit_secs
    waited, ran = _waited_and_ran(record, submit, lost)
    preceding = numbers.get(record.preceding_job_id or "", UNKNOWN)
    requested = record.requested_cpus or record.total_cpus
    status = _STATUSES.get(record.state, UNKNOWN)
    if STATES.get(status, JobState.UNKNOWN) is not record.state:
        lost("state")
    think = UNKNOWN if record.think_secs is None else record.think_secs
    if record.preceding_job_id is not None and preceding == UNKNOWN:
        lost("preceding_job_id")
        if think != UNKNOWN:
            lost("think_secs")
            think = UNKNOWN
    return SwfJob(
        number=numbers.get(record.job_id, position),
        submit_secs=UNKNOWN if submit is None else submit - start_secs,
        wait_secs=waited,
        run_secs=ran,
        processors=_or_unknown(record.total_cpus),
        cpu_secs=_share(record.used_cpu_secs, record.total_cpus, 1, "used_cpu_secs", lost),
        memory_kib=round(_share(record.used_memory_bytes, record.total_cpus, KIB, "used_memory_bytes", lost)),
        requested_processors=_or_unknown(record.requested_cpus),
        requested_secs=_requested_secs(record, requested, lost, is_cpu),
        requested_memory_kib=round(
            _share(
                _limit(record.requested_memory_bytes, "requested_memory_bytes", lost),
                requested,
                KIB,
                "requested_memory_bytes",
                lost,
            )
        ),
        status=status,
        user=numbering.users.of(record.user),
        group=numbering.groups.of(record.group),
        executable=numbering.executables.of(record.executable),
        queue=_queue(record, numbering.queues, lost),
        partition=numbering.partitions.of(record.partition),
        preceding=preceding,
        think_secs=think,
    )


def _requested_secs(record: JobRecord, requested: int | None, lost: Lost, is_cpu: bool) -> Number:
    """Return the wall limit, or the CPU time that falls to one processor."""
    wall, cpu = ("wall_limit_secs", record.wall_limit_secs), ("cpu_limit_secs", record.cpu_limit_secs)
    (name, said), (other, unsaid) = (cpu, wall) if is_cpu else (wall, cpu)
    if unsaid is not None:
        lost(other)
    limit = _limit(said, name, lost)
    return _share(limit, requested, 1, name, lost) if is_cpu else limit


def _queue(record: JobRecord, queues: Numbers, lost: Lost) -> int:
    """Return the number of a queue, 0 of an interactive job."""
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

    A run that is told beside a start and an end counts where the two do not say the same.
    """
    started, ended, swapped = record.start_secs, record.end_secs, record.suspended_secs or 0
    ran = record.run_secs
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
    told = ended - started - swapped
    if told < 0:
        lost("end_secs")
    if ran is not None and _rounded(ran) != _rounded(max(0, told)):
        lost("run_secs")
    return _rounded(started - submit), _rounded(max(0, told))


def _rounded(span: Number) -> Number:
    return span if isinstance(span, int) else round(span, 6)


def _or_unknown(value: int | None) -> int:
    return UNKNOWN if value is None else value


def _limit(value: object, name: str, lost: Lost) -> int:
    """Return a limit; SWF does not tell unlimited from unknown."""
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
    return int(share) if share == int(share) else round(share, 6)
