"""When to drain: worked examples by hand, and the claim that no time between the choices is cheaper."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.drains.nodemetrics import SeenJob, SeenNode
from jobfeatures.drains.plan import NodePlan, compute_choice, order_nodes, plan_drain
from jobfeatures.status.waste import Basis


def job(job_id, cpus, end=None, kill=0.0, **more):
    values = {"kill_rate_cpus": cpus, "draining_core_secs": 0.0, **more}
    return SeenJob(
        batch_system="slurm", job_id=job_id, allocated_cpus=cpus, end_secs=end, kill_core_secs=kill, **values
    )


NOW = 1_800_000_000.0

# 16 CPUs: job 1 has 8, ran 100 s and ends in 1000 s; job 2 has 4, ran 5000 s and ends in 3000 s; 4 are free.
NODE = SeenNode("n1", 16, (job("1", 8, 1000, 800), job("2", 4, 3000, 20_000)))


def test_at_once_everything_that_was_done_is_lost_and_nothing_is_idle():
    choice = compute_choice(NODE, 0)
    assert (choice.idle_core_secs, choice.draining_core_secs, choice.kill_core_secs) == (0, 0, 20_800)
    assert choice.killed == ("slurm 1", "slurm 2")


def test_at_the_end_of_the_first_job_it_is_whole_and_the_other_has_lost_more():
    choice = compute_choice(NODE, 1000)
    assert choice.idle_core_secs == 4 * 1000
    assert choice.kill_core_secs == 20_000 + 4 * 1000
    assert choice.killed == ("slurm 2",)


def test_at_the_end_of_the_last_job_only_idle_cpus_are_lost():
    choice = compute_choice(NODE, 3000)
    assert choice.core_secs == choice.idle_core_secs == 4 * 3000 + 8 * 2000
    assert choice.killed == ()


def test_the_cheapest_time_is_named():
    plan = plan_drain(NODE, NOW)
    assert [each.after_secs for each in plan.choices] == [0, 1000, 3000]
    assert [each.core_secs for each in plan.choices] == [20_800, 28_000, 28_000]
    assert plan.best.after_secs == 0


def test_parts_of_several_jobs_add_up():
    node = SeenNode("n1", 8, (
        job("0", 2, 50, None),  # whose CPUs are neither idle nor lost
        job("1", 1, 100, 7, draining_core_secs=10.0, kill_basis=Basis.REPORTED, end_basis=Basis.REPORTED),
        job("2", 1, 100, 7, draining_core_secs=20.0, kill_basis=Basis.MEASURED, end_basis=Basis.MEASURED),
        job("3", 1, 400, 0.0, kill_rate_cpus=None, draining_core_secs=40.0),
        job("4", 1, 800, 5.0, draining_core_secs=80.0),
    ))  # fmt: skip
    choice = compute_choice(node, 200)
    assert choice.idle_core_secs == 2 * 200 + 2 * 100
    assert choice.draining_core_secs == 10 + 20 + 40 * 200 / 400 + 80 * 200 / 800
    assert choice.kill_core_secs == 5 + 200
    assert (choice.killed, choice.basis) == (("slurm 3", "slurm 4"), Basis.MIXED)


def test_bases_of_all_jobs_count():
    jobs = (job("1", 1, kill=1, kill_basis=Basis.REPORTED), job("2", 1, kill=1, kill_basis=Basis.ESTIMATED))
    assert compute_choice(SeenNode("n1", 2, jobs), 0).basis is Basis.MIXED


def test_a_job_that_should_have_ended_leaves_its_cpus_idle_from_now_on():
    for end in (-100, 0):
        assert compute_choice(SeenNode("n1", 4, (job("1", 4, end, 10),)), 1000).core_secs == 4 * 1000


@pytest.mark.parametrize(("cpus", "held", "idle"), [(0, 0, 0), (4, None, 4), (4, 0, 4), (4, 1, 3), (4, 5, 0)])
def test_idle_are_the_cpus_that_no_job_holds(cpus, held, idle):
    assert compute_choice(SeenNode("n1", cpus, (job("1", held, None, 10),)), 100).idle_core_secs == idle * 100


def test_a_plan_says_whose_it_is_and_which_jobs_say_too_much():
    plan = plan_drain(SeenNode("n1", 8, (job("1", 4, 50, 1, is_capped=True), job("2", 4, 50, 1))), NOW)
    assert (plan.node, plan.total_cpus, plan.capped_jobs, plan.unknown_jobs) == ("n1", 8, ("slurm 1",), ())


def test_a_promise_and_a_last_time_bound_the_choices():
    plan = plan_drain(NODE, NOW, earliest_secs=500, before_secs=2000)
    assert [each.after_secs for each in plan.choices] == [500, 1000, 2000]
    assert plan.choices[0].core_secs == 4 * 500 + (800 + 8 * 500) + (20_000 + 4 * 500)


@pytest.mark.parametrize(
    ("shutdowns", "times", "announced"),
    [
        ({}, [500, 1000, 3000], None),
        ({"slurm": 2000.0}, [500, 1000, 2000], (2000, "slurm")),  # later ones would come too late
        ({"operator": 2000.0}, [500, 1000, 2000, 3000], (2000, "operator")),  # may be moved
        ({"operator": 700.0, "slurm": 1500.0}, [500, 700, 1000, 1500], (700, "operator")),
        ({"operator": 1700.0, "slurm": 1500.0}, [500, 1000, 1500], (1500, "slurm")),
        ({"slurm": 100.0}, [100], (100, "slurm")),  # sooner than promised: there is no choice left
        ({"slurm": -5.0}, [500, 1000, 3000], None),  # has begun
    ],
)
def test_what_is_announced_already_is_a_choice_and_a_batch_systems_is_the_last(shutdowns, times, announced):
    node = SeenNode("n1", 16, NODE.jobs, (), {by: NOW + after_secs for by, after_secs in shutdowns.items()})
    plan = plan_drain(node, NOW, earliest_secs=500)
    assert [each.after_secs for each in plan.choices] == times
    if announced is None:
        assert (plan.announced, plan.announced_by) == (None, "")
    else:
        after_secs, by = announced
        assert plan.announced == compute_choice(NODE, after_secs)
        assert plan.announced_by == by


def test_a_last_time_of_ones_own_bounds_the_choices_before_an_announced_one():
    plan = plan_drain(SeenNode("n1", 16, NODE.jobs, (), {"slurm": NOW + 2000}), NOW, before_secs=1200)
    assert [each.after_secs for each in plan.choices] == [0, 1000, 1200]
    assert plan.announced.after_secs == 2000


def test_a_pilot_wastes_its_draining_share_evenly_until_it_ends():
    pilot = job(
        "7", 8, 2000, 3500, kill_rate_cpus=5.0, draining_core_secs=12_000.0, kill_basis=Basis.REPORTED
    )
    node = SeenNode("n1", 8, (pilot,))
    half = compute_choice(node, 1000)
    assert (half.draining_core_secs, half.kill_core_secs) == (6000, 3500 + 5 * 1000)
    assert half.basis is Basis.REPORTED
    assert compute_choice(node, 2000).core_secs == 12_000
    assert compute_choice(node, 2000).basis is Basis.MIXED  # its end is the batch system's word


def test_a_job_without_an_end_is_killed_at_every_time():
    plan = plan_drain(SeenNode("n1", 4, (job("1", 4, None, 100),)), NOW, before_secs=1000)
    assert [each.kill_core_secs for each in plan.choices] == [100, 4100]


def test_where_too_little_is_known_of_a_job_no_time_is_the_best():
    node = SeenNode("n1", 4, (job("1", 4, 50, None), job("2", None, 50, 10)))
    plan = plan_drain(node, NOW)
    assert plan.unknown_jobs == ("slurm 1", "slurm 2")
    assert (plan.best, plan.killing_none) == (None, None)
    assert [each.core_secs for each in plan.choices] == [0]  # of the jobs that are known


def test_where_a_batch_system_has_not_answered_yet_no_time_is_the_best():
    plan = plan_drain(SeenNode("n1", 4, (), ("slurm",)), NOW)
    assert (plan.best, plan.killing_none, plan.silent) == (None, None, ("slurm",))


def test_the_first_time_at_which_nobody_is_killed_stands_beside_the_cheapest():
    plan = plan_drain(NODE, NOW)
    assert (plan.best.after_secs, plan.best.core_secs) == (0, 20_800)
    assert (plan.killing_none.after_secs, plan.killing_none.core_secs) == (3000, 28_000)
    assert plan_drain(NODE, NOW, before_secs=2999).killing_none is None
    assert plan_drain(SeenNode("n1", 8), NOW).killing_none.after_secs == 0


def test_a_node_whose_cpus_are_not_known_has_no_plan_and_an_empty_one_wastes_nothing_now():
    assert plan_drain(SeenNode("n1", None), NOW) is None
    assert plan_drain(SeenNode("n1", 8), NOW).best.core_secs == 0


def test_nodes_are_drained_in_the_order_of_loss_per_cpu_and_uncertain_ones_last():
    def plan(name, cpus, kill, unknown=()):
        return NodePlan(
            name, cpus, (compute_choice(SeenNode(name, cpus, (job("1", 1, None, kill),)), 0),), unknown
        )

    plans = [plan("a", 4, 400), plan("b", 64, 3200), plan("c", 4, 0, ("x",)), plan("d", 4, 100)]
    assert [each.node for each in order_nodes(plans)] == ["d", "b", "a", "c"]
    assert [each.node for each in order_nodes([plan("0", 0, 0), *plans])] == ["d", "b", "a", "0", "c"]


jobs = st.builds(
    job,
    st.text("0123456789", min_size=1, max_size=3),
    st.integers(1, 8),
    st.none() | st.integers(-100, 5000),
    st.integers(0, 100_000),
)


@given(st.integers(0, 50), st.lists(jobs, max_size=20))
def test_idle_are_the_cpus_that_the_jobs_still_running_leave_second_by_second(total, found):
    known = [replace(each, end_secs=each.end_secs and each.end_secs // 100) for each in found]
    ends = [math.inf if each.end_secs is None else each.end_secs for each in known]
    held = [each.allocated_cpus for each in known]
    for choice in plan_drain(SeenNode("n1", total, tuple(known)), NOW).choices:
        idle = sum(
            max(0, total - sum(cpus for cpus, end in zip(held, ends, strict=True) if end > second))
            for second in range(int(choice.after_secs))
        )
        assert choice.idle_core_secs == idle


@given(st.integers(1, 48), st.lists(jobs, max_size=6), st.integers(0, 3000), st.integers(0, 3000), st.data())
def test_no_time_within_the_bounds_is_cheaper_than_the_best_choice(total, found, earliest, more, data):
    node = SeenNode("n1", total, tuple(found))
    plan = plan_drain(node, NOW, earliest_secs=earliest, before_secs=earliest + more)
    other = data.draw(st.integers(earliest, earliest + more))
    assert plan.best.core_secs <= compute_choice(node, other).core_secs
    assert all(choice.core_secs >= 0 for choice in plan.choices)
    ends = [math.inf if each.end_secs is None else each.end_secs for each in found]
    free = max([float(earliest), *ends])  # from when on every job has ended
    assert (plan.killing_none is None) == (free > earliest + more)
    if plan.killing_none is not None:
        assert plan.killing_none.after_secs == free
