"""Drains and the node's waste; the context's jobs hold more CPUs than the node has, so nothing is unallocated."""

from dataclasses import replace

import pytest

from exporter.collectors import COLLECTORS
from exporter.context import Context
from jobfeatures.model import JobKey
from jobfeatures.publish.drainbook import NO_VIEW

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
        for text, value in family.samples
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


def test_without_drains_the_node_is_said_not_to_drain_and_has_no_shutdown(known):
    calm = replace(known, drains=NO_VIEW)
    assert series(calm, "batch_node_draining") == {'source="operator"': 0}
    assert series(calm, "batch_node_shutdown_time_seconds") == {}
    assert series(calm, "batch_job_shutdown_time_seconds") == {}


def test_the_waste_of_the_node_is_mixed_where_one_job_reports_and_one_does_not(known):
    # Job 12: 4 CPUs, ends in 3000 s by its wall limit; the pilot ends in 5000 s and reports 1200.
    assert series(known, "batch_node_draining_waste_core_seconds") == {'basis="mixed"': 1200 + 4 * 2000}
    assert series(known, "batch_node_kill_waste_core_seconds") == {'basis="mixed"': 4 * 600 + 3500}


def test_a_job_that_no_source_knows_makes_the_waste_of_the_node_unknown(context):
    assert series(context, "batch_node_draining_waste_core_seconds") == {}
    assert series(context, "batch_node_kill_waste_core_seconds") == {}


def test_the_cpu_limit_is_reached_at_the_allocation_where_the_rate_is_unknown(context):
    key = JobKey("slurm", "12")
    assert context.cpu_remaining_secs(key) == pytest.approx((14_400 - 1240.75) / 2.5)
    assert replace(context, cpu_rates={}).cpu_remaining_secs(key) == (14_400 - 1240.75) / 4


def test_of_a_job_on_several_nodes_the_use_of_the_cpu_limit_is_not_known(context):
    key = JobKey("slurm", "12")
    job = replace(context.jobs[key], nodes=("n1", "n2"))
    assert replace(context, jobs={key: job}).cpu_remaining_secs(key) is None
