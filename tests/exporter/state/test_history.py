"""What is remembered of the last hour: how much, for how long, and in how many bytes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    CpuSecs,
    FigureSource,
    JobGpu,
    JobSample,
    NodeSample,
    Snapshot,
    cpu_secs_of,
)
from jobfeatures_exporter.state.history import HOUR_SECS, MAX_JOBS, MAX_PAST, POINTS, History

NOW = 1_800_000_000.0
KEY = JobKey("slurm", "1")


def sample(key=KEY, cpu_secs=0.0, memory=2**20):
    return JobSample(
        key=key,
        accounting=FigureSource.CGROUP,
        user_cpu_secs=cpu_secs,
        system_cpu_secs=0.0,
        memory=MemoryBytes(anon=memory),
    )


def look(at_secs, *samples, gpus=(), node=None):
    return Snapshot(
        taken_at_secs=NOW + at_secs,
        read_at_secs=6000.0 + at_secs,
        duration_secs=0.01,
        node=node,
        jobs={each.key: each for each in samples},
        job_gpus=gpus,
    )


def test_a_point_is_the_mean_of_its_minute_and_there_is_one_a_minute():
    history = History()
    for at in range(0, 181, 10):
        history.update(look(at, sample(cpu_secs=at * 2.0 if at <= 60 else 120 + (at - 60) * 0.5)), {}, {})
    course = history.job(KEY)
    assert course.times_secs == (NOW, NOW + 60, NOW + 120, NOW + 180)
    assert math.isnan(course.cpus[0])
    assert course.cpus[1:] == (2.0, 0.5, 0.5)
    assert course.memory_bytes == (2**20,) * 4
    assert course.gpus == ()


def test_an_hour_is_kept_and_no_more():
    history = History()
    for minute in range(90):
        history.update(look(60 * minute, sample(memory=minute)), {}, {})
    course = history.job(KEY)
    assert len(course.times_secs) == POINTS
    assert course.memory_bytes == tuple(range(30, 90))
    assert course.times_secs[0] == NOW + 1800


def test_of_rare_points_too_an_hour_is_told_each_with_its_own_time():
    history = History()
    for minute in range(0, 90, 5):
        history.update(look(60 * minute, sample(memory=minute)), {}, {})
    course = history.job(KEY)
    assert course.memory_bytes == tuple(range(30, 90, 5))
    assert course.times_secs == tuple(NOW + 60 * minute for minute in range(30, 90, 5))
    assert history.node().times_secs == course.times_secs
    assert len(history.node().cpus) == len(course.times_secs)


def test_busy_gpus_are_counted_from_when_they_are_told():
    history = History()
    history.update(look(0, sample()), {}, {})
    assert history.job(KEY).gpus == ()
    uses = tuple(JobGpu(key=KEY, uuid=uuid, ce_util_percent=75.0) for uuid in ("a", "b"))
    history.update(look(60, sample(), gpus=uses), {}, {})
    assert math.isnan(history.job(KEY).gpus[0])
    assert history.job(KEY).gpus[1] == 1.5
    assert history.job(KEY).memory_bytes == (2**20, 2**20)


def test_what_cannot_be_read_or_has_fallen_is_not_known():
    history = History()
    unknown = replace(sample(), user_cpu_secs=None, memory=MemoryBytes())
    for minute, each in enumerate((sample(cpu_secs=100), sample(cpu_secs=10), unknown, sample(cpu_secs=20))):
        history.update(look(60 * minute, each), {}, {})
    course = history.job(KEY)
    assert all(math.isnan(each) for each in course.cpus)
    assert [math.isnan(each) for each in course.memory_bytes] == [False, False, True, False]


def test_a_job_that_has_ended_is_remembered_for_an_hour():
    history = History()
    job = Job(key=KEY, start_secs=int(NOW) - 30)
    ended = {KEY: EndedJob(sample(), job, NOW + 90)}
    history.update(look(0, sample()), {KEY: job}, {})
    history.update(look(65), {}, ended)
    (span,) = history.spans()
    assert (span.key, span.start_secs, span.end_secs) == (KEY, NOW - 30, NOW + 90)
    history.update(look(HOUR_SECS), {}, {})
    assert history.job(KEY) is not None
    history.update(look(HOUR_SECS + 180), {}, {})
    assert history.job(KEY) is None


def test_a_job_shorter_than_a_minute_is_on_the_time_line():
    history = History()
    history.update(look(0), {}, {})
    history.update(look(20), {}, {KEY: EndedJob(sample(), Job(key=KEY, start_secs=int(NOW) + 3), NOW + 17)})
    (span,) = history.spans()
    assert (span.start_secs, span.end_secs) == (NOW + 3, NOW + 17)


def test_a_job_that_comes_back_has_not_ended():
    history = History()
    history.update(look(0, sample()), {}, {})
    history.update(look(60), {}, {KEY: EndedJob(sample(), Job(key=KEY), NOW + 50)})
    history.update(look(120, sample()), {}, {})
    assert history.spans()[0].end_secs is None


def test_an_ended_job_is_known_by_its_number_and_system_with_its_last_figures():
    history = History()
    job = Job(key=KEY, user="ann", name="wrf", allocated_cpus=4)
    history.update(look(0, sample()), {KEY: job}, {})
    assert history.ended("1") is None  # it runs
    ended = replace(job, state=JobState.FAILED)
    history.update(look(65), {}, {KEY: EndedJob(sample(cpu_secs=7.0), ended, NOW + 50)})
    span, past = history.ended("1", "slurm")
    assert (span.key, span.end_secs) == (KEY, NOW + 50)
    assert past.job == ended
    assert (cpu_secs_of(past.sample), past.sample.memory.used) == (7.0, 2**20)
    assert history.ended("1", "oar") is None
    assert history.ended("2") is None
    history.update(look(HOUR_SECS + 180), {}, {})
    assert history.ended("1") is None


def test_of_many_ended_jobs_the_latest_keep_their_figures():
    history = History()
    history.update(look(0), {}, {})
    for number in range(MAX_PAST + 1):
        key = JobKey("slurm", str(number))
        history.update(look(1 + number), {}, {key: EndedJob(sample(key), Job(key=key), NOW + number)})
    assert history.ended("0")[1] is None
    assert history.ended("1")[1] is not None


def test_beyond_the_most_jobs_ended_ones_give_way_and_living_ones_do_not():
    history = History()
    keys = [JobKey("slurm", str(number)) for number in range(MAX_JOBS + 1)]
    history.update(look(0, *(sample(key) for key in keys[:-1])), {}, {})
    history.update(look(60, *(sample(key) for key in keys)), {}, {})
    assert history.job(keys[-1]) is None
    history.update(look(120, *(sample(key) for key in keys[1:])), {}, {})
    history.update(look(180, *(sample(key) for key in keys[1:])), {}, {})
    assert history.job(keys[0]) is None
    assert history.job(keys[-1]) is not None


def test_the_node_has_its_own_course():
    history = History()
    for minute in range(3):
        cpu = CpuSecs(30.0 * minute, 0, 0, 210.0 * minute, 0, 0, 0, 0)
        node = NodeSample(
            cpu=cpu, cores=dict.fromkeys(range(4), cpu), memory_bytes={"MemTotal": 100, "MemAvailable": 40}
        )
        history.update(look(60 * minute, node=node), {}, {})
    assert history.node().cpus[1:] == (0.5, 0.5)
    assert history.node().memory_bytes == (60, 60, 60)


@pytest.mark.parametrize("has_gpus", [False, True])
def test_two_thousand_jobs_take_less_than_two_mebibytes(has_gpus):
    import tracemalloc

    keys = [JobKey("slurm", str(number)) for number in range(MAX_JOBS)]
    uses = tuple(JobGpu(key=key, uuid="a", ce_util_percent=75.0) for key in keys) if has_gpus else ()
    looks = [look(60 * minute, *(sample(key, 7.5 * minute) for key in keys), gpus=uses) for minute in (0, 1)]
    jobs = {key: Job(key=key, user=f"user{key.job_id}", name=f"name{key.job_id}") for key in keys}
    history, last = History(), sample()
    tracemalloc.start()
    try:
        for each in looks:
            history.update(each, {}, {})
        history.update(look(90), {}, {key: EndedJob(last, job, NOW + 80) for key, job in jobs.items()})
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert history.job(keys[0]) is not None
    assert held < 2 * 2**20


def test_the_first_point_of_another_run_is_no_difference_to_the_last_one_s():
    history = History()
    history.update(look(0, sample(cpu_secs=100.0)), {}, {})
    history.update(look(60, replace(sample(cpu_secs=160.0), run=1)), {}, {})
    history.update(look(120, replace(sample(cpu_secs=190.0), run=1)), {}, {})
    _, first, second = history.job(KEY).cpus
    assert math.isnan(first)
    assert second == 0.5
