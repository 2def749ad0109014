"""What a node wastes: examples worked by hand, and what holds for all nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.status.jobstatus import JobStatus
from jobfeatures.status.waste import (
    Basis,
    NodeJob,
    RemainingBasis,
    Waste,
    cap_waste,
    compute_cpu_limit_secs,
    compute_expected_end,
    compute_node_draining_waste,
    compute_node_kill_waste,
    compute_remaining,
)

REPORTED, ESTIMATED, MIXED = Basis.REPORTED, Basis.ESTIMATED, Basis.MIXED


def batch_job(cpus=4, end=1000.0, kill=400.0):
    return NodeJob(
        allocated_cpus=cpus, end_secs=end, draining=Waste(0, ESTIMATED), kill=Waste(kill, ESTIMATED)
    )


def pilot(cpus=8, end=4600.0, draining=12_000.0, kill=3500.0, end_basis=REPORTED):
    return NodeJob(
        allocated_cpus=cpus, end_secs=end, end_basis=end_basis,
        draining=Waste(draining, REPORTED), kill=Waste(kill, REPORTED),
    )  # fmt: skip


def test_own_waste_idle_cores_after_each_end_and_unallocated_cores_add_up():
    # 16 CPUs at time 100. The pilot (8) ends at 4600 and wastes 12000 itself; the job (4) ends at 1000 and
    # leaves 4 × 3600 = 14400; 4 cores were never given away: 4 × 4500 = 18000.
    waste = compute_node_draining_waste([pilot(), batch_job()], total_cpus=16, now_secs=100)
    assert waste == Waste(12_000 + 14_400 + 18_000, MIXED)


def test_the_basis_is_a_report_only_if_everything_was_reported():
    assert compute_node_draining_waste([pilot()], total_cpus=8, now_secs=0).basis is REPORTED
    assert compute_node_draining_waste([batch_job()], total_cpus=8, now_secs=0).basis is ESTIMATED
    by_limit = compute_node_draining_waste([pilot(end_basis=ESTIMATED)], total_cpus=8, now_secs=0)
    assert by_limit.basis is MIXED
    assert compute_node_kill_waste([pilot(), batch_job()]) == Waste(3900, MIXED)
    assert compute_node_kill_waste([batch_job(), batch_job()]) == Waste(800, ESTIMATED)


def test_an_empty_node_wastes_nothing():
    assert compute_node_draining_waste([], total_cpus=16, now_secs=0) == Waste(0, ESTIMATED)
    assert compute_node_kill_waste([]) == Waste(0, ESTIMATED)


def test_one_unknown_job_makes_the_sum_unknown_not_smaller():
    for unknown in (batch_job(end=None), batch_job(cpus=None)):
        assert compute_node_draining_waste([pilot(), unknown], total_cpus=16, now_secs=0) is None
    assert compute_node_draining_waste([batch_job()], total_cpus=None, now_secs=0) is None
    assert compute_node_kill_waste([pilot(), NodeJob(allocated_cpus=4)]) is None


def test_an_end_in_the_past_counts_as_now_and_is_flagged():
    waste = compute_node_draining_waste(
        [batch_job(end=50.0), batch_job(end=200.0)], total_cpus=8, now_secs=100
    )
    assert waste == Waste(4 * 100, ESTIMATED, overdue=True)
    assert compute_node_draining_waste([batch_job(end=100.0)], total_cpus=4, now_secs=100) == Waste(
        0, ESTIMATED
    )


def test_cpus_that_jobs_share_are_idle_once_the_jobs_that_still_run_have_fewer():
    # 16 CPUs are given away of 12: from 1000 on job 2 has 8 of them.
    jobs = [batch_job(cpus=8, end=1000.0), batch_job(cpus=8, end=3000.0)]
    assert compute_node_draining_waste(jobs, total_cpus=12, now_secs=0) == Waste(4 * 2000, ESTIMATED)


@given(
    st.integers(0, 40),
    st.lists(st.tuples(st.integers(0, 30), st.integers(-5, 60)), max_size=30),
    st.integers(0, 1_000_000),
)
def test_what_a_node_wastes_is_the_sum_over_its_idle_cpus_second_by_second(total, jobs, now):
    given_jobs = [batch_job(cpus=cpus, end=now + end) for cpus, end in jobs]
    waste = compute_node_draining_waste(given_jobs, total_cpus=total, now_secs=now)
    last = max((end for _, end in jobs), default=0)
    idle = [max(0, total - sum(cpus for cpus, end in jobs if end > second)) for second in range(last)]
    assert waste.core_secs == sum(idle)


def test_an_end_that_the_job_and_a_limit_agree_on_is_the_jobs_word():
    status = JobStatus(used_cpu=1, last_exp_job_end=500)
    assert compute_expected_end(status, limit_ends_secs=[500.0, 700.0]) == (500, REPORTED)
    assert compute_expected_end(status, limit_ends_secs=[499.0]) == (499, ESTIMATED)


def test_an_end_is_the_jobs_own_estimate_unless_a_limit_comes_before():
    status = JobStatus(used_cpu=1, last_exp_job_end=500, last_max_job_end=600)
    assert compute_expected_end(status, limit_ends_secs=[None, 700.0]) == (500, REPORTED)
    assert compute_expected_end(status, limit_ends_secs=[400.0, 700.0]) == (400, ESTIMATED)
    only_maximum = JobStatus(used_cpu=1, last_max_job_end=600)
    assert compute_expected_end(only_maximum, limit_ends_secs=[]) == (600, REPORTED)
    assert compute_expected_end(None, limit_ends_secs=[None, 700.0]) == (700, ESTIMATED)
    assert compute_expected_end(None, limit_ends_secs=[None]) == (None, ESTIMATED)


@pytest.mark.parametrize(
    ("rate", "cpus", "expected"),
    [(2.0, 4, 1000), (0.5, 4, 4000), (0.0, 4, 500), (None, 4, 500), (None, None, None), (0.0, 0, None)],
)
def test_the_cpu_limit_is_used_up_at_the_present_rate_else_by_all_cpus(rate, cpus, expected):
    found = compute_cpu_limit_secs(limit_secs=5000, used_secs=3000, rate_cpus=rate, allocated_cpus=cpus)
    assert found == expected


def test_remaining_time_has_every_basis_that_is_known():
    status = JobStatus(used_cpu=1, last_exp_job_end=150, last_max_job_end=160)
    found = compute_remaining(now_secs=100, end_limit_secs=200, shutdown_secs=90, status=status, cpu_secs=7.5)
    assert found == {
        RemainingBasis.WALL_LIMIT: 100, RemainingBasis.SHUTDOWN: -10, RemainingBasis.EXPECTED_END: 50,
        RemainingBasis.MAXIMUM_END: 60, RemainingBasis.CPU_LIMIT: 7.5,
    }  # fmt: skip


def test_what_a_job_says_is_no_more_than_its_cpus_can_waste_until_its_end():
    told = Waste(11_991, REPORTED, overdue=True)
    assert cap_waste(told, allocated_cpus=8, from_secs=100, to_secs=157) == Waste(456, REPORTED, True, True)
    assert cap_waste(told, allocated_cpus=8, from_secs=100, to_secs=50) == Waste(0, REPORTED, True, True)
    for unknown in ({"allocated_cpus": None}, {"from_secs": None}, {"to_secs": None}):
        given = {"allocated_cpus": 8, "from_secs": 100, "to_secs": 157, **unknown}
        assert cap_waste(told, **given) is told
    assert cap_waste(None, allocated_cpus=8, from_secs=0, to_secs=1) is None


@given(st.floats(0, 1e9), st.integers(0, 64), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_capped_figure_is_possible_and_one_that_was_possible_stays(core_secs, cpus, start, end):
    told = Waste(core_secs, REPORTED)
    counted = cap_waste(told, allocated_cpus=cpus, from_secs=start, to_secs=end)
    most = cpus * max(0, end - start)
    assert counted.core_secs == min(core_secs, most)
    assert counted.capped == (core_secs > most)
    measured = Waste(core_secs, Basis.MEASURED)  # was really used
    assert cap_waste(measured, allocated_cpus=cpus, from_secs=start, to_secs=end) is measured


cpu_counts = st.integers(1, 64)
node_jobs = st.builds(batch_job, cpu_counts, st.floats(0, 1e6), st.floats(0, 1e9)) | st.builds(
    pilot, cpu_counts, st.floats(0, 1e6), st.floats(0, 1e9), st.floats(0, 1e9)
)


@given(st.lists(node_jobs, min_size=1, max_size=8), st.integers(0, 1000), st.floats(0, 1e6))
def test_a_node_wastes_at_least_what_its_jobs_do_and_more_with_more_cores(jobs, spare, now):
    total = sum(job.allocated_cpus for job in jobs) + spare
    waste = compute_node_draining_waste(jobs, total_cpus=total, now_secs=now)
    assert waste.core_secs >= sum(job.draining.core_secs for job in jobs) * 0.999999
    more = compute_node_draining_waste(jobs, total_cpus=total + 1, now_secs=now)
    last = max(now, *(job.end_secs for job in jobs))
    assert more.core_secs - waste.core_secs == pytest.approx(
        last - now, abs=max(1e-3, waste.core_secs * 1e-9)
    )
    reported = {basis for job in jobs for basis in (job.draining.basis, job.end_basis)}
    assert (waste.basis is REPORTED) == (reported == {REPORTED})
