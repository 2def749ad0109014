"""Writes a simulated schedule as lines of the Standard Workload Format (SWF). Needs numpy.

If the log was in SWF, all fields except wait and allocated processors are kept, and so are header fields
about jobs and users, but not those about its scheduler. Logs in other formats are written as by `jobfeatures
convert`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Final, NamedTuple

import numpy as np

from jobfeatures import __version__
from jobfeatures.analysis.schedule.jobarrays import whole_jobs
from jobfeatures.analysis.schedule.logreading import Read
from jobfeatures.analysis.schedule.runs import Array, Store, as_rows, merge
from jobfeatures.analysis.schedule.shares import CPU, plain
from jobfeatures.analysis.simulate.policies import Fairshare, Policy
from jobfeatures.analysis.simulate.workload import Outcome, Workload, seconds
from jobfeatures.errors import ParseError, shown_name
from jobfeatures.formats.swf.columns import SwfColumns
from jobfeatures.formats.swf.fields import FIELDS, TIME_FIELDS, UNKNOWN, SwfJob
from jobfeatures.formats.swf.firstpass import NumberSet
from jobfeatures.formats.swf.header import Comment, Header, format_date, format_header
from jobfeatures.formats.swf.lines import format_job
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, Number, Sorter, sort_in_memory
from jobfeatures.logkinds import write_log

# Header fields about jobs and their origin, which a simulation does not change.
KEPT: Final = (
    "Installation", "Acknowledge", "Information", "UnixStartTime", "TimeZoneString", "MaxRuntime",
    "MaxMemory", "AllowOveruse", "MaxQueues", "Queues", "Queue", "MaxPartitions", "Partitions", "Partition",
)  # fmt: skip
AT_ONCE: Final = 2**16  # jobs formatted at a time
_NAMES = re.compile(r"(?:user|group|executable) -?[0-9]{1,9} is ")


def describe(source: str, workload: Workload, policy: Policy, rules: Fairshare) -> list[tuple[str, str]]:
    """Return the header comments that describe a simulation, as pairs of label and value.

    `source` is the name of the simulated log.
    """
    pool = workload.pool
    log = shown_name(source.rpartition("/")[2])
    texts = [
        ("Computer", f"simulated: {pool.text}"),
        ("Conversion", f"simulated by jobfeatures {__version__} from {log}"),
        ("MaxProcs", str(pool.processors)),
        ("Note", f"this schedule is simulated: policy {policy.value}, on {pool.text}"),
    ]
    if pool.nodes:
        texts.insert(2, ("MaxNodes", str(len(pool.nodes))))
    if policy.is_fair:
        halved = f"halved every {rules.halving_secs} s" if rules.halving_secs else "never halved"
        reported = (
            f"fairshare: usage counts up to each decision, and every {rules.refresh_secs} s; it is {halved}"
        )
        for kind, shares in (("", rules.shares.users), ("group ", rules.shares.groups)):
            reported += "".join(
                f"; share of {kind}{name} {plain(CPU, each[CPU])}" for name, each in shares.items()
            )
        texts.append(("Note", reported))
    if count := sum(workload.skipped.values()):
        why = ", ".join(f"{reason} {count}" for reason, count in workload.skipped.items())
        texts.append(("Note", f"{count} jobs of the log are not in it: {why}"))
    return texts


class _Part(NamedTuple):
    """The simulated jobs of one piece of a log."""

    first: int  # index of the first, in the workload
    position: Array  # of each in its piece
    submits: Array  # in seconds
    starts: Array
    waits: Array


def _parts(workload: Workload, outcome: Outcome) -> Iterator[_Part]:
    first = 0
    for count in workload.counts:
        some = slice(first, first + count)
        submits, starts = outcome.submits[some], outcome.starts[some]
        times = (seconds(each, workload.ticks) for each in (submits, starts, starts - submits))
        yield _Part(first, workload.position[some], *times)
        first += count
        workload.columns.release()


def swf_lines(
    pieces: Callable[[], Iterable[SwfColumns]],
    workload: Workload,
    outcome: Outcome,
    about: Sequence[tuple[str, str]],
    store: Store | None = None,
) -> Iterator[str]:
    """Yield the lines of a simulated schedule, without newlines, if the original log was in SWF.

    `pieces` returns the original log in pieces. Lines are in order of submission; if jobs follow others, they
    are sorted in the `store`. Job numbers are kept if all are unique and positive. `about` holds the header
    comments, from `describe`.
    """
    headers: list[Header] = []
    last, different, are_numbers = 0, NumberSet(), True
    for columns, part in zip(pieces(), _parts(workload, outcome), strict=True):
        headers.append(columns.header)
        table = whole_jobs(columns)[0]
        if len(part.position):
            ends = part.starts + table["run_secs"][part.position]
            last = max(last, ends.max().item())
        numbers = table["number"][part.position].tolist()
        are_numbers = are_numbers and min(numbers, default=1) > 0 and different.add(numbers)
    yield from format_header(_make_header(headers[0], len(workload.position), last, about))
    blocks = _blocks(pieces(), workload, outcome)
    if not workload.jobs.preceding:
        first = 1
        for block in blocks:
            if not are_numbers:
                block["number"] = np.arange(first, first + len(block))
                first += len(block)
            yield from map(format_job, _make_jobs(block))
        return
    runs = [(store or Store(sys.maxsize)).write(block) for block in blocks]
    numbers = np.asarray(workload.columns.filled(1, len(workload.position)))
    count = 0
    for block in merge(runs, AT_ONCE, key="submit_secs"):
        numbers[block["job"]] = (
            block["number"] if are_numbers else np.arange(count + 1, count + 1 + len(block))
        )
        count += len(block)
        workload.columns.release()
    preceding = np.asarray(workload.jobs.preceding)
    for block in merge(runs, AT_ONCE, key="submit_secs"):
        before = preceding[block["job"]]
        block["number"] = numbers[block["job"]]
        block["preceding"] = np.where(before < 0, UNKNOWN, numbers[before])
        block["think_secs"] = np.where(before < 0, UNKNOWN, block["think_secs"])
        yield from map(format_job, _make_jobs(block))
        workload.columns.release()


def _blocks(pieces: Iterable[SwfColumns], workload: Workload, outcome: Outcome) -> Iterator[Array]:
    """Yield simulated jobs as rows of SWF fields, each piece in order of submission."""
    for columns, part in zip(pieces, _parts(workload, outcome), strict=True):
        table = whole_jobs(columns)[0]
        given, asked = table["processors"], table["requested_processors"]
        nobody = np.full(len(given), UNKNOWN)
        followed = {} if workload.jobs.preceding else {"preceding": nobody, "think_secs": nobody}
        table = table | followed | {"processors": np.where(given >= 0, given, asked)}
        order = np.argsort(part.submits, kind="stable")
        for first in range(0, len(order), AT_ONCE):
            some = order[first : first + AT_ONCE]
            found = {name: each[part.position[some]] for name, each in table.items()}
            found |= {
                "submit_secs": part.submits[some],
                "wait_secs": part.waits[some],
                "job": part.first + some,
            }
            yield as_rows(found)


def record_lines(
    reads: Callable[[], Iterable[Read]],
    workload: Workload,
    outcome: Outcome,
    about: Sequence[tuple[str, str]],
    sort: Sorter = sort_in_memory,
) -> Iterator[str]:
    """Yield the lines of a simulated schedule, without newlines, if the original log was not in SWF.

    `reads` returns the original log in pieces; `sort` sorts its records. `about` holds the header comments,
    from `describe`.
    """
    header = [f"{label}: {value}" for label, value in about]
    parts = zip(reads(), _parts(workload, outcome), strict=True)
    found = chain.from_iterable(_make_records(*each, workload.jobs.preceding) for each in parts)
    yield from write_log(found, "swf", Notes(), header=header, sort=sort)


def _make_records(read: Read, part: _Part, preceding: Sequence[int]) -> Iterator[JobRecord]:
    here = preceding[part.first : part.first + len(part.position)]
    follows = [before >= 0 for before in here] or repeat(False)
    columns = (each.tolist() for each in (part.position, part.submits, part.waits))
    for place, submitted, wait, is_follower in zip(*columns, follows, strict=False):
        record = read.records[place]
        submit = (read.log.zero_secs or 0) + submitted if is_follower else record.submit_secs or 0
        start = submit + wait
        if record.start_secs is None or record.end_secs is None:
            ran = record.run_secs or 0
        else:
            ran = record.end_secs - record.start_secs - (record.suspended_secs or 0)
        cpus = record.total_cpus if record.total_cpus is not None else record.requested_cpus
        yield replace(
            record,
            submit_secs=submit,
            preceding_job_id=record.preceding_job_id if is_follower else None,
            think_secs=record.think_secs if is_follower else None,
            start_secs=start,
            end_secs=start + ran,
            run_secs=None,
            suspended_secs=None,
            total_cpus=cpus,
        )


def _make_jobs(rows: Array) -> Iterator[SwfJob]:
    columns = {name: rows[name].tolist() for name in FIELDS}
    for name in TIME_FIELDS:
        columns[name] = [_plain(value) for value in columns[name]]
    return map(SwfJob._make, zip(*columns.values(), strict=True))


def _plain(value: Number) -> Number:
    return int(value) if value == int(value) else value


def _make_header(old: Header, jobs: int, last: Number, about: Sequence[tuple[str, str]]) -> Header:
    texts = [
        ("Version", "2.2"),
        *(each for each in about if each[0] != "Note"),
        *((each.label, each.value) for each in old.comments if each.label in KEPT),
        ("MaxJobs", str(jobs)),
        ("MaxRecords", str(jobs)),
        ("Preemption", "No"),
        *_clocks(old, last),
        *(each for each in about if each[0] == "Note"),
        *(("Note", each.value) for each in old.values("Note") if _NAMES.match(each.value)),
    ]
    return Header("", [Comment(label, value) for label, value in texts])


def _clocks(old: Header, last: Number) -> list[tuple[str, str]]:
    """Return the schedule's begin and end as wall-clock times, where the log's header has them."""
    if old.value("TimeZoneString") is None:
        return []
    try:
        clocks = (("StartTime", old.wall_clock(0)), ("EndTime", old.wall_clock(int(last))))
        return [(label, format_date(moment)) for label, moment in clocks if moment is not None]
    except (ParseError, ValueError, OSError, OverflowError):  # `check` reports it
        return []
