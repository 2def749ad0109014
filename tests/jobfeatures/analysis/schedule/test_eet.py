"""The heap of lanes against the loop over seconds that the paper gives (Algorithm 1)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.eet import Lanes, Mode, ShareError, compute_chained

LITERAL, EXACT, FLUID = Mode


def loop_ends(jobs, share, *, exact=False):
    """Algorithm 1 as it stands, one second after another; exact: no more is taken than is needed."""
    capacity = {}
    ends = []
    for arrival, request, runtime in jobs:
        left = request * runtime
        time = arrival
        while left > 0:
            consumed = min(capacity.get(time, share), request)
            if exact:
                consumed = min(consumed, left)
            capacity[time] = capacity.get(time, share) - consumed
            left -= consumed
            time += 1
        ends.append(time)
    return ends


def fluid_ends(jobs, share):
    """The same without seconds, in fractions: a staircase of what is left, cut where a job ends."""
    steps = []  # (from, until, capacity)
    ends = []
    for arrival, request, runtime in jobs:
        left, time = Fraction(request * runtime), Fraction(arrival)
        while left > 0:
            inside = [step for step in steps if step[0] <= time < step[1]]
            until = inside[0][1] if inside else min((s[0] for s in steps if s[0] > time), default=None)
            capacity = inside[0][2] if inside else share
            rate = min(capacity, request)
            if rate and (until is None or left <= rate * (until - time)):
                until = time + left / rate
            if inside:
                steps.remove(inside[0])
                if inside[0][0] < time:
                    steps.append((inside[0][0], time, capacity))
                if until < inside[0][1]:
                    steps.append((until, inside[0][1], capacity))
            steps.append((time, until, capacity - rate))
            left -= rate * (until - time)
            time = until
        ends.append(time)
    return ends


def ends_of(jobs, share, mode=LITERAL):
    arrivals, requests, runtimes = zip(*jobs, strict=True) if jobs else ((), (), ())
    return Lanes(share, mode).place(arrivals, requests, runtimes)


def in_order(jobs):
    return sorted(jobs, key=lambda job: job[0])


small = st.integers(0, 9)
some_jobs = st.lists(st.tuples(small, small, small), max_size=8).map(in_order)
shares = st.integers(1, 9)
modes = st.sampled_from(Mode)


def test_table_1_of_the_paper():
    assert ends_of([(0, 2, 4), (1, 2, 1)], 3) == [4, 3]


@pytest.mark.parametrize(
    ("share", "jobs", "literal", "exact", "fluid"),
    [
        (3, [(0, 6, 2)], [4], [4], [4]),
        (2, [(0, 3, 1), (0, 1, 1)], [2, 3], [2, 2], [1.5, 2.5]),
        (2, [(0, 2, 5), (1, 2, 0), (1, 0, 9), (1, 1, 1)], [5, 1, 1, 6], [5, 1, 1, 6], [5, 1, 1, 6]),
        (2, [(0, 2, 1), (50, 4, 3)], [1, 56], [1, 56], [1, 56]),
    ],
)
def test_cases_computed_by_hand(share, jobs, literal, exact, fluid):
    assert [ends_of(jobs, share, mode) for mode in Mode] == [literal, exact, fluid]


@given(some_jobs, shares)
def test_literal_and_exact_are_the_loop(jobs, share):
    assert ends_of(jobs, share) == loop_ends(jobs, share)
    assert ends_of(jobs, share, EXACT) == loop_ends(jobs, share, exact=True)


@given(some_jobs, shares)
def test_fluid_is_the_loop_with_steps_of_no_length(jobs, share):
    assert ends_of(jobs, share, FLUID) == pytest.approx([float(end) for end in fluid_ends(jobs, share)])


@given(some_jobs, shares, modes, st.integers(0, 2**40))
def test_jobs_that_all_arrive_later_are_expected_later_by_as_much(jobs, share, mode, shift):
    later = [(arrival + shift, request, runtime) for arrival, request, runtime in jobs]
    expected = [end + shift for end in ends_of(jobs, share, mode)]
    assert ends_of(later, share, mode) == pytest.approx(expected, abs=1e-3 if mode is FLUID else 0)


@given(some_jobs, shares, modes, st.integers(1, 1000))
def test_requests_and_share_in_a_finer_unit_change_nothing(jobs, share, mode, factor):
    finer = [(arrival, request * factor, runtime) for arrival, request, runtime in jobs]
    assert ends_of(finer, share * factor, mode) == pytest.approx(ends_of(jobs, share, mode))


@given(some_jobs, shares, shares, modes)
def test_a_larger_share_never_delays(jobs, share, more, mode):
    larger = ends_of(jobs, share + more, mode)
    assert all(now <= before + 1e-9 for now, before in zip(larger, ends_of(jobs, share, mode), strict=True))


@given(some_jobs.filter(bool), shares, modes, st.data())
def test_a_longer_run_never_makes_any_end_earlier(jobs, share, mode, data):
    place = data.draw(st.integers(0, len(jobs) - 1))
    arrival, request, runtime = jobs[place]
    longer = [*jobs[:place], (arrival, request, runtime + data.draw(shares)), *jobs[place + 1 :]]
    after = ends_of(longer, share, mode)
    assert all(now >= before - 1e-9 for now, before in zip(after, ends_of(jobs, share, mode), strict=True))


@given(some_jobs, shares, modes)
def test_no_job_is_expected_before_it_could_have_run(jobs, share, mode):
    for (arrival, request, runtime), end in zip(jobs, ends_of(jobs, share, mode), strict=True):
        stretched = max(request, share) / share if request else 0
        assert end >= arrival + runtime * stretched - 1e-9


@given(some_jobs, shares)
def test_what_is_given_back_never_delays(jobs, share):
    exact = ends_of(jobs, share, EXACT)
    assert all(given <= kept for given, kept in zip(exact, ends_of(jobs, share), strict=True))


def test_a_copy_counts_as_the_original_does():
    assert [Lanes(3, mode).copy().mode for mode in Mode] == list(Mode)
    assert Lanes(3, FLUID).copy().place([0, 0], [2, 2], [5, 5]) == [5, 7.5]


@given(some_jobs, st.integers(0, 8), shares, modes)
def test_jobs_can_be_placed_one_after_another_and_a_copy_leaves_the_original_alone(jobs, cut, share, mode):
    lanes = Lanes(share, mode)
    ends = []
    for arrival, request, runtime in jobs[:cut]:
        ends += lanes.place([arrival], [request], [runtime])
    rest = list(zip(*jobs[cut:], strict=True)) or [(), (), ()]
    ends += lanes.copy().place(*rest)
    assert ends == ends_of(jobs, share, mode)
    assert ends[cut:] == lanes.place(*rest)


def test_a_share_of_nothing_is_an_error_only_for_those_who_ask_for_some():
    assert ends_of([(3, 0, 5), (4, 1, 0)], 0) == [3, 4]
    with pytest.raises(ShareError, match="job 1 ") as caught:
        ends_of([(3, 0, 5), (4, 1, 1)], 0)
    assert caught.value.position == 1
    with pytest.raises(ValueError, match="below 0"):
        Lanes(-1)


def test_numbers_far_beyond_64_bits_stay_exact():
    big = 2**100
    assert ends_of([(big, 3 * big, big), (big, 1, 1)], big) == [4 * big, 4 * big + 1]


def test_many_jobs_of_one_user_take_time_that_is_not_their_square():
    """A hundred thousand jobs, all of them waiting for lanes: a loop over lanes or seconds would hang here."""
    jobs = [(place, 1 + place % 7, 86400) for place in range(100_000)]
    assert ends_of(jobs, 1_000_000_000)[-1] == 99_999 + 86400
    assert ends_of(jobs, 5)[-1] > 100_000 * 86400 * 3 / 5


@given(some_jobs, shares, st.integers(0, 30), st.integers(0, 60))
def test_what_is_spare_is_what_jobs_of_a_second_could_have_at_once(jobs, share, since, lasting):
    lanes, jobs = Lanes(share), in_order(jobs)
    lanes.place(*([job[place] for job in jobs] for place in range(3)))
    since += max((job[0] for job in jobs), default=0)
    spare = sum(
        lanes.copy().place([second], [request], [1]) == [second + 1]
        for second in range(since, since + lasting)
        for request in range(1, share + 1)
    )
    assert lanes.has_spare(since, since + lasting, spare)
    assert not lanes.has_spare(since, since + lasting, spare + 1)


def busy_lanes():
    """300 lanes, of which 100 are free from 5 on and 100 from 20 on."""
    lanes = Lanes(300)
    lanes.place([0, 0], [100, 100], [5, 20])
    return lanes


@pytest.mark.parametrize(("wanted", "is_left"), [(0, True), (1500, True), (1501, False)])
def test_spare_are_the_free_lanes_and_those_that_become_free(wanted, is_left):
    assert busy_lanes().has_spare(0, 10, wanted) is is_left  # 100 × 10 + 100 × 5


@pytest.mark.parametrize(("since", "taken"), [(0, 100 * 5 + 100 * 20), (6, 100 * 14), (30, 0)])
def test_taken_is_what_lanes_are_still_busy(since, taken):
    assert busy_lanes().occupied_lane_secs(since) == taken


@pytest.mark.parametrize(("mode", "end"), [(LITERAL, 3), (EXACT, 2), (FLUID, 2.5)])
def test_a_copy_goes_on_in_the_same_mode(mode, end):
    lanes = Lanes(2, mode)
    lanes.place([0], [3], [1])
    assert lanes.copy().place([0], [1], [1]) == [end]


def test_columns_of_different_lengths_are_an_error():
    with pytest.raises(ValueError, match="shorter"):
        Lanes(1).place([0, 1], [1, 1], [1])


def test_a_job_that_needs_a_little_more_than_a_lane_has_left_gets_the_next_ones_at_any_size():
    big = 2**100
    assert ends_of([(0, 1, big), (0, 2, big // 2 + 1)], 2) == [big, big + 1]


def test_without_seconds_a_job_that_needs_less_than_its_lanes_have_left_takes_no_more():
    # From 0 on one lane of two is free, the other from 1.5: what asks for both and 1.2 of work ends at 1.2.
    assert ends_of([(0, 1, 1.5), (0, 2, 0.6)], 2, FLUID) == [1.5, 1.2]


def chained(*jobs, share=1):
    """Return the ends of jobs (arrival, runtime, which it follows, think time), each on one of `share` lanes."""
    arrivals, runtimes, preceding, thinks = zip(*jobs, strict=True) if jobs else ((), (), (), ())
    return compute_chained(arrivals, runtimes, [([1] * len(jobs), share)], preceding, thinks)


@pytest.mark.parametrize(
    ("arrival", "think", "end"),
    [(3, 5, 25), (3, 0, 20), (100, 0, 20), (100, 5, 25), (3, -1, 20), (100, -1, 110)],
)
def test_a_job_that_follows_another_arrives_its_think_time_after_it(arrival, think, end):
    assert chained((0, 10, -1, -1), (arrival, 10, 0, think)) == [10, end]


def test_a_chain_of_nothing_has_no_ends_and_one_that_asks_for_nothing_ends_as_it_arrives():
    assert chained() == []
    assert compute_chained([7], [10], [], [-1], [-1]) == [7]


def test_a_chain_names_the_job_that_would_never_end():
    with pytest.raises(ShareError) as caught:
        chained((0, 0, -1, -1), (0, 10, 0, 0), share=0)
    assert caught.value.position == 1
