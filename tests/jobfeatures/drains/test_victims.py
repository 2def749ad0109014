import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.drains.nodemetrics import SeenJob
from jobfeatures.drains.victims import cores_found, rank_victims


def job(job_id, cores, waste, user="alice", priority=None, **more):
    return SeenJob(
        batch_system="slurm", job_id=job_id, user=user, allocated_cpus=cores, kill_core_secs=waste,
        priority_factor=priority, **more,
    )  # fmt: skip


def order(jobs, cores=1):
    return [each.job.job_id for each in rank_victims(jobs, cores)]


def test_the_least_waste_for_each_core_goes_first():
    # 8000 for 8 cores is 1000 each, 2400 for 2 is 1200 each, 500 for 1 is 500.
    jobs = [job("1", 8, 8000.0), job("2", 2, 2400.0), job("3", 1, 500.0)]
    assert order(jobs, 8) == ["3", "1", "2"]


def test_cores_beyond_those_wanted_do_not_make_a_job_cheaper():
    jobs = [job("1", 8, 800.0), job("2", 1, 200.0)]
    assert order(jobs, 8) == ["1", "2"]  # 100 and 200 a core
    assert order(jobs, 1) == ["2", "1"]  # 800 and 200 for the one core


def test_within_one_user_the_lower_priority_goes_first_whatever_the_waste():
    assert order([job("1", 1, 10.0, priority=5), job("2", 1, 99.0, priority=-3)]) == ["2", "1"]


def test_priorities_of_different_users_are_not_compared():
    jobs = [job("1", 1, 10.0, "alice", 1000), job("2", 1, 20.0, "bob", 0)]
    assert order(jobs) == ["1", "2"]
    swapped = [job("1", 1, 10.0, "alice", 0), job("2", 1, 20.0, "bob", 1000)]
    assert order(swapped) == ["1", "2"]


def test_a_job_of_an_unknown_user_is_compared_by_waste_alone():
    jobs = [job("1", 1, 20.0, None, 1), job("2", 1, 10.0, None, 9)]
    assert order(jobs) == ["2", "1"]


def test_jobs_are_needed_until_the_cores_are_found():
    ranked = rank_victims([job("1", 2, 10.0), job("2", 2, 20.0), job("3", 2, 30.0)], 3)
    assert [(each.job.job_id, each.freed, each.needed) for each in ranked] == [
        ("1", 2, True), ("2", 4, True), ("3", 6, False),
    ]  # fmt: skip
    assert cores_found(ranked) == 4


def test_what_is_not_known_comes_last_and_is_never_needed():
    ranked = rank_victims([job("1", 4, None), job("2", None, 5.0), job("3", 1, 1e9)], 4)
    assert [(each.job.job_id, each.needed) for each in ranked] == [("3", True), ("1", False), ("2", False)]
    assert cores_found(ranked) == 1


def test_no_core_is_no_question():
    with pytest.raises(ValueError, match="at least one"):
        rank_victims([], 0)


jobs = st.lists(
    st.builds(
        job,
        st.uuids().map(str),
        st.none() | st.integers(0, 64),
        st.none() | st.floats(0, 1e9),
        st.none() | st.sampled_from(["alice", "bob", "carol"]),
        st.none() | st.integers(-5, 5),
    ),
    max_size=12,
)


@given(jobs, st.integers(1, 100), st.integers(-9, 9))
def test_the_order_depends_on_no_comparison_of_priorities_across_users(found, cores, shift):
    ranked = rank_victims(found, cores)
    assert sorted(each.job.job_id for each in ranked) == sorted(each.job_id for each in found)
    # Shifting all priorities of one user says nothing new.
    shifted = [
        SeenJob(
            batch_system=each.batch_system, job_id=each.job_id, user=each.user,
            allocated_cpus=each.allocated_cpus, kill_core_secs=each.kill_core_secs,
            priority_factor=each.priority_factor + shift if each.user == "bob" and each.priority_factor is not None
            else each.priority_factor,
        )
        for each in found
    ]  # fmt: skip
    assert [each.job.job_id for each in rank_victims(shifted, cores)] == [each.job.job_id for each in ranked]
    for user in ("alice", "bob", "carol"):
        own = [
            each.job.priority_factor
            for each in ranked
            if each.job.user == user
            and each.job.priority_factor is not None
            and each.core_secs_per_core is not None
        ]
        assert own == sorted(own)
