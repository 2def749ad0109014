"""Which jobs to give up: worked examples, and every set of jobs as the judge."""

from fractions import Fraction
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.drains.nodemetrics import SeenJob
from jobfeatures.drains.victims import choose_victims


def job(job_id, cores, waste, user="alice", priority=None, **more):
    return SeenJob(
        batch_system="slurm", job_id=job_id, user=user, allocated_cpus=cores, kill_core_secs=waste,
        priority_factor=priority, **more,
    )  # fmt: skip


def ids(jobs):
    return None if jobs is None else [each.job_id for each in jobs]


def chosen(jobs, cores):
    return ids(choose_victims(jobs, cores).chosen)


def test_the_least_waste_goes_not_the_least_for_each_core():
    # For each core wanted job 3 is the cheapest, but what frees 8 with it needs job 1 too.
    jobs = [job("1", 8, 8000.0), job("2", 2, 2400.0), job("3", 1, 500.0)]
    assert chosen(jobs, 8) == ["1"]
    assert chosen(jobs, 3) == ["2", "3"]
    assert chosen(jobs, 1) == ["3"]


def test_two_cheap_large_jobs_go_before_one_dear_small_one():
    jobs = [job("1", 8, 100.0), job("2", 8, 150.0), job("3", 1, 5000.0)]
    assert chosen(jobs, 9) == ["1", "2"]


def test_what_the_rest_covers_stays():
    # The small jobs are cheaper for each core; with the large one, which is needed anyway, they are not.
    assert chosen([job("1", 1, 10.0), job("2", 1, 11.0), job("3", 4, 900.0)], 4) == ["3"]


def test_within_one_user_the_lower_priority_goes_first_whatever_the_waste():
    jobs = [job("1", 1, 10.0, priority=5), job("2", 1, 99.0, priority=-3)]
    assert chosen(jobs, 1) == ["2"]
    assert chosen(jobs, 2) == ["1", "2"]
    beside = [*jobs, job("3", 1, 100.0, "bob")]
    assert chosen(beside, 1) == ["2"]
    assert chosen([*beside, job("4", 1, 98.0, "bob")], 1) == ["4"]


def test_of_equal_priority_any_goes_once_all_lower_ones_do():
    jobs = [job("1", 1, 1.0, priority=1), job("2", 1, 50.0, priority=2), job("3", 1, 20.0, priority=2)]
    assert chosen(jobs, 1) == ["1"]
    assert chosen(jobs, 2) == ["1", "3"]


def test_priorities_of_different_users_are_not_compared():
    jobs = [job("1", 1, 10.0, "alice", 1000), job("2", 1, 20.0, "bob", 0)]
    assert chosen(jobs, 1) == ["1"]
    assert chosen([job("1", 1, 10.0, "alice", 0), job("2", 1, 20.0, "bob", 1000)], 1) == ["1"]
    assert chosen([job("1", 1, 20.0, None, 1), job("2", 1, 10.0, None, 9)], 1) == ["2"]


def test_equally_cheap_sets_differ_by_jobs_then_cores_then_ids():
    assert chosen([job("1", 1, 5.0), job("2", 1, 5.0), job("3", 2, 10.0)], 2) == ["3"]
    assert chosen([job("1", 4, 10.0), job("2", 3, 10.0)], 2) == ["2"]
    assert chosen([job("1", 2, 10.0), job("2", 2, 10.0)], 2) == ["1"]
    # Whatever the order in which doubles are added.
    assert chosen([job("1", 1, 0.1), job("2", 1, 0.2), job("3", 1, 0.3), job("4", 3, 0.6)], 3) == ["4"]


def test_ties_are_counted_over_whole_sets():
    assert chosen([job("1", 5, 2.0), job("2", 1, 1.0), job("3", 5, 2.0)], 6) == ["1", "2"]
    assert chosen([job("1", 1, 3.0), job("2", 5, 2.0), job("3", 2, 3.0)], 6) == ["1", "2"]


