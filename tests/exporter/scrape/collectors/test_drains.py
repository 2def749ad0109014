"""Drains and the node's waste; the context's jobs hold more CPUs than the node has, so nothing is unallocated."""

from dataclasses import replace

import pytest

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.publish.drainbook import NO_VIEW
from jobfeatures.records.model import JobKey, JobTable, Limits, NodeNotice
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.exporter.seriestext import labelled

TABLE = JobTable(source="slurm", jobs={}, taken_at_secs=0, complete=True)
UNKNOWN = JobKey("slurm", "99")


@pytest.fixture
def known(context):
    """Return the context without the job that no source knows."""
    jobs = {key: sample for key, sample in context.snapshot.jobs.items() if key != UNKNOWN}
    return replace(context, snapshot=replace(context.snapshot, jobs=jobs))


def series(context: Context, name: str) -> dict[str, float]:
    families = COLLECTORS["drains"].families(context)
    return {
        text: value
        for family in families
        if family.metric.sample_name == name
        for text, value in labelled(family)
    }


def test_each_source_of_a_shutdown_is_told_apart(known):
    now = known.now_secs
    assert series(known, "batch_node_shutdown_time_seconds") == {
        'source="operator"': now + 7200,
        'source="slurm"': now + 3600,
    }
    assert series(known, "batch_node_draining") == {'source="operator"': 1, 'source="slurm"': 1}
    assert series(known, "batch_job_shutdown_time_seconds") == {
        'batch_system="slurm",job_id="12",source="operator"': now + 1800
    }


def test_a_job_s_end_by_its_batch_system_is_told_beside_the_operator_s(known, make_job):
    job = replace(known.jobs_here[JobKey("slurm", "12")], deadline_secs=1800000600)
    known = replace(known, jobs={**known.jobs, job.key: job})
    assert series(known, "batch_job_shutdown_time_seconds") == {
        'batch_system="slurm",job_id="12",source="operator"': known.now_secs + 1800,
        'batch_system="slurm",job_id="12",source="slurm"': 1800000600,
    }


def test_without_drains_the_node_is_said_not_to_drain_and_has_no_shutdown(known):
    calm = replace(known, drains=NO_VIEW)
    assert series(calm, "batch_node_draining") == {'source="operator"': 0}
    assert series(calm, "batch_node_shutdown_time_seconds") == {}
    assert series(calm, "batch_job_shutdown_time_seconds") == {}


def test_the_waste_of_the_node_is_mixed_where_one_job_reports_and_one_does_not(known):
    # Job 12: 4 CPUs, ends in 3000 s by its wall limit; the pilot has all 8, ends in 5000 s and reports 1200.
    assert series(known, "batch_node_draining_waste_core_seconds") == {'basis="mixed"': 1200}
    assert series(known, "batch_node_kill_waste_core_seconds") == {'basis="mixed"': 4 * 600 + 3500}


def test_a_job_that_no_source_knows_is_counted_and_blanks_nothing(context):
    assert series(context, "batch_node_draining_waste_core_seconds") == {'basis="mixed"': 1200}
    assert series(context, "batch_node_kill_waste_core_seconds") == {'basis="mixed"': 4 * 600 + 3500}
    for name in ("batch_node_draining_waste_jobs", "batch_node_kill_waste_jobs"):
        assert series(context, name) == {'counted="yes"': 2, 'counted="no"': 1}


