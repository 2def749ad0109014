"""Evaluates a log in several files on a Dask cluster. Needs numpy, and the extra ``dask``.

Each file is read by itself. Its jobs are divided by user into chunks: a chunk is a set of users with all of
their jobs. Each chunk is evaluated as a part of the whole. Only the document on the whole log is returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter, getitem
from typing import Any, Final

import numpy as np

from jobfeatures.analysis.schedule.document import Values, make_document
from jobfeatures.analysis.schedule.followers import digest
from jobfeatures.analysis.schedule.jobarrays import Labels, ScheduleLog
from jobfeatures.analysis.schedule.logreading import TIMES, compute_shifts, moved
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.analysis.schedule.shares import FIELDS
from jobfeatures.analysis.schedule.spooled import Spooled, spool
from jobfeatures.analysis.schedule.whole import CombinedResults, Whole
from jobfeatures.errors import ConfigurationError, shown
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.joblogs.reportrelations import order_of, relation, reported_at
from jobfeatures.settings.usage import need

CHUNKS: Final = 16
CONNECT_SECS: Final = 10
ARRAYS: Final = (*TIMES, "runtime", "is_cancelled", "cpus", "memory_kib", "gpus", "ids")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to the Dask scheduler at an address, and yield a client.

    Raises ConfigurationError if no scheduler answers there, or if Dask is not installed.
    """
    need("distributed", "--dask", "Dask", "analysis,dask")
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_SECS)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConfigurationError("--dask", f"no scheduler answers at {shown(address)}: {error}") from None
    with client:
        yield client


def evaluate_partitions(
    files: Sequence[str],
    options: Options,
    by: Sequence[str],
    read: Callable[[str], ScheduleLog],
    *,
    runner: Any,
    chunks: int = CHUNKS,
) -> Values:
    """Evaluate a log on a Dask cluster; return the log's document, as `make_document` does.

    `files` are the log's files in order; `read` returns the jobs of one file. Jobs are divided by user into
    `chunks` sets. `by` names fields whose values get figures of their own. `runner` is a Dask client, or an
    object with its `submit` and `gather`. Raises ScheduleError, and what `read` raises.
    """
    name = f"{files[0]} and {len(files) - 1} more" if len(files) > 1 else files[0]
    submit = runner.submit
    parts = [submit(read, each) for each in files]
    shifts = compute_shifts(files, runner.gather([submit(attrgetter("zero_secs"), part) for part in parts]))
    split = [submit(split_by_user, part, shift, chunks) for part, shift in zip(parts, shifts, strict=True)]
    parts = []
    held = [
        submit(collect_jobs, name, [submit(getitem, each, chunk) for each in split], options)
        for chunk in range(chunks)
    ]
    split = []
    whole = submit(start_evaluation, name, [submit(Spooled.without_jobs, each) for each in held], options, by)
    parts = [submit(Whole.part, whole, each) for each in held]
    document: Values = runner.gather([submit(combine_results, whole, parts, by)])[0]
    return document


def collect_jobs(name: str, logs: Sequence[ScheduleLog], options: Options) -> Spooled:
    """Collect all jobs of one set of users from all files. A job that is in several files is kept once."""
    return spool(name, merge_repeated(logs), options)


def start_evaluation(name: str, held: Sequence[Spooled], options: Options, by: Sequence[str]) -> Whole:
    """Create the evaluation of the whole log from facts about all of its jobs, without the jobs.

    `held` has an entry for each set of users, with totals, users and peaks of use, but without the jobs. `by`
    names fields whose values get figures of their own.
    """
    found = spool(name, [], options)
    for each in held:
        found.absorb(each)
    for what in found.events:
        found.peak(what)
    found.events.clear()
    return Whole(found, by)


def combine_results(whole: Whole, parts: Sequence[CombinedResults], by: Sequence[str]) -> Values:
    """Return the document on the whole log, with figures by the fields `by`, from the sets of users."""
    whole.join(parts)
    return make_document(whole, by)


def split_by_user(log: ScheduleLog, shift_secs: int, chunks: int) -> list[ScheduleLog]:
    """Split the jobs of one file into `chunks` logs, so that all jobs of a user are in the same log.

    `shift_secs` is added to all times. Users, groups and the like get the same numbers on all machines. Jobs
    of unknown users go into the first log; so do warnings and counts about the whole file.
    """
    labels = {field: getattr(log, field) for field in FIELDS}
    numbers = {field: [digest(name) >> 1 for name in each.names] for field, each in labels.items()}
    log = replace(log, **{field: each._replace(numbers=numbers[field]) for field, each in labels.items()})
    log = moved(log, shift_secs)
    place = np.array([*(number % chunks for number in numbers["user"]), 0])[log.user.codes]  # -1 is the last
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(chunks + 1))
    found = []
    for chunk in range(chunks):
        taken = _take(log, order[bounds[chunk] : bounds[chunk + 1]])
        found.append(taken if chunk == 0 else replace(taken, unreadable=0, folded={}, warnings=()))
    return found


def _take(log: ScheduleLog, which: Array) -> ScheduleLog:
    found: Values = {}
    for name in ARRAYS:
        values = getattr(log, name)
        if values is not None:
            found[name] = values[which]
    for name in FIELDS:
        labels = getattr(log, name)
        codes = labels.codes[which]
        known, places = np.unique(codes[codes >= 0], return_inverse=True)
        codes[codes >= 0] = places.reshape(-1)
        kept = known.tolist()
        found[name] = Labels(
            codes, [labels.names[code] for code in kept], [labels.numbers[code] for code in kept]
        )
    return replace(log, links=None, arrays=None, workflows=None, **found)


def merge_repeated(logs: Sequence[ScheduleLog]) -> list[ScheduleLog]:
    """Return logs with one entry per job: entries with the same id are merged by the rules of `fold_jobs`."""
    known = [log for log in logs if log.ids is not None]
    if not known:
        return list(logs)
    ids, *times = (
        np.concatenate([getattr(log, name) for log in known]) for name in ("ids", "submit", "start", "end")
    )
    order = np.argsort(ids, kind="stable")
    ends = np.flatnonzero(np.concatenate((ids[order][1:] != ids[order][:-1], [True])))
    keeps, folded, first = np.ones(len(ids), dtype=bool), Counter[str](), 0
    for end in ends.tolist():
        places, first = order[first : end + 1].tolist(), end + 1
        if len(places) == 1:
            continue
        runs = [(_as_record(*(each[place].item() for each in times)), place) for place in places]
        latest: list[tuple[JobRecord, int]] = []  # of each job with this id
        for run in sorted(runs, key=lambda run: order_of(run[0])):
            how, same = next(
                ((how, each) for each in latest if (how := relation(each[0], run[0], reported_at(each[0])))),
                (None, None),
            )
            if how is None or same is None:
                latest.append(run)
                continue
            folded[how.value] += 1
            keeps[same[1]] = False
            latest[latest.index(same)] = run
    kept = np.split(keeps, np.cumsum([len(log) for log in known])[:-1])
    found = [_take(log, np.flatnonzero(each)) for log, each in zip(known, kept, strict=True)]
    found[0] = replace(found[0], folded=Counter(found[0].folded) + folded)
    return found + [log for log in logs if log.ids is None]


def _as_record(*times: float) -> JobRecord:
    """Return a record with a submission, start and end; −1: unknown."""
    submit, start, end = (None if time < 0 else time for time in times)
    return JobRecord(batch_system="", job_id="", submit_secs=submit, start_secs=start, end_secs=end)
