import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.drains.nodemetrics import SeenJob, SeenNode
from jobfeatures.drains.plan import compute_choice, plan_drain
from jobfeatures.records.model import (
    UNLIMITED,
    Cluster,
    ClusterNode,
    Job,
    JobKey,
    JobState,
    JobTable,
    Limits,
    Partition,
)
from jobfeatures_exporter.cluster.draincurves import (
    RunningJob,
    compute_drain_curves,
    compute_points,
    find_pools,
    read_running,
    thin,
    usable_cpus,
)

NOW = 1_800_000_000.0

JOBS = st.lists(
    st.builds(
        RunningJob,
        st.integers(1, 64),
        st.integers(0, 10**6).map(float),
        st.one_of(st.integers(0, 10**6).map(float), st.just(math.inf)),
    ),
    max_size=12,
)


def as_node(jobs, total):
    """Return the same jobs as the plan of one node is given them."""
    return SeenNode(
        "n",
        total,
        tuple(
            SeenJob(
                batch_system="slurm",
                job_id=str(number),
                allocated_cpus=job.cpus,
                end_secs=None if math.isinf(job.end_secs) else job.end_secs,
                draining_core_secs=0.0,
                kill_core_secs=job.cpus * job.run_secs,
                kill_rate_cpus=job.cpus,
            )
            for number, job in enumerate(jobs)
        ),
    )


@given(jobs=JOBS, spare=st.integers(-100, 300))
def test_the_curve_costs_what_the_plan_of_a_node_costs_at_every_end(jobs, spare):
    total = max(0, sum(job.cpus for job in jobs) + spare)
    node = as_node(jobs, total)
    points = compute_points(jobs, total)
    plan = plan_drain(node, NOW)
    assert [point.after_secs for point in points] == [choice.after_secs for choice in plan.choices]
    for point, choice in zip(points, plan.choices, strict=True):
        assert point.idle_core_secs == pytest.approx(choice.idle_core_secs, abs=1e-3)
        assert point.kill_core_secs == pytest.approx(choice.kill_core_secs, abs=1e-3)
        assert point.killed == len(choice.killed)


@given(jobs=JOBS, spare=st.integers(0, 300))
def test_an_instant_before_an_end_its_jobs_would_be_killed(jobs, spare):
    total = sum(job.cpus for job in jobs) + spare
    node = as_node(jobs, total)
    for point in compute_points(jobs, total)[1:]:
        before = compute_choice(node, math.nextafter(point.after_secs, 0))
        assert point.core_secs_before == pytest.approx(before.core_secs, rel=1e-6, abs=1e-3)
        assert point.core_secs <= point.core_secs_before + 1e-3


def test_a_single_job_is_best_left_to_end_when_little_is_left_of_it():
    points = compute_points([RunningJob(8, 3600.0, 60.0)], 8)
    assert [(point.after_secs, point.core_secs, point.killed) for point in points] == [
        (0.0, 8 * 3600.0, 1),
        (60.0, 0.0, 0),
    ]


def test_without_a_job_a_shutdown_now_costs_nothing():
    (point,) = compute_points([], 64)
    assert (point.after_secs, point.core_secs) == (0.0, 0.0)


def job(number, partition, *, run=600, wall=3600, cpus=4, state=JobState.RUNNING):
    return Job(
        key=JobKey("slurm", str(number)),
        state=state,
        partition=partition,
        start_secs=None if run is None else int(NOW) - run,
        total_cpus=cpus,
        limits=Limits(wall_secs=wall),
    )


def table(*jobs):
    return JobTable(source="slurm", jobs={each.key: each for each in jobs}, taken_at_secs=NOW, complete=True)


def cluster():
    names = ("a1", "a2", "b1", "c1")
    return Cluster(
        source="slurm",
        taken_at_secs=NOW,
        partitions=(
            Partition(name="a", nodes=("a1", "a2")),
            Partition(name="long", nodes=("a2", "b1")),
            Partition(name="c", nodes=("c1", "gone")),
            Partition(name="empty"),
        ),
        nodes=tuple(ClusterNode(name=name, states=("MIXED",), cpus=16, allocated_cpus=8) for name in names),
    )


def test_partitions_that_share_nodes_are_drained_together():
    assert find_pools(cluster()) == [("a", "long"), ("c",), ("empty",)]


def test_a_partition_that_joins_two_pools_makes_them_one():
    bridge = Partition(name="bridge", nodes=("a1", "c1"))
    joined = Cluster(source="slurm", taken_at_secs=NOW, partitions=(*cluster().partitions, bridge))
    assert find_pools(joined) == [("empty",), ("a", "bridge", "c", "long")]


def test_each_pool_with_running_jobs_has_a_curve_the_largest_first():
    curves = compute_drain_curves(
        table(job(1, "c"), job(2, "a"), job(3, "long"), job(4, "c", state=JobState.PENDING), job(5, "gone")),
        cluster(),
        now_secs=NOW,
    )
    assert [(each.partitions, each.total_cpus, each.jobs) for each in curves] == [
        (("a", "long"), 48, 2),
        (("c",), 16, 1),
    ]


def test_what_is_not_known_of_a_job_is_told_apart():
    (curve,) = compute_drain_curves(
        table(job(1, "c", cpus=None), job(2, "c", run=None), job(3, "c", wall=UNLIMITED), job(4, "c")),
        cluster(),
        now_secs=NOW,
    )
    assert (curve.jobs, curve.unknown_jobs, curve.endless_jobs) == (4, 2, 1)
    assert [point.after_secs for point in curve.points] == [0.0, 3000.0]


def test_a_job_just_past_its_end_ends_now_and_one_that_runs_on_for_long_has_none():
    assert read_running(job(1, "c", run=3630), NOW) == RunningJob(4, 3630.0, 0.0)
    assert read_running(job(1, "c", run=7200), NOW) == RunningJob(4, 7200.0, math.inf)


def test_a_job_that_completes_ends_now():
    completing = replace(job(1, "c", run=7200), state=JobState.COMPLETING)
    assert read_running(completing, NOW) == RunningJob(4, 7200.0, 0.0)


@pytest.mark.parametrize(
    ("states", "cpus"),
    [(("MIXED",), 16), (("IDLE",), 16), (("MIXED", "DRAIN"), 8), (("DOWN",), 8), ((), 8)],
)
def test_cpus_of_a_node_that_starts_no_jobs_are_not_lost_by_a_drain(states, cpus):
    assert usable_cpus(ClusterNode(name="n", states=states, cpus=16, allocated_cpus=8)) == cpus


def test_a_long_curve_is_thinned_to_few_points_with_the_best_and_the_last():
    jobs = [job(number, "c", wall=700 + 10 * number, cpus=1) for number in range(2000)]
    (curve,) = compute_drain_curves(table(*jobs), cluster(), now_secs=NOW)
    points = {point.after_secs: point for point in thin(curve.points, 100)}
    assert len(curve.points) == 2001
    assert len(points) <= 103
    times = list(points)
    assert times == sorted(times)
    assert {0.0, curve.best.after_secs, curve.points[-1].after_secs} <= points.keys()