def test_a_difference_below_the_rounding_of_doubles_decides():
    assert 0.1 + 0.2 == 0.30000000000000004  # whose exact value is more than the sum of theirs
    assert chosen([job("1", 1, 0.1), job("2", 1, 0.2), job("3", 2, 0.30000000000000004)], 2) == ["1", "2"]


def test_none_lost_is_less_than_a_little():
    assert chosen([job("1", 1, 0.5), job("2", 1, 0.0)], 1) == ["2"]


def test_a_priority_of_nought_is_lower_than_one():
    assert chosen([job("1", 1, 1.0, priority=1), job("2", 1, 50.0, priority=0)], 1) == ["2"]


def test_a_job_without_cores_frees_none():
    assert choose_victims([job("1", 0, 1.0)], 1).chosen is None
    assert chosen([job("1", 0, 1.0, priority=0), job("2", 1, 5.0, priority=1)], 1) == ["1", "2"]


def test_more_cores_than_there_are_chooses_nobody():
    found = choose_victims([job("1", 4, 1.0), job("2", 8, 2.0)], 13)
    assert (found.chosen, found.freed, found.available) == (None, 0, 12)
    assert choose_victims([], 10**18).chosen is None


def test_what_is_not_known_is_never_chosen_and_told():
    found = choose_victims([job("1", 4, None), job("2", None, 5.0), job("3", 1, 1e9)], 1)
    assert (ids(found.chosen), ids(found.unknown), ids(found.considered)) == (["3"], ["1", "2"], ["3"])


def test_a_job_stays_behind_one_of_its_user_that_is_not_known_and_should_go_before():
    jobs = [
        job("1", 4, None, priority=1), job("2", 4, 1.0, priority=1), job("3", 4, 1.0, priority=2),
        job("4", 4, 50.0, "bob"),
    ]  # fmt: skip
    found = choose_victims(jobs, 8)
    assert (ids(found.chosen), ids(found.kept), ids(found.unknown)) == (["2", "4"], ["3"], ["1"])
    assert found.cores == 8
    jobs += [job("5", 4, None, "bob", 1), job("6", 4, 1.0, "bob", 2)]
    assert ids(choose_victims(jobs, 8).kept) == ["3", "6"]


job_lists = st.lists(
    st.builds(
        lambda cores, waste, user, priority: (cores, waste, user, priority),
        st.none() | st.integers(0, 9) | st.integers(1, 128),
        st.none() | st.integers(0, 20).map(float) | st.floats(0, 1e9),
        st.none() | st.sampled_from(["alice", "bob", "carol"]),
        st.none() | st.integers(-2, 2),
    ),
    max_size=9,
).map(lambda drawn: [job(str(number), *each[:2], *each[2:]) for number, each in enumerate(drawn)])


def may_go(chosen, jobs):
    """Tell by the rule as it is written whether exactly these jobs may be given up."""
    for one in chosen:
        if one.allocated_cpus is None or one.kill_core_secs is None:
            return False
        if one.user is None or one.priority_factor is None:
            continue
        own = (each for each in jobs if each.user == one.user and each.priority_factor is not None)
        if any(each.priority_factor < one.priority_factor and each not in chosen for each in own):
            return False
    return True


@given(job_lists, st.integers(1, 40))
def test_no_other_set_of_jobs_is_cheaper(jobs, cores):
    def cost(these):
        waste = sum(Fraction(each.kill_core_secs) for each in these)
        return waste, len(these), sum(each.allocated_cpus for each in these), ids(these)

    sets = [
        these
        for count in range(len(jobs) + 1)
        for these in combinations(jobs, count)
        if may_go(these, jobs) and sum(each.allocated_cpus for each in these) >= cores
    ]
    found = choose_victims(jobs, cores)
    assert found.chosen == min(sets, key=cost, default=None)
    assert sorted(ids(found.considered + found.kept + found.unknown)) == ids(jobs)
