"""Jobs in batches are written in the order of one sort by time, however batches overlap and whatever has room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.swf import inorder
from jobfeatures.formats.swf.inorder import in_order, without
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.loggedjob import JobBatch, JobRecord, sort_in_memory

TIMES = st.integers(0, 9) | st.none() | st.just(4.5)
BATCHES = st.lists(st.lists(TIMES, max_size=4), max_size=7)


def numbered(times):
    """Return batches of jobs with these times, whose ids count from 0."""
    ids = iter(range(sum(map(len, times))))
    return [
        JobBatch.of([JobRecord(batch_system="x", job_id=str(next(ids)), submit_secs=each) for each in some])
        for some in times
    ]


def told(parts):
    return [each for jobs in parts() for each in zip(jobs.job_id, jobs.submit_secs, strict=True)]


def sorted_at_once(times):
    last, keyed = 0, []
    for number, each in enumerate(each for some in times for each in some):
        last = last if each is None else each
        keyed.append((last, number, each))
    return [(str(number), each) for _, number, each in sorted(keyed, key=lambda job: job[:2])]


@given(BATCHES, st.integers(0, 9), st.integers(1, 9))
def test_jobs_are_sorted_by_time_and_keep_their_order_within_one(times, most, at_once):
    with pytest.MonkeyPatch.context() as patch, DiskSorter() as sort:
        patch.setattr(inorder, "OVERLAPPING", most)
        patch.setattr("jobfeatures.joblogs.disksort.MOST", max(1, most))
        patch.setattr(inorder, "AT_ONCE", at_once)
        parts = in_order(numbered(times), sort)
        assert told(parts) == told(parts) == sorted_at_once(times)


@given(BATCHES, st.sets(st.integers(1, 28)))
def test_jobs_that_are_dropped_are_gone_and_no_others(times, positions):
    with DiskSorter() as sort:
        parts = in_order(numbered(times), sort)
        left = [each for place, each in enumerate(told(parts), 1) if place not in positions]
        assert told(without(positions, parts)) == left


def test_no_more_jobs_are_held_than_overlap(monkeypatch):
    held = []
    monkeypatch.setattr(
        inorder.heapq, "heappush", lambda heap, each: (heap.append(each), heap.sort(), held.append(len(heap)))
    )
    monkeypatch.setattr(inorder.heapq, "heappop", lambda heap: heap.pop(0))
    times = [[10 * number, 10 * number + 11, 10 * number + 3] for number in range(50)]
    assert told(in_order(numbered(times), sort_in_memory)) == sorted_at_once(times)
    assert 0 < max(held) <= 4
