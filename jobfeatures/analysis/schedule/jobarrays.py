"""Holds a log of jobs as arrays, the input of all modules that evaluate schedules.

Times are seconds since the log's time zero: int64 where all are whole numbers, else float64. A value missing
from the log is `UNKNOWN`, a value that cannot be true is `IMPOSSIBLE`. An array is None where the log has no
values of its kind at all.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.eligibility import IMPOSSIBLE, LATEST_SECS, UNKNOWN, compute_runtime
from jobfeatures.analysis.schedule.followers import Links, digest
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.formats.swf.bursts import join_bursts
from jobfeatures.formats.swf.columns import SwfColumns
from jobfeatures.formats.swf.fields import CANCELLED, PARTIAL, Meaning, SwfJob
from jobfeatures.formats.swf.header import Header, Preemption
from jobfeatures.formats.swf.records import Names, settle_cpu_time_meaning
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, Number, several_clusters
from jobfeatures.records.model import JobState

MOST: Final = 2**62  # largest product that still fits
KIB: Final = 1024
LINKING: Final = ("number", "preceding", "think_secs")  # fields of SWF
_NUMBER = re.compile(r"[0-9.]+")
DENSE: Final = 2**22  # numbers below this are counted, not sorted
# No machine has this much memory per processor: such "KiB" are really bytes.
USUAL_MOST_KIB: Final = 2**28  # 256 GiB
LARGEST_KIB: Final = 2**32  # 4 TiB


class Labels(NamedTuple):
    """The users, groups, queues or partitions of jobs: `names[codes[i]]` is that of job i.

    A code of −1 means unknown. `numbers` holds the number by which `Spooled` stores each name.
    """

    codes: Array
    names: list[str]
    numbers: list[int] | None = None  # the numbers that the names stand for, in order


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScheduleLog:
    """All jobs of one log as arrays, one array per field, in the log's order.

    Times are in seconds since time zero, which is `zero_secs` in epoch seconds. `runtime` excludes the time
    for which a job was swapped out. `cpus` and `gpus` are allocated amounts, else requested ones;
    `memory_kib` is the whole job's requested memory, else the used one. Tasks of one job array have the same
    value in `arrays`, jobs of one workflow in `workflows`. `could_start` is when a job could have started
    after the job that it follows. `totals` are the machine's resources. `unreadable` and `folded` count
    records that were skipped, or merged into others. `places`, if not None, are the jobs' indices in the log:
    the arrays are then in another order. Entries with the same value in `ids` may be the same job.
    """

    name: str
    submit: Array
    eligible: Array | None = None
    start: Array
    end: Array
    runtime: Array  # without the time swapped out
    is_cancelled: Array
    cpus: Array  # allocated, else requested
    memory_kib: Array | None = None  # of the whole job: requested, else used
    gpus: Array | None = None  # allocated, else requested
    requested_secs: Array | None = None  # requested runtime
    links: Links | None = None  # which job follows which
    arrays: Array | None = None  # equal for tasks of one array, −1: none
    workflows: Array | None = None
    could_start: Array | None = None  # since when, given the end of the job it follows
    user: Labels
    group: Labels
    queue: Labels
    partition: Labels
    totals: dict[str, int] = field(default_factory=dict)  # the machine's, by resource
    zero_secs: int | None = None  # epoch seconds at time zero
    unreadable: int = 0  # records that were skipped
    folded: dict[str, int] = field(default_factory=dict)  # records merged into others, by reason
    places: Array | None = None  # in the log, where jobs are in another order
    ids: Array | None = None  # equal for entries that may be one job, see `folding`
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.submit)


def from_swf(columns: SwfColumns, name: str, meaning: Meaning | None = None) -> ScheduleLog:
    """Convert columns of a log in the Standard Workload Format to arrays; links between jobs are not set.

    Memory is per processor in this format, unless `meaning` says otherwise. A job that was swapped out, and
    so has several rows, becomes one entry. Times are seconds since the log's time zero.
    """
    header = columns.header
    meaning = settle_cpu_time_meaning(meaning or Meaning(), header)
    table, swapped = whole_jobs(columns)
    submit, wait, runtime = table["submit_secs"], table["wait_secs"], table["run_secs"]
    too_late = (submit > LATEST_SECS) | (wait > LATEST_SECS) | (runtime > LATEST_SECS)
    if too_late.any():
        submit, wait = (np.where(too_late, 0, each) for each in (submit, wait))
        runtime = np.where(too_late, IMPOSSIBLE, runtime)
    if meaning.no_waits:
        wait = np.where((wait == UNKNOWN) & (runtime >= 0), 0, wait)
    start = np.where((submit >= 0) & (wait >= 0), submit + wait, UNKNOWN)
    processors, requested = table["processors"], table["requested_processors"]
    cpus = np.where(processors >= 0, processors, requested)
    asked, used = table["requested_memory_kib"], table["memory_kib"]
    if meaning.memory_is_bytes:
        asked, used = (np.where(each >= 0, -(-each // KIB), each) for each in (asked, used))
    memory = _product(asked, np.where(requested > 0, requested, processors), meaning)
    memory = np.where(memory >= 0, memory, _product(used, processors, meaning))
    end = np.where((start >= 0) & (runtime >= 0), start + runtime + swapped, UNKNOWN)
    names = Names(header)
    warnings = [f"{count} × {repair}" for repair, count in columns.repaired.items()]
    looks = _looks_like_bytes(asked, used)
    return ScheduleLog(
        name=name,
        submit=submit,
        start=start,
        end=end,
        runtime=runtime,
        is_cancelled=table["status"] == CANCELLED,
        cpus=cpus,
        memory_kib=memory if (memory > UNKNOWN).any() else None,
        requested_secs=None if meaning.requests_cpu_time else table["requested_secs"],
        user=_label(table["user"], names.called["user"].__getitem__),
        group=_label(table["group"], names.called["group"].__getitem__),
        queue=_label(table["queue"], names.known["queue"].get),
        partition=_label(table["partition"], names.known["partition"].get),
        totals=_totals(header),
        zero_secs=header.readable(Header.start_secs),
        unreadable=columns.skipped,
        warnings=(*warnings, *looks),
    )


def whole_jobs(columns: SwfColumns) -> tuple[dict[str, Array], Array | int]:
    """Return SWF columns with one row per job, and for how many seconds each job was swapped out.

    In SWF, a job that was swapped out has several rows; these are joined.
    """
    header, table = columns.header, columns.columns
    if not (is_preempted(header) and np.isin(table["status"], list(PARTIAL)).any()):
        return table, 0
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    joined = list(join_bursts((SwfJob._make(row) for row in rows), header.preemption()))
    found = {
        name: np.array([each.job[place] for each in joined], dtype=column.dtype)
        for place, (name, column) in enumerate(table.items())
    }
    return found, np.array([each.swapped_secs for each in joined], dtype=found["run_secs"].dtype)


def from_records(
    jobs: Sequence[JobRecord], name: str, *, notes: Notes | None = None, zero: int | None = None
) -> ScheduleLog:
    """Convert the records of a log, one per job, to numeric arrays with an element per job.

    `name` is the log's name. `zero` is its time zero in epoch seconds; None means the first submission.
    `notes` counts the records that were rejected or merged, and the values that could not be read; the result
    keeps these counts. It does not say which job follows which: `with_links` adds that.
    """
    notes = notes or Notes()
    if zero is None:
        zero = math.floor(min((job.submit_secs for job in jobs if job.submit_secs is not None), default=0))
    eligible = _times([job.eligible_secs for job in jobs], zero)
    memory = np.array([_memory_kib(job) for job in jobs], dtype=np.int64)
    gpus = _counts([_first(job.total_gpus, job.requested_gpus) for job in jobs])
    submit, start, end = (
        _times([getattr(job, name) for job in jobs], zero)
        for name in ("submit_secs", "start_secs", "end_secs")
    )
    limits = (job.wall_limit_secs for job in jobs)
    ids = ("\0".join((job.batch_system, job.cluster or "", job.job_id, job.user or "")) for job in jobs)
    names = several_clusters(jobs)
    return ScheduleLog(
        name=name,
        submit=submit,
        eligible=eligible if (eligible >= 0).any() else None,
        start=start,
        end=end,
        runtime=_array([_runtime(job) for job in jobs]),
        is_cancelled=np.array([job.state is JobState.CANCELLED for job in jobs], dtype=bool),
        cpus=_counts([_first(job.total_cpus, job.requested_cpus) for job in jobs]),
        memory_kib=memory if (memory > UNKNOWN).any() else None,
        gpus=gpus if (gpus > UNKNOWN).any() else None,
        requested_secs=_counts([each if isinstance(each, int) else None for each in limits]),
        user=_label_texts([job.user if job.user is not None else _text(job.uid) for job in jobs]),
        group=_label_texts([job.group if job.group is not None else _text(job.gid) for job in jobs]),
        queue=_label_texts([job.queue for job in jobs]),
        partition=_label_texts([job.partition for job in jobs]),
        zero_secs=zero if jobs else None,
        unreadable=notes.rejected,
        folded=dict(notes.folded),
        warnings=(
            *(f"{count} × unreadable {each}" for each, count in notes.unread.items()),
            *([f"jobs of several clusters ({names}) are taken for one machine's"] if names else ()),
        ),
        ids=np.array([digest(each) - 2**63 for each in ids], dtype=np.int64),
        arrays=_codes([(job.batch_system, job.cluster, job.array_job_id) for job in jobs]),
        workflows=_codes([(job.batch_system, job.cluster, job.workflow_id) for job in jobs]),
    )


def with_links(log: ScheduleLog, thinks: Array, places: Array, ends: Array) -> ScheduleLog:
    """Return a copy of `log` with `links`, which say which job each job follows, and with `could_start`.

    `thinks` are think times in seconds, `places` the followed jobs' indices in the whole log, `ends` their
    ends in seconds since its time zero.
    """
    if not (places >= 0).any():
        return log
    links = Links(places, np.where((places >= 0) & (thinks >= 0), thinks, UNKNOWN))
    if (ends == np.floor(ends)).all():
        ends = ends.astype(log.end.dtype)
    return replace(log, links=links, could_start=links.could_start(log.submit, log.start, ends))


def _runtime(job: JobRecord) -> Number:
    """Return how long a job ran: end − start, else as the batch system reported once it had ended."""
    found = compute_runtime(job.start_secs, job.end_secs, job.suspended_secs)
    if found != UNKNOWN or job.run_secs is None or job.state.is_on_node or job.state is JobState.PENDING:
        return found
    return job.run_secs if job.run_secs >= 0 else IMPOSSIBLE


def is_preempted(header: Header) -> bool:
    """Return whether an SWF header says that a job that was swapped out has a line for each time it ran."""
    return header.readable(Header.preemption) in {Preemption.YES, Preemption.DOUBLE}


def _totals(header: Header) -> dict[str, int]:
    for label in ("MaxProcs", "MaxNodes"):
        size = header.readable(partial(Header.size, label=label))
        if size is not None and size.total > 0:
            return {"cpu": size.total}
    return {}


def _looks_like_bytes(*columns: Array) -> list[str]:
    """Return a warning where memory that should be in KiB exceeds what processors have."""
    for column in columns:
        known = column[column > 0]
        if len(known) and (np.median(known) > USUAL_MOST_KIB or known.max() > LARGEST_KIB):
            most = int(known.max()) / 2**30
            return [f"memory is up to {most:.4g} TiB a processor: is it in bytes, where KiB belong?"]
    return []


def _product(each: Array, count: Array, meaning: Meaning) -> Array:
    """Return per-processor values × processors, unknown where either is or the product does not fit."""
    if meaning.memory_is_of_job:
        return np.where(each >= 0, each, UNKNOWN)
    fits = (each >= 0) & (count > 0) & (each.astype(float) * count < MOST)
    return np.where(fits, np.where(fits, each, 0) * count, UNKNOWN)


def _label(numbers: Array, name_of: Callable[[int], str | None]) -> Labels:
    """Return labels for numbers; −1 is unknown. Numbers without a name are their own names."""
    if len(numbers) and 0 <= numbers.max() < DENSE:
        is_there = np.zeros(int(numbers.max()) + 2, dtype=bool)
        is_there[numbers] = True  # −1 is the last place
        is_there[-1] = False
        code_of = np.cumsum(is_there, dtype=np.int32) - 1
        code_of[-1] = UNKNOWN
        found, codes = np.flatnonzero(is_there), code_of[numbers]
    else:
        found, places = np.unique(numbers, return_inverse=True)
        unknown = int(len(found) and found[0] == UNKNOWN)
        found, codes = found[unknown:], (places.reshape(-1) - unknown).astype(np.int32)
    known = found.tolist()
    return Labels(codes, [name_of(number) or str(number) for number in known], known)


def _label_texts(texts: Sequence[str | None]) -> Labels:
    codes: dict[str, int] = {}
    found = [UNKNOWN if text is None else codes.setdefault(text, len(codes)) for text in texts]
    return Labels(np.array(found, dtype=np.int32), list(codes))


def _codes(names: Sequence[tuple[str, str | None, str | None]]) -> Array | None:
    """Return a number for each name, −1 where its last part is None; None where all are."""
    if all(name[-1] is None for name in names):
        return None
    return np.array([UNKNOWN if name[-1] is None else digest(repr(name)) >> 1 for name in names], np.int64)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _memory_kib(job: JobRecord) -> int:
    asked = job.requested_memory_bytes
    value = asked if isinstance(asked, int) else job.used_memory_bytes
    return UNKNOWN if value is None or not 0 <= value < MOST else -(-value // KIB)


def _times(values: Iterable[Number | None], zero: int) -> Array:
    return _array(
        [UNKNOWN if value is None else value - zero if value >= zero else IMPOSSIBLE for value in values]
    )


def _array(values: list[Number]) -> Array:
    fine = [value if value <= LATEST_SECS else IMPOSSIBLE for value in values]
    whole = all(isinstance(value, int) for value in fine)
    return np.array(fine, dtype=np.int64 if whole else np.float64)


def _counts(values: Iterable[int | None]) -> Array:
    known = [UNKNOWN if value is None or not 0 <= value < MOST else value for value in values]
    return np.array(known, dtype=np.int64)


def merge_warnings(reported: Iterable[str]) -> list[str]:
    """Merge the warnings about the pieces of a log, so that each appears once.

    Warnings that begin with a count and are otherwise equal become one, with the sum of their counts.
    """
    counts, found = Counter[str](), dict[str, str]()
    for each in reported:
        count, _, what = each.partition(" × ")
        if count.isdigit():
            counts[what] += int(count)
            found[what] = f"{counts[what]} × {what}"
        else:
            found.setdefault(_NUMBER.sub("", each), each)
    return list(found.values())
