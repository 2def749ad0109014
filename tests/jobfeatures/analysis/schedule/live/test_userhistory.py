"""Which of a user's jobs is asked about, and what was known of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.live.facts import JobFacts, why_not
from jobfeatures.analysis.schedule.live.userhistory import (
    NoSuchJobError,
    ReportedJob,
    choose_jobs,
    count_until,
    find_job,
    merge,
    reported_by_accounting,
    reported_by_log,
    reported_by_queue,
)
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import Job, JobKey, JobState


def facts(job_id="7", user="ann", submit=0, start=None, end=None, **more):
    return JobFacts(job_id, user, "batch", submit, start, end, **{"cpus": 1, **more})


def record(**changes):
    values = {"batch_system": "slurm", "job_id": "7", "user": "ann", "total_cpus": 2, "submit_secs": 100}
    return JobRecord(**{**values, "state": JobState.COMPLETED, **changes})


def queued(job_id, state=JobState.PENDING, **changes):
    return Job(key=JobKey("slurm", job_id), state=state, user="ann", submit_secs=5, total_cpus=1, **changes)


@pytest.mark.parametrize(
    ("at", "start", "end"),
    [(100, None, None), (150, 150, None), (199, 150, None), (200, 150, 200), (900, 150, 200)],
)
def test_a_log_is_read_as_it_was_at_a_time(at, start, end):
    told = reported_by_log(record(start_secs=150, end_secs=200), at).facts
    assert (told.start_secs, told.end_secs) == (start, end)


def test_what_came_later_was_not_known():
    assert reported_by_log(record(start_secs=150, end_secs=200), 99) is None
    assert reported_by_log(record(submit_secs=None), 99) is None


def test_a_job_without_an_end_has_not_ended_only_where_its_state_says_so():
    assert reported_by_log(record(state=JobState.RUNNING, start_secs=150), 300).facts.start_secs == 150
    assert reported_by_log(record(state=JobState.UNKNOWN), 300) is None
    assert reported_by_log(record(state=JobState.CANCELLED), 300) is None


def test_for_how_long_a_job_was_suspended_is_not_known_before_its_end():
    told = reported_by_log(record(start_secs=150, end_secs=200, suspended_secs=20), 199).facts
    assert (told.suspended_secs, told.is_suspended) == (0, True)
    assert (
        reported_by_log(record(start_secs=150, end_secs=200, suspended_secs=20), 200).facts.suspended_secs
        == 20
    )


def test_a_job_cancelled_later_was_not_cancelled_yet():
    told = reported_by_log(record(state=JobState.CANCELLED, start_secs=150, end_secs=200), 199).facts
    assert not told.is_cancelled


def test_the_queue_tells_of_a_job_that_has_just_ended():
    told = reported_by_queue(queued("7", JobState.CANCELLED, start_secs=6, end_secs=9)).facts
    assert (told.start_secs, told.end_secs, told.is_cancelled) == (6, 9, True)
    assert reported_by_queue(queued("7", JobState.FAILED)) is None
    told = reported_by_queue(queued("7", JobState.UNKNOWN, start_secs=6, end_secs=9)).facts
    assert (told.start_secs, told.end_secs, told.is_cancelled) == (6, 9, False)


def test_the_queue_tells_why_a_job_waits_and_when_it_is_meant_to_start():
    told = reported_by_queue(queued("7", reason="Resources", planned_secs=50))
    assert (told.reason, told.planned_secs, told.facts.start_secs) == ("Resources", 50, None)
    told = reported_by_queue(queued("7", JobState.RUNNING, start_secs=9, reason="None", planned_secs=50))
    assert (told.reason, told.planned_secs) == (None, None)


def test_accounting_tells_of_ends_alone():
    assert reported_by_accounting(JobRecord(batch_system="slurm", job_id="7", state=JobState.PENDING)) is None
    ended = JobRecord(batch_system="slurm", job_id="9", end_secs=5, array_job_id="7", array_task_id="2")
    assert reported_by_accounting(ended).names == {"7_2"}
    assert reported_by_accounting(JobRecord(batch_system="slurm", job_id="7", step="0", end_secs=1)) is None


ARRAY = [
    reported_by_queue(queued("12", JobState.RUNNING, start_secs=6, array_job_id="10", array_task_id="1")),
    reported_by_queue(queued("10", array_job_id="10", array_task_id="2-4,8:2%3", tasks=4)),
]
OTHERS = [
    reported_by_queue(queued("20", JobState.RUNNING, start_secs=6, het_job_id="20", het_offset=0)),
    reported_by_queue(queued("21", JobState.RUNNING, start_secs=6, het_job_id="20", het_offset=1)),
    ReportedJob(facts("30.server")),
    ReportedJob(facts("31[4].a")),
    ReportedJob(facts("32[5]")),
    ReportedJob(facts("33.0@schedd")),
]


@pytest.mark.parametrize(
    ("asked", "job_id", "tasks"),
    [
        ("12", "12", 1),
        ("10_1", "12", 1),
        ("10", "10", 4),
        ("10_2", "10", 1),
        ("10_4", "10", 3),
        ("10.4", "10", 3),
        ("10[4]", "10", 3),
        ("20", "20", 1),
        ("20+1", "21", 1),
        ("30", "30.server", 1),
        ("30.server", "30.server", 1),
        ("31[4].a", "31[4].a", 1),
        ("12.server.example.org", "12", 1),  # of qsub, while qstat's answers are known by number
        ("32[5].server", "32[5]", 1),
        ("33.0", "33.0@schedd", 1),
        ("33", "33.0@schedd", 1),
    ],
)
def test_jobs_are_found_by_their_names(asked, job_id, tasks):
    found = find_job(merge([*ARRAY, *OTHERS]), asked)
    assert (found.facts.job_id, found.facts.tasks) == (job_id, tasks)


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "1",
        "10_5",
        "10_",
        "10_x",
        "_1",
        "20+2",
        "server",
        "2",
        "10_99999999999",
        "9.server",
        "33.1",
        "12.0",
    ],
)
def test_what_is_not_there_is_not_found(asked):
    with pytest.raises(NoSuchJobError):
        find_job(merge([*ARRAY, *OTHERS]), asked)


def test_a_name_of_several_jobs_is_none_of_them():
    told = merge([ReportedJob(facts("30.one")), ReportedJob(facts("30.two"))])
    with pytest.raises(NoSuchJobError, match=r"several jobs match '30': 30\.one, 30\.two"):
        find_job(told, "30")


def test_components_are_counted():
    asked = choose_jobs([*ARRAY, *OTHERS], "20+1")
    assert (asked.components, asked.is_whole_array) == (2, False)
    assert choose_jobs([*ARRAY, *OTHERS], "10").is_whole_array


@pytest.mark.parametrize(
    ("tasks", "task", "found"),
    [
        ("2-5,9%2", 2, (1, True)),
        ("2-5,9%2", 9, (5, True)),
        ("2-5,9%2", 8, (4, False)),
        ("[0-100:4]", 8, (3, True)),
        ("[0-100:4]", 7, (2, False)),
        ("1", 0, (0, False)),
        ("nonsense,7", 7, (1, True)),
    ],
)
def test_tasks_up_to_one_are_counted(tasks, task, found):
    assert count_until(tasks, task) == found


@given(st.text(alphabet="0123456789-,:%[]x", max_size=40), st.integers(0, 10**9))
def test_any_text_is_counted(tasks, task):
    count, is_there = count_until(tasks, task)
    assert count >= is_there >= 0


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 60))
def test_lists_of_tasks_are_counted_exactly(tasks, task):
    text = ",".join(map(str, sorted(tasks)))
    assert count_until(text, task) == (sum(each <= task for each in tasks), task in tasks)


def test_only_jobs_of_the_user_that_count_stand_before_it_in_order():
    told = [
        ReportedJob(facts("3", submit=30)),
        ReportedJob(facts("9", submit=10, start=10, end=20)),
        ReportedJob(facts("10", submit=10)),
        ReportedJob(facts("4", user="bob", submit=5)),
        ReportedJob(facts("5", submit=15, cpus=None)),
        ReportedJob(facts("6", submit=15, end=20)),  # cancelled before it started
    ]
    asked = choose_jobs(told, "3")
    assert [each.job_id for each in asked.jobs] == ["9", "10", "3"]
    assert asked.place == 2


def test_the_one_that_is_asked_about_is_there_even_where_it_does_not_count():
    asked = choose_jobs([ReportedJob(facts("6", submit=15, end=20))], "6")
    assert why_not(asked.jobs[asked.place]) == "never_started"
    assert why_not(facts(cpus=None)) == "no_cpus"
    assert why_not(facts(user=None)) == "no_user"
    assert why_not(facts(submit=5, start=4)) == "impossible_times"
    assert why_not(facts(submit=None, start=4)) == "no_submit_time"


def test_of_two_records_of_a_job_the_end_of_its_last_run_counts():
    told = merge(
        [ReportedJob(facts(start=5)), ReportedJob(facts(start=5, end=9)), ReportedJob(facts(start=5))]
    )
    assert told["7"].facts.end_secs == 9
