"""What jobs hold without using it."""

from dataclasses import replace

import pytest

from jobfeatures.model import JobKey, JobState
from jobfeatures_exporter.view.idle import Idle, find_idle, find_most_wasteful
from jobfeatures_exporter.view.job import Identity, JobView
from jobfeatures_exporter.view.node import NodeView

GIB = 2**30
NODE = NodeView(cores=16, memory_bytes=64 * GIB)
JOB = JobView(key=JobKey("slurm", "1"), cpus_now=0.5, allocated_cpus=4, memory=2 * GIB, memory_limit=34 * GIB)


def test_what_is_allocated_and_not_used_is_idle_and_the_larger_share_of_the_node_counts():
    assert find_idle(JOB, NODE) == Idle(cpus=3.5, memory_bytes=32 * GIB, share=0.5)
    assert find_idle(replace(JOB, memory=33 * GIB), NODE).share == 3.5 / 16


@pytest.mark.parametrize(
    ("job", "idle"),
    [
        (replace(JOB, cpus_now=None, memory=None), Idle()),
        (replace(JOB, allocated_cpus=None, memory_limit=None), Idle()),
        (replace(JOB, cpus_now=None, cpus_mean=1, memory=None), Idle(cpus=3.0, share=3 / 16)),
        (replace(JOB, cpus_now=4.2, memory=35 * GIB), Idle(cpus=0.0, memory_bytes=0, share=0.0)),
        (replace(JOB, is_running=False), Idle()),
        (replace(JOB, identity=Identity(state=JobState.SUSPENDED.value)), Idle()),
        (replace(JOB, cpus_now=None, memory=0, memory_limit=2**60), Idle(memory_bytes=64 * GIB, share=1.0)),
    ],
)
def test_unknown_is_no_zero_more_than_all_is_not_less_than_none_and_no_job_has_more_than_the_node(job, idle):
    assert find_idle(job, NODE) == idle


def test_of_a_node_that_tells_nothing_of_itself_there_is_no_share():
    assert find_idle(JOB, NodeView()) == Idle(cpus=3.5, memory_bytes=32 * GIB)


def test_the_most_wasteful_job_is_the_one_with_the_largest_share_and_nobody_where_none_wastes():
    busy = replace(JOB, key=JobKey("slurm", "2"), cpus_now=4, memory=34 * GIB)
    node = replace(NODE, jobs=(busy, JOB))
    assert find_most_wasteful(node) == (JOB, find_idle(JOB, node))
    assert find_most_wasteful(replace(NODE, jobs=(busy, JobView(key=JobKey("slurm", "3"))))) is None


def test_words_name_what_is_idle_and_no_zero():
    assert find_idle(JOB, NODE).words == "3.5 CPUs idle, 32\u202fGiB unused"
    assert Idle(cpus=0.001, memory_bytes=0).words == Idle().words == ""
    assert Idle(cpus=0.25).words == "0.25 CPUs idle"