def test_cpus_that_nobody_knows_of_are_not_called_idle(known):
    """Of a hundred CPUs one job has 4, another an unknown number or eight with an unknown end."""
    key, other = JobKey("slurm", "12"), JobKey("slurm", "13")
    job = replace(known.jobs[key], start_secs=int(known.now_secs) - 600)
    large = replace(
        known, machine=replace(known.machine, total_cpus=100), snapshot=replace(known.snapshot, jobs={})
    )
    alone = replace(large, jobs={key: job})
    left_secs = job.end_limit_secs - known.now_secs
    [(_, waste)] = series(alone, "batch_node_draining_waste_core_seconds").items()
    assert waste == 96 * left_secs
    endless = replace(job, key=other, allocated_cpus=8, limits=Limits())
    both = replace(large, jobs={key: job, other: endless})
    assert series(both, "batch_node_draining_waste_core_seconds") == {'basis="estimated"': 88 * left_secs}
    unknown = replace(both, jobs={key: job, other: replace(endless, allocated_cpus=None)})
    assert series(unknown, "batch_node_draining_waste_core_seconds") == {'basis="estimated"': 0}
    assert series(unknown, "batch_node_kill_waste_jobs") == {'counted="yes"': 1, 'counted="no"': 1}


@pytest.mark.parametrize(
    "sources", [(), (KeeperStatus("slurm"),), (KeeperStatus("hooks", TABLE), KeeperStatus("slurm"))]
)
def test_without_a_job_and_without_an_answer_the_waste_is_not_zero_but_unknown(known, sources):
    silent = replace(known, jobs={}, snapshot=replace(known.snapshot, jobs={}), sources=sources)
    for name in ("draining_waste_core_seconds", "kill_waste_core_seconds", "draining_waste_jobs"):
        assert series(silent, f"batch_node_{name}") == {}
    answered = replace(silent, sources=(KeeperStatus("slurm", TABLE),))
    assert series(answered, "batch_node_kill_waste_core_seconds") == {'basis="estimated"': 0}


def test_jobs_of_which_nothing_is_known_make_no_waste_of_zero(known):
    blind = replace(known, jobs={}, sources=())
    assert series(blind, "batch_node_draining_waste_core_seconds") == {}
    assert series(blind, "batch_node_draining_waste_jobs") == {'counted="yes"': 0, 'counted="no"': 2}


@pytest.mark.parametrize(
    ("told", "stated", "cpus"), [(None, False, 2), (8, False, 8), (8, True, 2), (0, False, 2)]
)
def test_allocatable_cpus_are_those_that_the_batch_system_gives_out_unless_the_site_states_them(
    known, told, stated, cpus
):
    table = replace(TABLE, node=NodeNotice(cpus=told))
    machine = replace(known.machine, origins={"total_cpu": "machine.total_cpu"} if stated else {})
    context = replace(known, sources=(KeeperStatus("slurm", table),), machine=machine)
    assert context.allocatable_cpus == cpus


def test_the_cpu_limit_is_reached_at_the_allocation_where_the_rate_is_unknown(context):
    key = JobKey("slurm", "12")
    assert context.cpu_remaining_secs(key) == pytest.approx((14_400 - 1240.75) / 2.5)
    assert replace(context, cpu_rates={}).cpu_remaining_secs(key) == (14_400 - 1240.75) / 4


def test_a_cpu_limit_that_is_the_wall_limit_of_all_cpus_is_not_reached_before_it(context):
    """A node that counts cores as CPUs: both threads of each are busy, 8 CPU seconds a second on 4 CPUs."""
    key = JobKey("slurm", "12")
    busy = replace(context, cpu_rates={key: 8.0})
    job = busy.jobs[key]
    assert job.limits.cpu_secs == job.limits.wall_secs * job.allocated_cpus
    assert busy.cpu_remaining_secs(key) == busy.wall_end_secs(job) - busy.now_secs
    own = replace(job, limits=replace(job.limits, cpu_secs=7200))
    assert replace(busy, jobs={key: own}).cpu_remaining_secs(key) == (7200 - 1240.75) / 8


def test_of_a_job_on_several_nodes_the_use_of_the_cpu_limit_is_not_known(context):
    key = JobKey("slurm", "12")
    job = replace(context.jobs[key], nodes=("n1", "n2"))
    assert replace(context, jobs={key: job}).cpu_remaining_secs(key) is None
