"""What one record says after another of the same id."""

from dataclasses import replace

import pytest

from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.joblogs.reportrelations import (
    Relation,
    is_reported_again,
    joined,
    merged,
    overridden,
    relation,
    reported_at,
)
from jobfeatures.records.model import JobState

SAME, NEXT, PART = Relation.SAME, Relation.NEXT, Relation.PART
JOB = JobRecord(batch_system="slurm", job_id="7", submit_secs=10, start_secs=20, end_secs=30)
DAY = 86400


def related(one, two):
    return relation(one, two, reported_at(one))


def times(submit, start, end, **more):
    return replace(JOB, submit_secs=submit, start_secs=start, end_secs=end, **more)


@pytest.mark.parametrize(
    ("one", "other", "how"), [("ann", "ann", SAME), ("ann", None, SAME), ("ann", "bob", None)]
)
def test_what_is_told_of_one_job_is_of_one_user(one, other, how):
    assert related(replace(JOB, user=one), replace(JOB, user=other)) is how
    assert is_reported_again(replace(JOB, user=one), replace(JOB, user=other)) is (how is SAME)


@pytest.mark.parametrize(
    ("earlier", "later", "how"),
    [
        ((10, None, None), (10, 20, 30), SAME),  # it waits, then it has run
        ((10, None, None), (None, 20, None), SAME),
        ((10, 20, None), (10, 20, 30), SAME),
        ((10, 20, None), (None, None, 30), SAME),
        ((10, 20, 30), (10, 20, 31), SAME),  # the end was corrected
        ((10, 20, None), (10, 25, None), SAME),  # the start was set again: the nodes were powered up
        ((10, 20, 30), (10, 30, None), NEXT),  # one submission: it starts again once it has ended
        ((10, 20, 30), (10, 29, 40), None),
        ((10, 20, 30), (None, 29, 40), None),
        ((10, None, 30), (10, 30, 40), NEXT),
        ((10, 20, 30), (10, None, 70), NEXT),  # cancelled while it waited again
        ((10, 20, 30), (30, 31, 40), NEXT),  # submitted again: within a day of its end
        ((10, 20, 30), (29, 31, 40), None),
        ((10, 20, 30), (30 + DAY, None, None), NEXT),
        ((10, 20, 30), (31 + DAY, None, None), None),
        ((10, 20, None), (20 + DAY, None, None), NEXT),  # of the time when it was last told, as it has no end
        ((10, 20, None), (21 + DAY, None, None), None),
    ],
)
def test_a_run_begins_anew_only_where_the_times_say_so(earlier, later, how):
    assert related(times(*earlier), times(*later)) is how


@pytest.mark.parametrize(
    ("state", "how"), [(JobState.PENDING, NEXT), (JobState.RUNNING, NEXT), (JobState.FAILED, SAME)]
)
def test_a_job_that_has_ended_and_now_waits_or_runs_has_begun_anew(state, how):
    assert related(replace(JOB, state=JobState.COMPLETED), times(10, None, None, state=state)) is how


def test_the_count_of_restarts_says_which_run_it_is():
    one = times(10, 20, None, restarts=0)
    assert related(one, times(10, 25, None, restarts=0)) is SAME
    assert related(one, times(10, 25, None, restarts=1)) is NEXT
    assert related(replace(one, end_secs=30), times(10, 40, 50, restarts=0)) is SAME


def test_a_part_of_a_resized_job_ends_where_the_next_begins():
    part = times(10, 20, 30, state_word="RESIZING", run_secs=10, used_cpu_secs=3.5, total_cpus=4, user="ann")
    rest = times(30, 30, 50, state=JobState.COMPLETED, run_secs=20, used_cpu_secs=0, total_cpus=2)
    assert related(part, rest) is PART
    assert related(part, times(31, 31, 50)) is NEXT
    assert joined(part, rest) == times(
        10, 20, 50, state=JobState.COMPLETED, run_secs=30, used_cpu_secs=3.5, total_cpus=2, user="ann"
    )
    runs = times(30, 30, None, state=JobState.RUNNING, run_secs=None)
    assert (joined(part, runs).end_secs, joined(part, runs).run_secs) == (None, None)


def test_what_is_told_later_counts_and_what_it_leaves_out_stays():
    one = replace(
        JOB, state=JobState.COMPLETED, exit_status=0, nodes=("a",), more=(("x", 1), ("y", 1)), user="ann"
    )
    two = JobRecord(batch_system="slurm", job_id="7", state=JobState.FAILED, exit_signal=9, more=(("y", 2),))
    assert overridden(one, two) == replace(
        one, state=JobState.FAILED, exit_status=None, exit_signal=9, more=(("x", 1), ("y", 2))
    )
    assert overridden(two, replace(two, state=JobState.UNKNOWN, exit_signal=None)) == two
    word = replace(two, state=JobState.UNKNOWN, state_word="NEW")
    assert overridden(two, word).state_word == "NEW"


def test_what_was_measured_since_another_start_is_forgotten():
    one = times(10, 20, None, run_secs=40, used_memory_bytes=5, wall_limit_secs=60)
    found = overridden(one, times(10, 25, None))
    assert (found.run_secs, found.used_memory_bytes, found.wall_limit_secs) == (None, None, 60)


def test_objects_within_values_are_merged_too():
    assert merged({"a": {"b": 1, "c": 2}, "d": 1}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}, "d": 1}
