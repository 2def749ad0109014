import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.choosing import ScheduleError
from jobfeatures.analysis.schedule.eet import Lanes, Mode
from jobfeatures.analysis.schedule.expected import (
    Demand,
    compute_all,
    compute_part,
    make_part,
    scaled,
    split,
)


def part_of(users, *, shares, mode=Mode.LITERAL, **more):
    """Make a part of one resource; `users`: lists of (arrival, request, runtime)."""
    jobs = [job for user in users for job in user]
    arrivals, requests, runtimes = (np.array([job[place] for job in jobs]) for place in range(3))
    bounds = np.cumsum([0] + [len(user) for user in users])
    names = [f"u{place}" for place in range(len(users))]
    return make_part(names, bounds, arrivals, runtimes, [Demand("cpu", requests, shares)], mode=mode, **more)


small = st.integers(0, 9)
some_users = st.lists(
    st.lists(st.tuples(small, small, small), min_size=1, max_size=5).map(sorted), min_size=1, max_size=6
)


@given(some_users, st.sampled_from(Mode), st.integers(1, 9))
def test_parts_together_are_the_whole_and_that_is_user_by_user(users, mode, count):
    part = part_of(users, shares=[3] * len(users), mode=mode)
    expected = [end for user in users for end in Lanes(3, mode).place(*zip(*user, strict=True))]
    assert compute_part(part).tolist() == pytest.approx(expected)
    parts = split(part, count)
    assert 1 <= len(parts) <= count
    assert compute_all(parts).tolist() == compute_part(part).tolist()


def test_parts_compute_the_same_and_tell_how_far_they_are():
    part = part_of(
        [[(place, 2, 5), (place, 1, 1)] for place in range(50)], shares=[1 + n % 3 for n in range(50)]
    )
    done = []
    assert compute_all(split(part, 8), tick=done.append).tolist() == compute_all(split(part, 1)).tolist()
    assert sum(done) == 100


def test_the_latest_of_several_resources_counts():
    arrivals, runtimes = np.array([0, 0, 0]), np.array([3, 2, 1])
    demands = [Demand("cpu", np.array([1, 1, 2]), [2]), Demand("memory", np.array([4, 2, 0]), [4])]
    part = make_part(["u"], np.array([0, 3]), arrivals, runtimes, demands)
    assert compute_part(part).tolist() == [3, 5, 4]


def test_no_users_have_no_ends():
    assert compute_all(split(part_of([], shares=[]), 4)).tolist() == []


def test_fractions_of_a_second_are_rounded_up_but_not_where_time_is_fluid():
    users = [[(0.25, 2, 1.5), (3, 2, 1)]]
    assert compute_part(part_of(users, shares=[2])).tolist() == [3, 4]
    assert compute_part(part_of(users, shares=[2], mode=Mode.FLUID)).tolist() == [1.75, 4]


def test_a_share_of_nothing_is_told_by_user():
    with pytest.raises(ScheduleError, match="user 'u1' has a share of 0 cpu"):
        compute_part(part_of([[(0, 1, 1)], [(0, 1, 1)]], shares=[1, 0]))


def test_ends_beyond_64_bits_are_told_not_wrapped_around():
    with pytest.raises(ScheduleError, match="beyond 2\\^63 seconds"):
        compute_part(part_of([[(0, 2**40, 2**40)]], shares=[1]))


def test_requests_are_scaled_exactly_however_large():
    assert scaled(np.array([2**61, 1]), 1000).tolist() == [2**61 * 1000, 1000]
    assert scaled(np.array([3]), 1000).dtype == np.int64
