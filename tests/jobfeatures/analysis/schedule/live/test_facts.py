"""What a live schedule takes from accounting and from a queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.live.facts import (
    JobFacts,
    from_queue,
    from_record,
    order_of,
    supersedes,
    why_not,
)
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits


def record(**changes):
    values = {
        "batch_system": "slurm",
        "job_id": "7",
        "state": JobState.COMPLETED,
        "user": "ann",
        "partition": "batch",
        **changes,
    }
    return JobRecord(**values)


def queued(state, **changes):
    return Job(key=JobKey("slurm", "7"), state=state, user="ann", **changes)


def run(submit=0, start=None, end=None, **more):
    return JobFacts("7", "ann", "batch", submit, start, end, **more)


def test_processors_are_those_allocated_else_those_requested():
    assert from_record(record(total_cpus=4, requested_cpus=2)).cpus == 4
    assert from_record(record(requested_cpus=2)).cpus == 2
    assert from_record(record()).cpus is None


def test_steps_are_no_jobs():
    assert from_record(record(step="batch")) is None


def test_a_limit_that_is_unlimited_or_unknown_is_none():
    assert from_record(record(wall_limit_secs=UNLIMITED)).limit_secs is None
    assert from_record(record()).limit_secs is None
    assert from_queue(queued(JobState.PENDING, limits=Limits(wall_secs=UNLIMITED))).limit_secs is None
    assert from_queue(queued(JobState.PENDING, limits=Limits(wall_secs=60))).limit_secs == 60


@pytest.mark.parametrize("state", [each for each in JobState if each.is_finished or each is JobState.UNKNOWN])
def test_ends_are_accountings_to_tell(state):
    assert from_queue(queued(state, start_secs=1, end_secs=2)) is None


def test_a_waiting_job_has_no_start_whatever_is_guessed():
    assert from_queue(queued(JobState.PENDING, start_secs=500)).start_secs is None
    assert from_queue(queued(JobState.SUSPENDED, start_secs=500)).is_suspended


def test_an_array_that_waits_has_its_first_task_and_their_number():
    found = from_queue(queued(JobState.PENDING, array_job_id="7", array_task_id="2-5,9%2", tasks=5))
    assert (found.array_id, found.task, found.tasks) == ("7", 2, 5)
    assert from_queue(queued(JobState.RUNNING, array_job_id="7", array_task_id="x" * 99)).task == -1


def test_jobs_that_arrive_together_stand_by_number_and_place_in_their_array():
    names = ["9", "10", "99.pbs1", "100.pbs1"]
    assert sorted(names, key=lambda name: order_of(run()._replace(job_id=name))) == names
    tasks = [run()._replace(job_id=str(50 + task), array_id="7", task=task) for task in (2, 0, 1)]
    assert [each.task for each in sorted(tasks, key=order_of)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (run(start=1, end=5), run(start=1), True),  # it has ended
        (run(start=1), run(start=1, end=5), False),  # old news
        (run(start=6), run(start=1, end=5), True),  # it runs again
        (run(submit=6), run(start=1, end=5), True),  # it was requeued
        (run(start=1, end=5), run(submit=6), False),
        (run(start=1, end=6), run(start=1, end=5), True),  # corrected
        (run(start=1, end=5), run(start=6, end=9), False),  # an earlier run
        (run(start=1, end=5), run(start=6), False),
        (run(start=6, end=6), run(start=6), True),
        (run(end=5), run(), True),  # cancelled while it waited
    ],
)
def test_a_later_run_and_a_known_end_replace_what_was_known(new, old, expected):
    assert supersedes(new, old) is expected


ANYTHING = st.none() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)


@given(ANYTHING, ANYTHING, ANYTHING, st.none() | st.integers(-5, 2**70), st.booleans(), st.none() | st.text())
def test_any_values_either_count_or_have_a_reason(submit, start, end, cpus, is_cancelled, user):
    facts = JobFacts("1", user, "", submit, start, end, cpus=cpus, is_cancelled=is_cancelled)
    if why_not(facts) is None:
        assert submit >= 0
        if end is not None:
            assert submit <= start <= end <= 2**60
        assert user is not None
        assert cpus >= 0
