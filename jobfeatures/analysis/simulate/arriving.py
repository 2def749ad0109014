"""Reads a log's jobs in order of arrival: from memory, or, if they do not fit, in blocks from disk.

Needs numpy.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.eligibility import LATEST_SECS, UNKNOWN
from jobfeatures.analysis.schedule.followers import Links
from jobfeatures.analysis.schedule.jobarrays import (
    ScheduleLog,
    from_records,
    from_swf,
    merge_warnings,
    whole_jobs,
)
from jobfeatures.analysis.schedule.logreading import Pieces, Read, drained
from jobfeatures.analysis.schedule.runs import Array, Run, Store, as_rows, merge
from jobfeatures.analysis.simulate.pools import Pool
from jobfeatures.analysis.simulate.workload import Workload, choose_pool, make_workload
from jobfeatures.formats.swf.columns import SwfColumns
from jobfeatures.formats.swf.fields import FIELDS
from jobfeatures.formats.swf.header import Header
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.loggedjob import Pair


class Arriving(NamedTuple):
    """A log's jobs in order of arrival (if some follow others, in the log's order); can be read repeatedly.

    `log` holds totals, counts and warnings, and the jobs too if they fit into one piece; `reads` returns the
    jobs in pieces. `is_linked` says whether some jobs follow others. `store` holds the jobs, or is None if
    they are in memory.
    """

    log: ScheduleLog
    reads: Callable[[], Iterable[Read]]
    is_linked: bool
    store: Store | None = None

    def columns(self) -> Iterator[SwfColumns]:
        """Yield the jobs as columns of SWF, one item per piece; for a log in another format, nothing."""
        return (each.columns for each in self.reads() if each.columns is not None)

    def logs(self) -> Iterator[ScheduleLog]:
        """Yield the jobs as arrays, one log for each piece."""
        return (each.log for each in self.reads())

    def workload(self, pool: Pool | None, *, by_eligible: bool) -> Workload:
        """Return the jobs as a workload for the machine `pool`.

        None means the machine that the log describes. `by_eligible` says that a job arrives when it becomes
        eligible, not when it is submitted.
        """
        return make_workload(
            self.log,
            pool or choose_pool(self.log, self.logs(), self.store or Store(sys.maxsize)),
            by_eligible=by_eligible,
            pieces=self.logs,
            store=self.store,
            is_linked=self.is_linked,
        )


def read_arriving(pieces: Pieces, store: Store, sort: DiskSorter, *, by_eligible: bool) -> Arriving:
    """Read the jobs of a log in order of arrival, or in the log's order if some jobs follow others.

    `by_eligible` says that a job arrives when it becomes eligible, not when it is submitted. Data that do not
    fit into memory go to `store`; `sort` sorts records. Raises what `read_log` raises, and TemporaryFileError
    if the disk is full.
    """
    reads = pieces.reads()
    head = [next(reads)]
    if pieces.is_one:
        return Arriving(head[0].log, lambda: head, head[0].log.links is not None)
    is_linked, name = pieces.is_linked, pieces.name
    headers: list[Header] = []
    runs: list[Run] = []
    reported, folded = list[str](), Counter[str]()
    unreadable, zero = 0, None

    def with_keys() -> Iterator[Pair]:
        nonlocal unreadable, zero
        for read in drained(head, reads):
            unreadable, zero = unreadable + read.log.unreadable, read.log.zero_secs
            reported.extend(read.log.warnings)
            folded.update(read.log.folded)
            if read.columns is not None:
                headers.append(read.columns.header)
                runs.append(_write(read, read.columns, store, is_linked=is_linked))
            elif is_linked:
                runs.append(store.write(as_rows(_links_of(read.log))))
            for record in read.records:
                submit, eligible = record.submit_secs, record.eligible_secs
                is_reported = by_eligible and eligible is not None and (zero or 0) <= eligible <= LATEST_SECS
                arrival = eligible if is_reported else submit
                yield 0 if is_linked else -math.inf if arrival is None else arrival, record

    records = sort(with_keys())
    most = pieces.most
    about: dict[str, Any] = {
        "unreadable": unreadable,
        "folded": dict(folded),
        "warnings": tuple(merge_warnings(reported)),
    }
    if not headers:

        def again() -> Iterator[Read]:
            rest = (record for _, record in records)
            links = iter(runs)
            while some := list(islice(rest, most)):
                log = from_records(some, name, zero=zero)
                if is_linked:
                    rows = next(links).read(0, len(some))
                    log = replace(log, links=Links(rows["before"], rows["thinks"]))
                yield Read(log, records=some)

        return Arriving(replace(from_records([], name, zero=zero), **about), again, is_linked, store)

    def as_read(rows: Array) -> Read:
        columns = SwfColumns(headers[0], {field: rows[field] for field in FIELDS}, {}, 0)
        log = from_swf(columns, name, pieces.meaning)
        log = replace(log, end=np.where(log.end >= 0, log.end + rows["swapped"], log.end))
        links = Links(rows["before"], rows["thinks"]) if is_linked else None
        return Read(replace(log, links=links), columns)

    def blocks() -> Iterable[Array]:
        if is_linked:
            return (run.read(0, run.size) for run in runs)
        return merge(runs, 2 * most, key="submit_secs")

    nothing = as_read(runs[0].read(0, 0)).log
    return Arriving(replace(nothing, **about), lambda: map(as_read, blocks()), is_linked, store)


def _write(read: Read, columns: SwfColumns, store: Store, *, is_linked: bool) -> Run:
    table, swapped = whole_jobs(columns)
    found = table | {"swapped": np.zeros(len(read.log), np.int64) + swapped}
    order = np.argsort(table["submit_secs"], kind="stable")
    if is_linked:
        found |= _links_of(read.log)
        order = np.arange(len(order))
    return store.write(as_rows({name: each[order] for name, each in found.items()}))


def _links_of(log: ScheduleLog) -> dict[str, Array]:
    nobody = np.full(len(log), UNKNOWN)
    links = log.links or Links(nobody, nobody)
    return {"before": links.preceding, "thinks": links.thinks}
