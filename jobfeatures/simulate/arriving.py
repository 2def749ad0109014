"""A log's jobs in order of arrival: in memory, or, where they do not fit, some at a time from disk: numpy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from jobfeatures.formats.swf.columns import SwfColumns
from jobfeatures.formats.swf.fields import FIELDS
from jobfeatures.formats.swf.header import Header
from jobfeatures.joblog import Pair
from jobfeatures.schedule.jobs import ScheduleLog, from_records, from_swf, whole_jobs
from jobfeatures.schedule.reading import Pieces, Read, drained, merge_warnings, read_whole
from jobfeatures.schedule.reasons import LATEST_SECS
from jobfeatures.schedule.runs import Array, Run, Store, merge
from jobfeatures.simulate.pools import Pool
from jobfeatures.simulate.workload import Workload, choose_pool, make_workload
from jobfeatures.spill import DiskSorter


class Arriving(NamedTuple):
    """What is known of a log, and its jobs, as often as they are asked for; they may lie in a folder."""

    log: ScheduleLog
    reads: Callable[[], Iterable[Read]]
    store: Store | None = None

    def columns(self) -> Iterator[SwfColumns]:
        """Yield the jobs of a log in SWF as they stand there."""
        return (each.columns for each in self.reads() if each.columns is not None)

    def workload(self, pool: Pool | None, *, by_eligible: bool) -> Workload:
        """Return what is to be simulated, on the log's own machine where none is given."""
        store = self.store
        if store is None:
            return make_workload(self.log, pool or choose_pool(self.log), by_eligible=by_eligible)
        pool = pool or choose_pool(self.log, self._logs(), store)
        return make_workload(self.log, pool, by_eligible=by_eligible, pieces=self._logs, folder=store.folder)

    def _logs(self) -> Iterator[ScheduleLog]:
        return (each.log for each in self.reads())


def read_arriving(pieces: Pieces, store: Store, sort: DiskSorter, *, by_eligible: bool) -> Arriving:
    """Return the jobs of a file; where some follow others, in memory. Raises what `read_log` raises."""
    [(name, path)] = pieces.files
    reads = pieces.reads()
    head = [next(reads)]
    if pieces.is_linked and not pieces.is_one:
        head = [read_whole(path, pieces.kind, pieces.zone, pieces.meaning)]
        head = [head[0]._replace(log=replace(head[0].log, name=name))]
    if pieces.is_linked or pieces.is_one:
        return Arriving(head[0].log, lambda: head)
    headers: list[Header] = []
    runs: list[Run] = []
    reported, folded = list[str](), Counter[str]()
    unreadable, first, earliest = 0, math.inf, math.inf

    def with_keys() -> Iterator[Pair]:
        nonlocal unreadable, first, earliest
        for read in drained(head, reads):
            unreadable += read.log.unreadable
            reported.extend(read.log.warnings)
            folded.update(read.log.folded)
            if read.columns is not None:
                headers.append(read.columns.header)
                runs.append(_write(read.columns, store))
            for record in read.records:
                submit, eligible = record.submit_secs, record.eligible_secs
                first = first if submit is None else min(first, submit)
                earliest = earliest if eligible is None else min(earliest, eligible)
                is_reported = by_eligible and eligible is not None and eligible <= LATEST_SECS
                arrival = eligible if is_reported else submit
                yield (-math.inf if arrival is None else arrival), record

    records = sort(with_keys())
    most = pieces.most
    if by_eligible and earliest < first:  # such a time is none
        records = sort(
            (key if key >= math.floor(first) or each.submit_secs is None else each.submit_secs, each)
            for key, each in records
        )
    about: dict[str, Any] = {
        "unreadable": unreadable,
        "folded": dict(folded),
        "warnings": tuple(merge_warnings(reported)),
    }
    if not headers:
        zero = 0 if first == math.inf else math.floor(first)

        def again() -> Iterator[Read]:
            rest = (record for _, record in records)
            while some := list(islice(rest, most)):
                yield Read(from_records(some, name, zero=zero), records=some)

        return Arriving(replace(from_records([], name, zero=zero), **about), again, store)

    def as_read(rows: Array) -> Read:
        columns = SwfColumns(headers[0], {field: rows[field] for field in FIELDS}, {}, 0)
        log = from_swf(columns, name, pieces.meaning, is_part=True)
        return Read(replace(log, end=np.where(log.end >= 0, log.end + rows["swapped"], log.end)), columns)

    nothing = as_read(runs[0].read(0, 0)).log
    return Arriving(
        replace(nothing, **about), lambda: map(as_read, merge(runs, 2 * most, key="submit_secs")), store
    )


def _write(columns: SwfColumns, store: Store) -> Run:
    table, swapped = whole_jobs(columns)
    order = np.argsort(table["submit_secs"], kind="stable")
    found = table | {"swapped": np.zeros(len(order), np.int64) + swapped}
    rows = np.empty(len(order), [(name, each.dtype) for name, each in found.items()])
    for name, each in found.items():
        rows[name] = each[order]
    return store.write(rows)
