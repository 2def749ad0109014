"""What a job holds in vain now, and in which words."""

from dataclasses import replace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.view.job import GpuView, JobIdentity, JobView, waste_now
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.waste import NO_WASTE, UNKNOWN_WASTE

GIB = 2**30
THIN = "\u202f"
NODE = {"cpus": 64, "memory_bytes": 256 * GIB, "gpus": 4}


def make(**known):
    return JobView(key=JobKey("slurm", "1"), **known)


def test_what_is_allocated_and_not_used_is_wasted():
    waste = waste_now(make(cpus_now=0.2, allocated_cpus=4, memory=108 * 1024, memory_limit=16 * GIB), **NODE)
    assert waste.idle_cpus == pytest.approx(3.8)
    assert waste.unused_bytes == 16 * GIB - 108 * 1024
    assert waste.idle_gpus is None
    assert waste.share == pytest.approx(3.8 / 64, rel=0.06)
    assert waste.words == ("3.8 CPUs idle", f"16{THIN}GiB unused")


def test_huge_pages_that_are_not_charged_are_not_wasted():
    waste = waste_now(make(memory=2 * GIB, uncharged=5 * GIB, memory_limit=16 * GIB), **NODE)
    assert waste.unused_bytes == 9 * GIB


def test_the_share_is_that_of_what_it_holds_most_of():
    idle_card = (GpuView("a", True, 0.0), GpuView("b", False, 0.0))
    waste = waste_now(make(cpus_now=4.0, allocated_cpus=4, gpus=idle_card), **NODE)
    assert waste.share == 0.25
    assert waste.words == ("1 GPU idle",)


def test_from_the_first_minute_the_average_serves_until_two_looks_are_known():
    assert waste_now(make(cpus_mean=1.0, allocated_cpus=8), **NODE).idle_cpus == 7.0


def test_a_job_that_uses_more_than_it_has_wastes_nothing():
    waste = waste_now(make(cpus_now=5.0, allocated_cpus=4), **NODE)
    assert (waste.idle_cpus, waste.share, waste.words) == (0.0, 0.0, ())


def test_a_limit_beyond_the_memory_of_the_node_holds_no_more_than_it():
    waste = waste_now(make(memory=56 * GIB, memory_limit=2**60), **NODE)
    assert waste.unused_bytes == 200 * GIB


@pytest.mark.parametrize(
    "job",
    [
        make(is_running=False, cpus_now=0.0, allocated_cpus=4),
        make(),
    ],
)
def test_of_a_job_that_has_ended_or_is_unknown_nothing_is_said(job):
    assert waste_now(job, **NODE) == UNKNOWN_WASTE


def test_a_suspended_job_wastes_nothing_which_is_not_unknown():
    job = make(identity=JobIdentity(state="SUSPENDED"), cpus_now=0.0, allocated_cpus=4)
    assert waste_now(job, **NODE) == NO_WASTE
    assert (waste_now(job, **NODE).share, waste_now(job, **NODE).words) == (0.0, ())


def test_the_most_wasteful_job_is_the_one_with_the_largest_share_and_nobody_where_none_wastes():
    def on_node(number, **known):
        job = JobView(key=JobKey("slurm", number), allocated_cpus=4, **known)
        return replace(job, waste_now=waste_now(job, **NODE))

    busy, idle = on_node("1", cpus_now=4.0), on_node("2", cpus_now=0.5)
    card = on_node("3", cpus_now=4.0, gpus=(GpuView("a", True, 0.0),))
    unknown = JobView(key=JobKey("slurm", "4"))
    assert NodeView(jobs=(busy, idle, unknown)).most_wasteful == idle
    assert NodeView(jobs=(busy, idle, card)).most_wasteful == card
    assert NodeView(jobs=(busy, unknown)).most_wasteful is None


def test_of_a_gpu_that_jobs_share_each_leaves_at_most_its_part_idle():
    uses = (
        GpuView("a", True, 0.25, part=0.25),
        GpuView("b", True, 0.125, part=0.25),
        GpuView("c", True, 0.5),
    )
    assert waste_now(make(cpus_now=4.0, allocated_cpus=4, gpus=uses), **NODE).idle_gpus == 0.625


def test_of_a_node_that_tells_nothing_of_itself_there_is_no_share():
    job = make(cpus_now=0.5, allocated_cpus=4, memory=2 * GIB, memory_limit=34 * GIB)
    waste = waste_now(job, cpus=None, memory_bytes=None)
    assert (waste.idle_cpus, waste.unused_bytes, waste.share) == (3.5, 32 * GIB, None)
