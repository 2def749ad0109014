"""Reads logs in SWF as `JobRecord`s, which all log formats share. Pure.

SWF has numbers for users, groups, programs, queues and partitions. Their names are kept in the header: those
of queues and partitions in comments of their own, the others as notes such as ``Note: user 3 is alice``,
which are understood when a log is read. In SWF, memory and CPU time are per processor; in a record they are
of the whole job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.swf.bursts import JoinedJob, join_bursts
from jobfeatures.formats.swf.fields import CANCELLED, COMPLETED, FAILED, UNKNOWN, Meaning, Number, SwfJob
from jobfeatures.formats.swf.header import Header, Preemption
from jobfeatures.formats.swf.lines import SwfReader
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, Passage, SourceText
from jobfeatures.records.model import JobState

T = TypeVar("T")
BATCH_SYSTEM: Final = "swf"
KIB: Final = 1024
STATES: Final = {COMPLETED: JobState.COMPLETED, FAILED: JobState.FAILED, CANCELLED: JobState.CANCELLED}
INTERACTIVE: Final = 0  # "we suggest that interactive jobs be identified by queue 0"
_UNDERSTOOD: Final = frozenset({"Version", "Preemption", "UnixStartTime", "Queue", "Partition"})
# What has names, and the label of the comments that have them; without one they stand in notes.
KINDS: Final = {"user": "", "group": "", "executable": "", "queue": "Queue", "partition": "Partition"}
NAMED = re.compile(r"(user|group|executable) (-?[0-9]{1,9}) is (.{1,256})\Z", re.DOTALL)


def recognise(head: str) -> bool:
    """Return whether a text is SWF: its comments begin with ``;``, its first other line has 18 numbers."""
    lines = [line.strip() for line in head.split("\n")[:-1] or [head]]
    data = [line for line in lines if line and not line.startswith(";")]
    if data:
        words = data[0].split()
        return len(words) >= 18 and all(re.fullmatch(r"-?[0-9.]{1,20}", word) for word in words)
    return any(re.match(r";\s*(Version|MaxJobs|Computer|UnixStartTime):", line) for line in lines)


def read_records(
    lines: Iterable[str],
    *,
    source: str,
    notes: Notes,
    strict: bool = False,
    keep_text: bool = False,
    meaning: Meaning | None = None,
) -> Iterator[JobRecord | Rejected | Passage]:
    """Yield the jobs of a log; lines that cannot be read are yielded as Rejected.

    Times are epoch seconds, or seconds since the log's time zero if the header has no UnixStartTime. A
    UnixStartTime or Preemption comment that cannot be read is rejected, and taken as absent. If `strict`,
    ParseError is raised instead. With `keep_text`, records hold their source text, and other text is yielded
    as Passage. `notes` counts repairs and values that are not used; `meaning` says how to interpret fields.
    """
    reader = SwfReader(lines, source=source, strict=strict, keep_text=keep_text)
    names = Names(reader.header)
    start_secs: int | None = None
    preemption: Preemption | None = None
    try:
        start_secs = reader.header.start_secs()
    except ParseError as error:
        if strict:
            raise
        yield Rejected.from_error(error)
    try:
        preemption = reader.header.preemption()
    except ParseError as error:
        if strict:
            raise
        yield Rejected.from_error(error)
    meaning = settle_cpu_time_meaning(meaning or Meaning(), reader.header)
    reported = 0
    for joined in join_bursts(reader, preemption):
        while reported < len(reader.rejected):
            yield reader.rejected[reported]
            reported += 1
        record = make_record(joined, start_secs or 0, names, meaning)
        if reader.texts is not None:
            texts = [reader.texts.popleft() for _ in range(joined.lines)]
            if texts[0][0]:
                yield Passage(BATCH_SYSTEM, texts[0][0])
            own = texts[0][1] + "".join(before + line for before, line in texts[1:])
            yield replace(record, source_text=SourceText(BATCH_SYSTEM, own))
        else:
            if joined.job.processors <= 0:
                _count_not_taken(joined.job, notes, meaning)
            yield record
    yield from reader.rejected[reported:]
    if keep_text and reader.trailing:
        yield Passage(BATCH_SYSTEM, reader.trailing)
    notes.repaired.update(reader.repaired)
    if not keep_text:
        for comment in reader.header.comments:
            if comment.label not in _UNDERSTOOD and not NAMED.match(comment.value):
                notes.not_taken[f"comment {comment.label}" if comment.label else "comment"] += 1


def settle_cpu_time_meaning(meaning: Meaning, header: Header) -> Meaning:
    """Return `meaning` with `requests_cpu_time` decided: if it is None, the header's comments decide."""
    if meaning.requests_cpu_time is not None:
        return meaning
    return meaning._replace(requests_cpu_time=header.requests_cpu_time())


