"""What is shown when, without a clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import UNLIMITED, JobKey, JobState
from tests.labs.replaying import format_event, make_job, plan_replay


def job(job_id, start, end, cpus=1, **more):
    return JobRecord(
        batch_system="swf", job_id=job_id, start_secs=start, end_secs=end, total_cpus=cpus, **more
    )


def told(plan):
    return [(event.at_secs, "start" if event.starts else "end", event.job_id) for event in plan.events]


def test_the_first_start_is_the_beginning_and_time_runs_faster():
    plan = plan_replay([job("2", 160, 400), job("1", 100, 220)], speed=60)
    assert told(plan) == [(0, "start", "1"), (1, "start", "2"), (2, "end", "1"), (5, "end", "2")]
    assert (plan.jobs, plan.log_began_secs, plan.log_secs) == (2, 100, 300)


def test_a_log_of_more_jobs_than_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr("tests.labs.replaying.MAX_JOBS", 2)
    assert plan_replay([job("1", 0, 1), job("2", 0, 1)], speed=1).jobs == 2
    with pytest.raises(ParseError, match="more than 2 jobs: replay a part of the log"):
        plan_replay([job("1", 0, 1), job("2", 0, 1), job("3", 0, 1)], speed=1)


def test_a_node_shows_what_finds_room_on_it():
    plan = plan_replay(
        [job("small", 0, 10, 2), job("large", 1, 5, 512), job("fits", 2, 9, 2), job("late", 10, 20, 512)],
        speed=1, node_cpus=4,
    )  # fmt: skip
    assert [event[2] for event in told(plan) if event[1] == "start"] == ["small", "fits", "late"]
    assert [event.cpus for event in plan.events if event.starts] == [2, 2, 4]  # all of the node, and no more
    assert plan.passed_over == {"no room on the node": 1}


def test_an_end_makes_room_for_what_starts_at_the_same_time():
    plan = plan_replay([job("1", 0, 10, 4), job("2", 10, 20, 4)], speed=1, node_cpus=4)
    assert told(plan) == [(0, "start", "1"), (10, "end", "1"), (10, "start", "2"), (20, "end", "2")]


def test_what_never_ran_is_passed_over_and_what_has_no_end_lasts():
    plan = plan_replay(
        [
            job("cancelled", None, 50),
            job("short", 5, 5),
            job("open", 10, None),
            job("1", 0, 40),
            JobRecord(batch_system="slurm", job_id="1", step="0", start_secs=1, end_secs=2),
        ],
        speed=1,
    )
    assert told(plan) == [(0, "start", "1"), (10, "start", "open"), (40, "end", "1"), (40, "end", "open")]
    assert plan.passed_over == {"never ran": 1, "no time between start and end": 1, "step of a job": 1}


def test_a_number_that_comes_again_is_another_job():
    plan = plan_replay([job("7", 0, 10), job("7", 20, 30)], speed=1)
    assert [event.job_id for event in plan.events] == ["7", "7", "7-2", "7-2"]


def test_an_empty_log_has_an_empty_plan():
    assert plan_replay([], speed=60).events == []


def made(record, speed=60, cpus=None):
    plan = plan_replay([job("0", 0, 6000), record], speed=speed, node_cpus=cpus)
    [event] = [each for each in plan.events if each.starts and each.job_id == record.job_id]
    return make_job(event, began_secs=1000, log_began_secs=plan.log_began_secs, speed=speed, node="n1")


def test_a_job_is_told_in_the_time_of_the_wall():
    shown = made(
        job("7", 600, 1200, 8, user="ann", queue="long", executable="a.out", submit_secs=300,
            wall_limit_secs=3600, cpu_limit_secs=UNLIMITED, requested_memory_bytes=2**30)
    )  # fmt: skip
    assert shown.key == JobKey("spool", "7")
    assert (shown.state, shown.user, shown.partition, shown.name) == (
        JobState.RUNNING,
        "ann",
        "long",
        "a.out",
    )
    assert (shown.submit_secs, shown.start_secs, shown.end_limit_secs) == (1005, 1010, 1070)
    assert (shown.nodes, shown.total_cpus) == (("n1",), 8)
    assert (shown.limits.cpu_secs, shown.limits.memory_bytes) == (UNLIMITED, 2**30)


def test_a_job_larger_than_the_node_has_its_share_of_memory():
    shown = made(job("7", 6000, 7000, 8, requested_memory_bytes=8000, cpu_limit_secs=9600), cpus=2)
    assert (shown.allocated_cpus, shown.limits.memory_bytes, shown.limits.cpu_secs) == (2, 2000, 40)


def test_no_limit_becomes_zero():
    assert made(job("7", 60, 70, wall_limit_secs=1)).limits.wall_secs == 1


times = st.integers(0, 1000) | st.none()
jobs = st.builds(job, st.integers(1, 5).map(str), times, times, st.integers(0, 9) | st.none())


@given(st.lists(jobs, max_size=12), st.none() | st.integers(1, 6), st.sampled_from([0.5, 1, 60]))
def test_any_log_is_played_in_order_within_the_node(records, cpus, speed):
    plan = plan_replay(records, speed=speed, node_cpus=cpus)
    assert [event.at_secs for event in plan.events] == sorted(event.at_secs for event in plan.events)
    there, used = set(), 0
    for event in plan.events:
        if event.starts:
            there.add(event.number)
        else:
            there.remove(event.number)
        used += (event.cpus or 0) * (1 if event.starts else -1)
        assert cpus is None or used <= cpus
    assert there == set()
    assert plan.jobs + plan.passed_over.total() == len(records)


def test_a_dry_run_is_readable():
    [start, end] = plan_replay([job("7", 0, 90, 4)], speed=60).events
    assert [format_event(start), format_event(end)] == ["+0.000s start 7 4 CPUs", "+1.500s end 7 4 CPUs"]


def test_jobs_of_a_model_run_at_once_or_after_whom_they_follow():
    """ "models can include precedences with dependent jobs that don't have independent arrival times" """

    def of_model(job_id, run_secs, submit=None, **more):
        return job(job_id, None, None, submit_secs=submit, run_secs=run_secs, **more)

    plan = plan_replay(
        [
            of_model("4", 2, preceding_job_id="3"),
            of_model("1", 10, 0),
            of_model("2", 5, preceding_job_id="1", think_secs=7),
            of_model("3", 5, 30, preceding_job_id="2"),
            of_model("5", 5, 30, preceding_job_id="6"),
            of_model("6", 5, 31, preceding_job_id="5"),
            of_model("7", 5, preceding_job_id="8"),
        ],
        speed=1,
    )
    starts = [(secs, name) for secs, what, name in told(plan) if what == "start"]
    assert starts == [(0, "1"), (17, "2"), (30, "3"), (30, "5"), (35, "4"), (35, "6")]
    assert plan.passed_over == {"never ran": 1}
