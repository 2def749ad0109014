"""Sorts batches of jobs by submit time; batches that overlap in time are merged. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, compress, count, pairwise
from math import inf
from operator import itemgetter
from typing import Any, Final

from jobfeatures.formats.swf.firstpass import SwfRow, columns_of
from jobfeatures.joblogs.loggedjob import AT_ONCE, JobBatch, Number, Pair, Sorter, some_at_once

Parts = Callable[[], Iterator[SwfRow]]  # the columns of some jobs, then of others: as often as it is called
OVERLAPPING: Final = 2**14  # jobs; of more, one sort takes less time than a heap
_END: Final[Pair] = ((inf, 0, 0), None)  # behind all batches


def in_order(batches: Iterable[JobBatch], sort: Sorter) -> Parts:
    """Return a function that yields all jobs, as columns of some at a time, stably sorted by submit time.

    A job without a submit time stays behind the job before it. Batches that overlap in time are merged,
    unless more than `OVERLAPPING` jobs overlap at once: then `sort` sorts all jobs.
    """
    spans: list[tuple[Number, Number, int]] = []
    kept = sort(_keyed(batches, spans))
    if _most_at_once(spans) <= OVERLAPPING:
        return partial(_merged, kept)
    rows = sort(pair for (_, place, before), batch in kept for pair in _rows(batch, place, before))

    def parts() -> Iterator[SwfRow]:
        return (_columns(some) for some in some_at_once(map(itemgetter(1), rows)))

    return parts


def without(positions: Collection[int], parts: Parts) -> Parts:
    """Return a function that yields what `parts` yields, without the jobs at the given positions.

    `parts` comes from `in_order`. Positions are counted from 1, over all jobs.
    """

    def left() -> Iterator[SwfRow]:
        position = 0
        for jobs in parts():
            places = range(position + 1, position + len(jobs.job_id) + 1)
            stays = [place not in positions for place in places]
            position += len(places)
            if any(stays):
                yield SwfRow(*(list(compress(column, stays)) for column in jobs))

    return left


def _keyed(batches: Iterable[JobBatch], spans: list[tuple[Number, Number, int]]) -> Iterator[Pair]:
    """Yield packed batches by their first time, their place, and the time before them; add their spans."""
    place, before = 0, 0
    for batch in batches:
        if not len(batch):
            continue
        columns = columns_of(batch)
        keys = _keys(columns.submit_secs, before)
        first = min(keys)
        spans.append((first, max(keys), len(keys)))
        yield (first, place, before), JobBatch(len(keys), columns._asdict()).pack()
        place, before = place + len(keys), keys[-1]


def _keys(submits: Sequence[Number | None], before: Number) -> Sequence[Any]:
    """Return the times that jobs are sorted by."""
    if None not in submits:
        return submits
    keys = []
    for each in submits:
        before = before if each is None else each
        keys.append(before)
    return keys


def _most_at_once(spans: Iterable[tuple[Number, Number, int]]) -> int:
    """Return how many jobs at most are in batches that overlap."""
    most = now = 0
    ends: list[tuple[Number, int]] = []
    for first, last, jobs in sorted(spans):
        while ends and ends[0][0] < first:
            now -= heapq.heappop(ends)[1]
        heapq.heappush(ends, (last, jobs))
        now += jobs
        most = max(most, now)
    return most


def _merged(kept: Iterable[Pair]) -> Iterator[SwfRow]:
    """Yield the columns of batches that are sorted by their first time, merging those that overlap."""
    held: list[tuple[Number, int, Any]] = []
    for ((_, place, before), batch), (bound, _) in pairwise(chain(kept, [_END])):
        columns = columns_of(batch.unpack())
        keys = _keys(columns.submit_secs, before)
        last = (keys[-1], place + len(keys) - 1)
        if not held and last < bound[:2] and (len(keys) == 1 or list(keys) == sorted(keys)):
            yield columns
            continue
        for each in zip(keys, count(place), zip(*columns, strict=True), strict=False):
            heapq.heappush(held, each)
        ready = []
        while held and held[0][:2] < bound[:2]:
            ready.append(heapq.heappop(held)[2])
        for at in range(0, len(ready), AT_ONCE):
            yield _columns(ready[at : at + AT_ONCE])


def _rows(batch: JobBatch, place: int, before: Number) -> Iterator[Pair]:
    columns = columns_of(batch.unpack())
    keys = zip(_keys(columns.submit_secs, before), count(place), strict=False)
    return zip(keys, zip(*columns, strict=True), strict=False)


def _columns(rows: Sequence[Any]) -> SwfRow:
    return SwfRow(*zip(*rows, strict=True))