def _count_not_taken(job: SwfJob, notes: Notes, meaning: Meaning) -> None:
    """Count per-processor values that have no total, because the number of processors is unknown."""
    for name, value in (("CPU time", job.cpu_secs), ("memory", job.memory_kib)):
        if value != UNKNOWN and not (name == "memory" and meaning.memory_is_of_job):
            notes.not_taken[f"{name}, without allocated processors"] += 1
    is_there = job.requested_memory_kib != UNKNOWN and not meaning.memory_is_of_job
    if job.requested_processors <= 0 and is_there:
        notes.not_taken["requested memory, without processors"] += 1
    if job.requested_processors <= 0 and job.requested_secs != UNKNOWN and meaning.requests_cpu_time:
        notes.not_taken["requested CPU time, without processors"] += 1


class Names:
    """The names that a header gives to users, groups, programs, queues and partitions.

    `known` maps the kind, then the number, to the name.
    """

    def __init__(self, header: Header) -> None:
        self.known = {kind: _by_number(header, label) if label else {} for kind, label in KINDS.items()}
        for note in header.values("Note"):
            if match := NAMED.match(note.value):
                self.known[match[1]][int(match[2])] = match[3]
        self.called = {kind: _Called({**names, UNKNOWN: None}) for kind, names in self.known.items()}


class _Called(dict[int, str | None]):
    """The names of numbers; one that has none is its own."""

    def __missing__(self, number: int) -> str:
        return str(number)


def _by_number(header: Header, label: str) -> dict[int, str]:
    found = header.readable(partial(Header.numbered, label=label)) or {}  # else they stand for themselves
    return {number: name for number, name in found.items() if name}


def make_record(
    joined: JoinedJob, start_secs: int, names: Names, meaning: Meaning | None = None
) -> JobRecord:
    """Convert a job of SWF to a record; `start_secs` is the log's time zero in epoch seconds.

    `names` are those that the log's header gives to users, groups and so on.
    """
    is_bytes, is_of_job, is_cpu, no_waits = meaning or Meaning()
    if no_waits and joined.job.wait_secs == UNKNOWN and joined.job.run_secs != UNKNOWN:
        joined = joined._replace(job=joined.job._replace(wait_secs=0))
    number, submit, _, ran, processors, cpu, memory, asked, limit_secs, asked_memory = joined.job[:10]
    status, user, group, executable, queue, partition, preceding, think = joined.job[10:]
    started, swapped = joined.start_secs, joined.swapped_secs
    ended = None if started is None or ran == UNKNOWN else started + ran + swapped
    if status == CANCELLED and ran == UNKNOWN:  # in the queue, after what it waited
        started, ended = None, started
    requested = asked if asked > 0 else processors
    called = names.called
    unit = 1 if is_bytes else KIB
    return JobRecord(
        batch_system=BATCH_SYSTEM,
        job_id=str(number),
        state=STATES.get(status, JobState.UNKNOWN),
        user=called["user"][user],
        group=called["group"][group],
        executable=called["executable"][executable],
        queue=called["queue"][queue],
        partition=called["partition"][partition],
        is_interactive=True if queue == INTERACTIVE else None,
        submit_secs=None if submit == UNKNOWN else start_secs + submit,
        start_secs=None if started is None else start_secs + started,
        end_secs=None if ended is None else start_secs + ended,
        run_secs=_known(ran),
        suspended_secs=swapped or None,
        total_cpus=_known(processors),
        requested_cpus=_known(asked),
        requested_memory_bytes=_product(asked_memory, 1 if is_of_job else requested, unit),
        wall_limit_secs=None if is_cpu else _product(limit_secs, 1, 1),
        cpu_limit_secs=_product(limit_secs, requested, 1) if is_cpu else None,
        used_cpu_secs=_cpu_secs(cpu, processors),
        used_memory_bytes=_product(memory, 1 if is_of_job else processors, unit),
        preceding_job_id=None if preceding == UNKNOWN else str(preceding),
        think_secs=_known(think),
    )


def _known(value: T) -> T | None:
    return None if value == UNKNOWN else value


def _product(each: Number, count: int, unit: int) -> int | None:
    """Return the total over `count` processors, None if either number is unknown."""
    return None if each == UNKNOWN or count <= 0 else round(each * count * unit)


def _cpu_secs(average: Number, processors: int) -> Number | None:
    """Return the CPU time of all processors, to the microsecond."""
    if average == UNKNOWN or processors <= 0:
        return None
    secs = average * processors
    if isinstance(secs, int):
        return secs
    rounded = round(secs, 6)
    return int(rounded) if rounded == int(rounded) else rounded
