"""The kernel's records brought together by job; the records are made up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.sampling.bpf.byjob import RECORD, GroupSums, TaskUsage

JOB, STEP, TASK, OTHER = 40, 41, 42, 90
NOBODY = (0, 0, 0, 0)


def record(*ancestors, look=1, done=0, gauges=NOBODY, user=0, removed=0) -> bytes:
    """Return a record all of whose figures are the same."""
    above = [*ancestors, *[0] * (12 - len(ancestors))]
    return RECORD.pack(look, *[done] * 17, *above, *gauges, user, 1, removed)


def figures(sums: GroupSums, *ids: int) -> int:
    [value] = set(sums.sums_of(tuple(ids)).figures)
    return value


def test_a_job_has_the_sums_of_all_groups_below_its_own():
    sums = GroupSums()
    task, step = record(7, JOB, STEP, TASK, done=5), record(7, JOB, STEP, done=2)
    assert sums.update([(TASK, task), (STEP, step), (OTHER, record(7, OTHER, done=9))], [JOB]) == []
    assert figures(sums, JOB) == 7
    assert figures(sums, OTHER) == 0  # nobody asked for it


def test_a_job_known_by_groups_of_two_hierarchies_has_both():
    sums = GroupSums()
    sums.update([(TASK, record(JOB, TASK, done=5)), (99, record(98, 99, done=1))], [JOB, 98])
    assert figures(sums, JOB, 98) == 6


def test_a_job_whose_tasks_have_done_nothing_yet_has_zeros():
    sums = GroupSums()
    sums.update([], [JOB])
    found = sums.sums_of((JOB,))
    assert set(found.figures) == {0}
    assert (found.processes, found.threads, found.running, found.blocked, found.user) == (*NOBODY, None)


def test_a_job_that_becomes_known_later_has_what_was_done_before():
    sums = GroupSums()
    records = [(TASK, record(JOB, TASK, done=5))]
    sums.update(records, [])
    sums.update(records, [JOB])
    assert figures(sums, JOB) == 5


def test_only_groups_with_a_task_in_the_latest_look_have_processes():
    sums = GroupSums()
    there, gone = (3, 9, 1, 2), (4, 4, 4, 0)
    task = record(JOB, TASK, look=8, gauges=there, user=1000)
    sums.update([(TASK, task), (STEP, record(JOB, STEP, look=7, gauges=gone))], [JOB])
    found = sums.sums_of((JOB,))
    assert (found.processes, found.threads, found.running, found.blocked) == there
    assert found.user == 1000
    assert sums.processes == 3


def test_a_removed_group_is_read_once_more_then_deleted_and_stays_in_its_jobs_sums():
    sums = GroupSums()
    assert sums.update([(TASK, record(JOB, TASK, done=5, removed=1))], [JOB]) == []
    assert sums.update([(TASK, record(JOB, TASK, done=6, removed=1))], [JOB]) == [TASK]
    assert figures(sums, JOB) == 6
    assert sums.update([], [JOB]) == []
    assert figures(sums, JOB) == 6
    # The kernel freed a task that late: the group has a record again.
    sums.update([(TASK, record(JOB, TASK, done=1, removed=1))], [JOB])
    assert figures(sums, JOB) == 7


def packets(*ancestors, count) -> bytes:
    """Return a record that only packets were added to."""
    figures_of = (*[0] * 13, count, 1, count, 1)
    return RECORD.pack(0, *figures_of, *ancestors, *[0] * (12 - len(ancestors)), *NOBODY, 0, 1, 0)


def test_late_packets_of_a_group_that_has_gone_are_its_jobs_and_forgotten_when_that_has_gone():
    sums = GroupSums()
    late = (TASK, packets(JOB, TASK, count=100))
    assert sums.update([late], [JOB]) == []
    assert sums.update([late], [JOB]) == [], "the job is still there"
    assert sums.sums_of((JOB,)).figures[-4:] == (100, 1, 100, 1)
    later = (TASK, packets(JOB, TASK, count=101))
    assert sums.update([later], []) == [], "it still sends"
    assert sums.update([later], []) == [TASK]


def test_the_record_for_what_finds_no_room_stays():
    sums = GroupSums()
    nothing = (0, bytes(RECORD.size))
    assert [sums.update([nothing], [JOB]) for _ in range(3)] == [[], [], []]


def test_tasks_that_nobody_looked_at_are_not_forgotten_for_a_job_that_becomes_known_later():
    sums = GroupSums()
    done = (TASK, record(JOB, TASK, look=0, done=5))
    assert [sums.update([done], []) for _ in range(3)] == [[], [], []]
    sums.update([done], [JOB])
    assert figures(sums, JOB) == 5


def test_a_job_that_has_gone_is_forgotten():
    sums = GroupSums()
    gone = [(TASK, record(JOB, TASK, done=5, removed=1))]
    sums.update(gone, [JOB])
    sums.update(gone, [JOB])
    sums.update([], [])
    sums.update([], [JOB])
    assert figures(sums, JOB) == 0


def test_a_number_that_means_another_group_now_takes_nothing_from_the_one_before():
    sums = GroupSums()
    sums.update([(TASK, record(JOB, TASK, done=5))], [JOB, OTHER])
    sums.update([(TASK, record(OTHER, TASK, done=1))], [JOB, OTHER])
    assert (figures(sums, JOB), figures(sums, OTHER)) == (0, 1)


def test_the_record_is_as_long_as_the_kernels():
    assert RECORD.size == 8 * (1 + len(TaskUsage._fields) + 12) + 24


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.booleans()), max_size=40))
def test_no_job_falls_and_nothing_is_lost_whatever_groups_come_and_go(steps):
    """Each step charges a group of the job, which may be removed then; a removed one may still be charged."""
    sums = GroupSums()
    kernel: dict[int, list[int]] = {}
    total = last = 0
    for look, (group, amount, removed) in enumerate(steps, 1):
        entry = kernel.setdefault(100 + group, [0, 0])
        entry[0] += amount
        entry[1] |= removed
        total += amount
        records = [
            (key, record(JOB, key, look=look, done=done, removed=gone))
            for key, (done, gone) in kernel.items()
        ]
        for key in sums.update(records, [JOB]):
            del kernel[key]
        now = figures(sums, JOB)
        assert now >= last
        assert now == total
        last = now


@pytest.mark.parametrize("level", range(12))
def test_a_job_is_found_at_each_level_that_is_told(level):
    sums = GroupSums()
    above = list(range(1, 13))
    sums.update([(500, record(*above, done=3))], [above[level]])
    assert figures(sums, above[level]) == 3
