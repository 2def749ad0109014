import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.questions import (
    AskedJobs,
    ClockDifference,
    KnownJob,
    NodeQuestion,
    compute_questions,
)
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits, NodeNotice

MINUTE, REFRESH = 55, 300  # polls of a minute may come early
NOW = 1_000_000


@pytest.mark.parametrize(
    ("job", "is_asked"),
    [
        ({"limits": Limits(wall_secs=7200), "limit_end_secs": NOW + 3599}, True),
        ({"limits": Limits(wall_secs=7200), "limit_end_secs": NOW + 3600}, False),
        ({"limits": Limits(wall_secs=7200), "limit_end_secs": NOW - 60}, True),  # OverTimeLimit
        ({"limits": Limits(wall_secs=7200), "start_secs": NOW - 7000}, True),
        ({"limits": Limits(wall_secs=7200), "ran_secs": 7000, "state": JobState.SUSPENDED}, True),
        ({"limits": Limits(wall_secs=7200), "ran_secs": 70, "state": JobState.SUSPENDED}, False),
        ({"limits": Limits(wall_secs=UNLIMITED)}, False),
        ({}, False),
    ],
)
def test_a_job_within_an_hour_of_its_end_is_asked_about_each_minute(job, is_asked):
    job = Job(key=JobKey("slurm", "1"), **{"state": JobState.RUNNING, **job})
    for age_secs, expected in ((40, False), (MINUTE, is_asked), (REFRESH - 1, is_asked), (REFRESH, True)):
        answers = {"1": KnownJob(job, 1000.0 - age_secs)}
        assert bool(compute_questions(answers, {"1"}, (), 1000.0, REFRESH, NOW)) is expected


@pytest.mark.parametrize("before", [None, "alice"])
def test_of_a_job_whose_record_was_refused_all_details_are_asked_for_next(before):
    """What squeue tells in its place has no memory on several nodes; an id may have been another job's."""
    jobs, key = AskedJobs("slurm", str.isdigit, refresh_secs=REFRESH), JobKey("slurm", "1")
    if before:
        jobs.begin({key}, (), now_secs=0, taken_at_secs=NOW)
        jobs.keep([Job(key=key, user=before)], (), (), None)
        jobs.begin({key}, (), now_secs=50, taken_at_secs=NOW + 50)
        assert jobs.fully_known(["1"])
    jobs.begin({key}, (), now_secs=60, taken_at_secs=NOW + 60)
    jobs.keep([Job(key=key, user="bob")], (), ["1"], None)
    jobs.begin({key}, (), now_secs=120, taken_at_secs=NOW + 120)
    assert jobs.fully_known(["1"]) == {}
    jobs.keep([Job(key=key, user="bob")], (), (), None)
    assert jobs.fully_known(["1"])


@given(
    st.floats(-400, 400),
    st.lists(st.tuples(st.floats(0, 5000), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20),
)
def test_the_difference_is_right_within_a_second_and_the_time_of_an_answer(ahead_secs, answers):
    """The other clock tells whole seconds, at some moment between asking and answering."""
    difference = ClockDifference()
    for asked_secs, way_secs, share in answers:
        shown = int(1_800_000_000 + asked_secs + share * way_secs + ahead_secs) - 1_800_000_000
        difference.learn(shown, asked_secs=asked_secs, answered_secs=asked_secs + way_secs)
    assert abs(difference.ahead_secs - ahead_secs) <= 1 + answers[-1][1] + 1e-6


def test_an_answer_that_took_long_or_came_before_it_was_asked_for_tells_nothing():
    difference = ClockDifference()
    difference.learn(1000, asked_secs=900, answered_secs=905)
    difference.learn(1000, asked_secs=900, answered_secs=899)
    assert difference.ahead_secs is None


def test_an_estimate_that_still_agrees_does_not_move():
    difference = ClockDifference()
    difference.learn(1300, asked_secs=1000.0, answered_secs=1000.2)
    first = difference.ahead_secs
    difference.learn(1361, asked_secs=1060.9, answered_secs=1061.1)
    assert difference.ahead_secs == first
    difference.learn(1367, asked_secs=1061, answered_secs=1061.2)
    assert abs(difference.ahead_secs - 306.4) < 0.01


def test_a_node_is_asked_about_again_after_no_thread_could_be_started_to_ask():
    def fail(_query):
        raise RuntimeError("can't start new thread")

    question = NodeQuestion("condor_status", 30.0)
    with pytest.raises(RuntimeError):
        question.ask(NodeNotice, 1000.0, fail)
    question.ask(NodeNotice, 1029.0)
    assert question.notice is None
    question.ask(NodeNotice, 1030.0)
    assert question.notice == NodeNotice()
