"""Writes job records as SWF: newly formatted, or as they were read. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import chain
from typing import Any, Final

from jobfeatures.formats.swf.bursts import join_bursts
from jobfeatures.formats.swf.fields import UNKNOWN, Meaning
from jobfeatures.formats.swf.firstpass import (
    NUMBER,
    FirstPass,
    SwfRow,
    columns_of,
    make_header,
    numbering_of,
    one_line,
    one_word,
)
from jobfeatures.formats.swf.header import Header, format_header, parse_comment
from jobfeatures.formats.swf.inorder import in_order, without
from jobfeatures.formats.swf.lines import BOM, SwfReader
from jobfeatures.formats.swf.makejobs import format_jobs, make_jobs
from jobfeatures.formats.swf.records import BATCH_SYSTEM, KINDS, Names, make_record
from jobfeatures.joblogs.batches import in_batches
from jobfeatures.joblogs.loggedjob import (
    JobBatch,
    JobRecord,
    Lost,
    Passage,
    Sorter,
    lines_of,
    sort_in_memory,
)

# Fields of a record that SWF cannot hold. Steps are left out entirely.
_HOMELESS: Final = (
    *("name", "uid", "gid", "account", "reservation", "priority", "eligible_secs", "suspended_secs"),
    *("restarts", "exit_status", "exit_signal", "nodes", "total_nodes", "total_gpus", "requested_nodes"),
    *("requested_gpus", "cluster", "state_word", "qos", "user_cpu_secs", "system_cpu_secs"),
    *("energy_joules", "array_job_id", "array_task_id", "het_job_id", "het_offset", "workflow_id"),
)
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")  # splitlines() also splits at \f and U+2028


def write_records(
    records: Iterable[Any],  # JobRecord, JobBatch, Passage
    lost: Lost,
    *,
    renumber: bool = False,
    rebase: bool = False,
    sort: Sorter = sort_in_memory,
    zone: tzinfo | None = None,
) -> Iterator[str]:
    """Yield the lines of a log, without newlines. Times in a new header are in `zone`, else in the log's own.

    Records that were read from SWF with their source text are written as they were: comments, order, numbers
    and times are kept, and so is each line whose record is unchanged. `renumber` assigns new numbers to the
    users, groups, programs, queues, partitions and jobs of such a log, in their order. `rebase` makes its
    times begin at the first submission.

    Other records are sorted by submit time, and get a header. Job ids are kept if all are different whole
    numbers from 1; else jobs are numbered in their order, and the ids are lost. Steps are left out. So are
    records without a submit time, unless they follow another job, as in logs made by workload models.
    """
    rest = iter(records)
    first = next(rest, None)
    whole = chain([first], rest) if first is not None else rest
    has_text = isinstance(first, Passage) or getattr(first, "source_text", None) is not None
    if not has_text:
        jobs = in_batches(each for each in whole if not isinstance(each, Passage))
        yield from _write_anew(jobs, lost, sort=sort, zone=zone)
    elif renumber or rebase:
        comments = Header()
        found = in_batches(_without_passages(whole, comments))
        yield from _write_anew(found, lost, comments, renumber=renumber, rebase=rebase, sort=sort, zone=zone)
    else:
        yield from _write_as_it_was(whole, lost)


def _without_passages(records: Iterable[JobRecord | Passage], comments: Header) -> Iterator[JobRecord]:
    """Yield the records; the text between them is read as comments."""
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
    batches: Iterable[JobBatch],
    lost: Lost,
    old: Header | None = None,
    *,
    renumber: bool = True,
    rebase: bool = True,
    sort: Sorter = sort_in_memory,
    zone: tzinfo | None = None,
) -> Iterator[str]:
    """Return the lines of jobs sorted by submit time, under a header; `old` is that of their log."""
    followed: set[str] = set()
    parts = in_order(_with_places(batches, followed, lost), sort)
    if followed:
        parts = without(_without_time(parts(), followed, lost), parts)
    numbering = numbering_of(None if old is None or renumber else Names(old))
    first_pass = FirstPass(numbering, followed)
    for jobs in parts():
        first_pass.add(jobs)
    first_pass.number_queues()
    start_secs = int(first_pass.first_secs or 0)
    if old is not None and not rebase:
        start_secs = old.readable(Header.start_secs) or 0
    keeps = first_pass.keeps_ids and not (old is not None and renumber)
    if not first_pass.keeps_ids and not (old is not None and renumber):
        lost("job_id", first_pass.jobs)
    numbers = {name: int(name) if keeps else place for name, place in first_pass.places.items() if place}
    yield from format_header(make_header(first_pass, start_secs, numbering, old, zone))
    position = 1
    for jobs in parts():
        count = len(jobs.job_id)
        names: Iterable[int] = map(int, jobs.job_id) if keeps else range(position, position + count)
        position += count
        made = make_jobs(jobs, names, numbers, start_secs, numbering, lost, first_pass.is_cpu)
        yield from format_jobs(made)


def _count_homeless(batch: JobBatch, lost: Lost) -> None:
    """Count the values that SWF cannot hold."""
    for name in _HOMELESS:
        values = batch.column(name)
        if count := len(values) - values.count(None) - (values.count(()) if name == "nodes" else 0):
            lost(name, count)
    names = Counter(name for more in filter(None, batch.column("more")) for name, _ in more)
    for name, count in names.items():
        lost(name, count)


def _with_places(batches: Iterable[JobBatch], followed: set[str], lost: Lost) -> Iterator[JobBatch]:
    """Yield the jobs that have a place in a log; add the ids of those that others follow."""
    for each in batches:
        batch = each
        if any(batch.column("step")) or None in batch.column("submit_secs"):
            batch = JobBatch.of([record for record in batch if _is_kept(record, lost)])
        followed.update(filter(None, batch.column("preceding_job_id")))
        _count_homeless(batch, lost)
        yield batch


def _is_kept(record: JobRecord, lost: Lost) -> bool:
    """Return whether a record has a place in a log, and count one that has none."""
    if record.step is not None:
        lost("step")
    elif record.submit_secs is None and record.preceding_job_id is None:
        lost("job without submit time")
    else:
        return True
    return False


def _without_time(parts: Iterable[SwfRow], followed: set[str], lost: Lost) -> set[int]:
    """Return the positions, from 1, of jobs without a time whose preceding job is dropped or ambiguous."""
    there: Counter[str] = Counter()
    timeless = []
    last = 0
    for jobs in parts:
        there.update(filter(followed.__contains__, jobs.job_id))
        stated = zip(jobs.job_id, jobs.submit_secs, jobs.preceding_job_id, strict=True)
        for place, (job_id, submit, before) in enumerate(stated, last + 1):
            if submit is None:
                timeless.append((place, job_id, before))
        last += len(jobs.job_id)
    dropped: set[int] = set()
    while gone := [each for each in timeless if each[0] not in dropped and there[each[2]] != 1]:
        for place, job_id, _ in gone:
            lost("job without submit time")
            dropped.add(place)
            there[job_id] -= 1
    return dropped


def _write_as_it_was(records: Iterable[JobRecord | Passage], lost: Lost) -> Iterator[str]:
    """Return the lines of a log unchanged; those of changed records are formatted."""
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
            stated = (make_record(again[0], start_secs, names, meaning) for meaning in meant)
            if len(again) == 1 and each in stated:
                yield from lines_of(text.text)
                continue
        if not _is_kept(each, lost):
            continue
        number, before = (
            int(name) if name is not None and NUMBER.match(name) else UNKNOWN
            for name in (each.job_id, each.preceding_job_id)
        )
        if number == UNKNOWN:
            lost("job_id")
        numbers = {} if before == UNKNOWN else {str(each.preceding_job_id): before}
        batch = JobBatch.of([each])
        _count_homeless(batch, lost)
        made = make_jobs(columns_of(batch), [number], numbers, start_secs, numbering, lost, is_cpu)
        for kind, label in KINDS.items():
            for name, code in numbering[kind].added.items():
                note = f"Note: {kind} {code} is {one_line(name)}"
                yield f"; {label}: {code} {one_word(name)}" if label else f"; {note}"
            numbering[kind].added.clear()
        yield from format_jobs(made)
