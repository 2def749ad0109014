"""The simulator against the same policies written down literally (oracle.py), and what must hold of any schedule."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.simulate import engine
from jobfeatures.analysis.simulate.arrivals import Jobs
from jobfeatures.analysis.simulate.placing import Nodes, Processors, Shape
from jobfeatures.analysis.simulate.policies import WAITING, Fairshare, Policy
from jobfeatures.analysis.simulate.pools import Node
from tests.jobfeatures.analysis.simulate.oracle import Job, Oracle

POOL = 5
NODES = (Node(3, 8, 0), Node(4, 6, 2), Node(2, 20, 1))
POLICIES = st.sampled_from(Policy)
SPANS = st.sampled_from([0, 1, 2, 3, 3, 5, 10, 10, 30])
SUBMITS = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 8, 13, 20])


def columns(jobs):
    return Jobs(
        [job.submit for job in jobs],
        [job.runtime for job in jobs],
        [job.estimate for job in jobs],
        [job.user for job in jobs],
        [job.processors for job in jobs],
        [-1 if job.preceding is None else job.preceding for job in jobs] if any_follows(jobs) else (),
        [job.think for job in jobs],
    )


def any_follows(jobs):
    return any(job.preceding is not None for job in jobs)


def in_order(jobs):
    return sorted(jobs, key=lambda job: job.submit)


@st.composite
def times(draw, users=3, is_exact=False):
    """Return submission, runtime, estimate and user of a job; many are alike, and many estimates are right."""
    runtime = draw(SPANS)
    estimate = draw(SPANS) if not is_exact and draw(st.booleans()) else runtime
    return draw(SUBMITS), runtime, estimate, draw(st.integers(0, users - 1))


def pool_jobs(*, users=3, is_exact=False, most=16):
    sizes = st.sampled_from([0, 1, 1, 1, 2, 2, 3, 4, 5])
    job = st.builds(lambda when, size: Job(*when, size, (1, 0, 0)), times(users, is_exact), sizes)
    return st.lists(job, max_size=most).map(in_order)


PARTS = st.sampled_from(
    [(1, 0, 0), (1, 0, 0), (1, 2, 0), (1, 4, 0), (2, 0, 0), (1, 0, 1), (2, 3, 1), (0, 5, 0)]
)


def node_jobs(*, is_exact=False):
    job = st.builds(lambda when, *size: Job(*when, *size), times(is_exact=is_exact), st.integers(0, 4), PARTS)
    return st.lists(job.filter(lambda job: Oracle.place(job, NODES) is not None), max_size=14).map(in_order)


def simulate(jobs, machine, policy, rules=None, progress=lambda count: None):
    weights = [1] * (max(jobs.users, default=-1) + 1)
    return engine.simulate(
        jobs,
        machine,
        policy,
        rules or Fairshare(),
        ticks=1,
        weights=weights,
        blank=lambda count: [WAITING] * count,
        progress=progress,
    )


def run_pool(jobs, policy, rules=None):
    return simulate(columns(jobs), Processors(POOL, [job.parts for job in jobs]), policy, rules)


class Watched(Nodes):
    """Remembers where each job was."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.nodes = {}

    def give(self, job):
        self.nodes[job] = [node for node, count in self._placed[job] for _ in range(count)]
        super().give(job)


def run_nodes(jobs, policy, rules=None):
    shapes = list(dict.fromkeys(Shape(job.parts, *job.part) for job in jobs))
    sizes = [shapes.index(Shape(job.parts, *job.part)) for job in jobs]
    machine = Watched(NODES, shapes, sizes)
    starts = simulate(columns(jobs), machine, policy, rules)
    return starts, [machine.nodes[place] for place in range(len(jobs))]


@given(pool_jobs(), POLICIES, st.sampled_from([1, 3, 7, 3600]), st.sampled_from([0, 1, 5, 8]))
def test_one_pool_is_what_the_policies_say(jobs, policy, refresh, halving):
    expected = Oracle(jobs, [(POOL, 0, 0)], policy.value, refresh, halving).run()
    assert run_pool(jobs, policy, Fairshare(refresh, halving)) == expected.starts


@st.composite
def following(draw, jobs):
    """Let some of the jobs follow one that stands before them, others one behind them; none in a circle."""
    drawn = draw(st.permutations(draw(jobs)))
    place_of = draw(st.permutations(range(len(drawn))))
    links = draw(st.lists(st.integers(-3, len(drawn)), min_size=len(drawn), max_size=len(drawn)))
    found = list(drawn)
    for step, link in enumerate(links):
        if 0 <= link < step:
            think = draw(st.sampled_from([-1, -1, 0, 0, 1, 4]))
            found[place_of[step]] = found[place_of[step]]._replace(preceding=place_of[link], think=think)
    return found if any_follows(found) else in_order(found)


def test_one_user_who_waits_beside_a_job_that_runs_longer_than_estimated_fills_in_at_a_refresh():
    jobs = [
        Job(0, 10, 5, 0, 3, (1, 0, 0)),
        Job(1, 7, 0, 0, 1, (1, 0, 0)),
        Job(2, 1, 1, 1, 2, (1, 0, 0)),
        Job(3, 1, 1, 1, 1, (1, 0, 0)),
    ]
    assert (
        run_pool(jobs, Policy.FAIRSHARE_EASY, Fairshare(1))
        == Oracle(jobs, [(POOL, 0, 0)], "fairshare+easy", 1).run().starts
    )


@given(following(pool_jobs()), POLICIES, st.sampled_from([1, 3, 3600]), st.sampled_from([0, 5]))
def test_a_job_can_only_start_after_the_termination_of_its_preceding_job(jobs, policy, refresh, halving):
    """ "the current job can only start after the termination of this preceding job" """
    expected = Oracle(jobs, [(POOL, 0, 0)], policy.value, refresh, halving).run()
    starts = run_pool(jobs, policy, Fairshare(refresh, halving))
    assert starts == expected.starts
    for start, job in zip(starts, jobs, strict=True):
        if job.preceding is not None:
            end = starts[job.preceding] + jobs[job.preceding].runtime
            assert start >= end + max(0, job.think)


@given(following(node_jobs()), POLICIES, st.sampled_from([1, 3600]))
def test_on_nodes_too(jobs, policy, refresh):
    expected = Oracle(jobs, NODES, policy.value, refresh).run()
    assert run_nodes(jobs, policy, Fairshare(refresh)) == (expected.starts, expected.where)


def test_think_time_is_the_number_of_seconds_that_should_elapse_before_the_submittal():
    """ "job number 123, should start ten seconds after the termination of gcc x.c, which is job number 120" """
    first, second = one(0, 600, 5), one(100, 50, 1)._replace(preceding=0, think=10)
    assert run_pool([first, second], Policy.FIFO) == [0, 610]
    assert run_pool([one(0, 7, 5), *[each._replace(submit=1) for each in (first,)],
                     second._replace(preceding=1)], Policy.FIFO) == [0, 7, 617]  # fmt: skip


def test_without_a_think_time_a_job_comes_at_that_end_but_not_before_its_own_submission():
    jobs = [one(0, 10, 1), one(5, 1, 1)._replace(preceding=0), one(30, 1, 1)._replace(preceding=0)]
    assert run_pool(jobs, Policy.EASY) == [0, 10, 30]


@given(node_jobs(), POLICIES, st.sampled_from([1, 3, 7, 3600]), st.sampled_from([0, 5]))
def test_nodes_are_filled_as_the_policies_say(jobs, policy, refresh, halving):
    expected = Oracle(jobs, NODES, policy.value, refresh, halving).run()
    assert run_nodes(jobs, policy, Fairshare(refresh, halving)) == (expected.starts, expected.where)


def one(submit, runtime, size, *, user=0, estimate=None):
    return Job(submit, runtime, runtime if estimate is None else estimate, user, size, (1, 0, 0))


def test_first_in_first_out_lets_nobody_pass():
    jobs = [one(0, 10, 4), one(1, 10, 2), one(2, 1, 1)]
    assert run_pool(jobs, Policy.FIFO) == [0, 10, 10]


def test_a_job_may_go_before_the_head_if_it_ends_at_the_shadow_time():
    jobs = [one(0, 10, 4), one(1, 10, 5), one(2, 8, 1), one(2, 9, 1)]
    assert run_pool(jobs, Policy.EASY) == [0, 10, 2, 20]


def test_jobs_that_end_at_the_shadow_time_count_towards_the_spare():
    jobs = [one(0, 10, 2), one(0, 10, 2), one(1, 10, 2), one(2, 99, 1), one(3, 99, 1)]
    assert run_pool(jobs, Policy.EASY) == [0, 0, 10, 2, 10]


def test_only_a_job_that_stays_uses_up_the_spare():
    wide = [one(0, 10, 2), one(1, 10, 4)]  # one is spare beside the second, at 10
    assert run_pool([*wide, one(2, 8, 1), one(2, 99, 1), one(3, 99, 1)], Policy.EASY) == [0, 10, 2, 2, 20]


def test_what_starts_at_the_head_makes_the_reservation_of_another_anew():
    jobs = [
        one(0, 1, 1, user=1),  # user 1 has used something from here on
        one(1, 9, 2),
        one(2, 5, 4, user=1),  # has to wait until 10, and 1 is spare then
        one(2, 99, 2, user=1),  # is looked at, and refused
        one(3, 99, 1, user=2),  # is the head, and takes it
        one(4, 99, 1, user=1),  # must not take it once more
    ]
    rules = Fairshare(refresh_secs=1)
    assert run_pool(jobs, Policy.FAIRSHARE_EASY, rules) == [0, 1, 10, 15, 3, 15]


def test_on_nodes_the_spare_is_used_up_too():
    jobs = [
        Job(0, 10, 10, 0, 2, (3, 0, 0)),  # takes nodes 0 and 1 but for one processor
        Job(1, 10, 10, 0, 1, (4, 0, 0)),  # will have node 1
        Job(2, 99, 99, 0, 1, (1, 0, 0)),  # on node 2
        Job(2, 99, 99, 0, 1, (1, 0, 0)),
        Job(2, 99, 99, 0, 1, (1, 0, 0)),  # would be on node 1
    ]
    starts, nodes = run_nodes(jobs, Policy.EASY)
    assert starts == [0, 10, 2, 2, 10]
    assert nodes == [[0, 1], [1], [2], [2], [0]]


def test_a_job_that_overruns_its_estimate_may_end_at_any_moment():
    jobs = [one(0, 30, 4, estimate=5), one(1, 5, 5), one(6, 0, 1), one(6, 1, 1), one(7, 1, 1)]
    assert run_pool(jobs, Policy.EASY) == [0, 30, 6, 35, 35]


def test_who_has_used_least_is_first_whenever_jobs_start():
    jobs = [one(0, 10, 5, user=0), one(1, 10, 5, user=0), one(2, 10, 5, user=1)]
    for refresh in (10, 11, 10**6):
        assert run_pool(jobs, Policy.FAIRSHARE, Fairshare(refresh)) == [0, 20, 10]


def test_a_job_is_charged_while_it_runs():
    """ "priorities are updated continuously as jobs are being processed": 12,000 CPU seconds of a job that runs weigh
    more than 4,000 of one that has ended.
    """
    jobs = [
        one(0, 2000, 2, user=2),  # 4,000
        one(0, 10_000, 3, user=1),  # 12,000 at 4000
        one(2000, 2000, 2, user=0),
        one(2500, 1, 2, user=1),
        one(2600, 1, 2, user=2),
    ]
    assert run_pool(jobs, Policy.FAIRSHARE, Fairshare(10**6)) == [0, 0, 2000, 4001, 4000]


def test_a_refresh_may_start_a_job_by_itself():
    jobs = [
        one(0, 10, 5, user=1),  # 50
        one(5, 100, 3, user=0),  # 51 at 27
        one(11, 10, 3, user=0),  # first until then, without room
        one(11, 10, 2, user=1),
    ]
    assert run_pool(jobs, Policy.FAIRSHARE, Fairshare(refresh_secs=1)) == [0, 10, 110, 27]
    assert run_pool(jobs, Policy.FAIRSHARE, Fairshare(refresh_secs=20)) == [0, 10, 110, 40]


def test_what_was_used_long_ago_weighs_less_where_it_is_halved():
    jobs = [
        one(0, 8, 5, user=0),  # 40
        one(20, 6, 5, user=1),  # 30
        one(26, 5, 5, user=2),
        one(27, 1, 5, user=1),
        one(28, 1, 5, user=0),
    ]
    assert run_pool(jobs, Policy.FAIRSHARE, Fairshare(1))[3:] == [31, 32]
    assert run_pool(jobs, Policy.FAIRSHARE, Fairshare(1, halving_secs=19))[3:] == [32, 31]


def test_progress_adds_up_to_jobs_that_came():
    jobs, told = [one(place, 1, 1) for place in range(10_000)], []
    simulate(columns(jobs), Processors(POOL, [1] * 10_000), Policy.FIFO, progress=told.append)
    assert len(told) == 2
    assert sum(told) <= 10_000


@given(pool_jobs(most=40), POLICIES)
def test_no_job_starts_before_it_came_and_no_more_is_taken_than_there_is(jobs, policy):
    starts = run_pool(jobs, policy)
    assert all(start >= job.submit for start, job in zip(starts, jobs, strict=True))
    changes = Counter()
    for start, job in zip(starts, jobs, strict=True):
        changes[start] += job.parts
        changes[start + job.runtime] -= job.parts
    taken = 0
    for when in sorted(changes):
        taken += changes[when]
        assert taken <= POOL


@given(node_jobs(), POLICIES)
def test_no_node_ever_holds_more_than_it_has(jobs, policy):
    starts, nodes = run_nodes(jobs, policy)
    for time in set(starts):
        for place, node in enumerate(NODES):
            held = [
                job.part
                for job, start, where in zip(jobs, starts, nodes, strict=True)
                if start <= time < start + job.runtime
                for each in where
                if each == place
            ]
            taken = tuple(map(sum, zip((0, 0, 0), *held, strict=True)))
            assert all(one <= other for one, other in zip(taken, node, strict=True))


@given(pool_jobs(most=40))
def test_first_in_first_out_keeps_the_order(jobs):
    starts = run_pool(jobs, Policy.FIFO)
    assert starts == sorted(starts)


@given(pool_jobs(users=1, most=30), st.sampled_from([1, 5, 3600]))
def test_with_one_user_fairshare_changes_nothing_but_when_the_queue_is_looked_at(jobs, refresh):
    rules = Fairshare(refresh)
    assert run_pool(jobs, Policy.FAIRSHARE, rules) == run_pool(jobs, Policy.FIFO)
    exact = [job._replace(estimate=job.runtime) for job in jobs]
    assert run_pool(exact, Policy.FAIRSHARE_EASY, rules) == run_pool(exact, Policy.EASY)


@given(pool_jobs(is_exact=True, most=30))
def test_with_right_estimates_the_head_starts_at_its_shadow_time_at_the_latest(jobs):
    starts = run_pool(jobs, Policy.EASY)
    for place, job in enumerate(jobs):
        came_first = max([job.submit, *starts[:place]])  # the head from here on, if it has to wait
        if any(starts[other] == came_first and not each.runtime for other, each in enumerate(jobs[:place])):
            continue  # others may have gone before the head of that instant, which had to wait for one of no time
        running = [
            (starts[other] + each.runtime, each.parts)
            for other, each in enumerate(jobs)
            if starts[other] <= came_first < starts[other] + each.runtime
            and (starts[other] < came_first or other < place)
        ]
        shadow, free = came_first, POOL - sum(size for _, size in running)
        for end, size in sorted(running):
            if free >= job.parts:
                break
            shadow, free = end, free + size
        assert starts[place] <= shadow


@given(pool_jobs(most=30), POLICIES)
def test_work_is_conserved_the_head_never_waits_for_room_that_is_there(jobs, policy):
    starts = run_pool(jobs, policy)
    ends = [start + job.runtime for start, job in zip(starts, jobs, strict=True)]
    for time in {*ends, *(job.submit for job in jobs)}:
        waiting = [place for place, job in enumerate(jobs) if job.submit <= time < starts[place]]
        free = POOL - sum(
            job.parts for job, start, end in zip(jobs, starts, ends, strict=True) if start <= time < end
        )
        if waiting and not policy.is_fair:
            assert jobs[waiting[0]].parts > free
        if waiting:
            assert max(jobs[place].parts for place in waiting) > free


@given(pool_jobs(), POLICIES, st.integers(1, 10**12))
def test_a_later_clock_shifts_everything(jobs, policy, shift):
    later = [job._replace(submit=job.submit + shift) for job in jobs]
    rules = Fairshare(3, 8)
    assert run_pool(later, policy, rules) == [start + shift for start in run_pool(jobs, policy, rules)]


def test_an_age_without_anything_costs_nothing():
    jobs = [one(0, 1, 5), one(2**60, 2**60, 5, user=1), one(2**60, 1, 5)]
    assert run_pool(jobs, Policy.FAIRSHARE_EASY, Fairshare(1, 1)) == [0, 2**60, 2**61]


@pytest.mark.parametrize("policy", Policy)
def test_no_jobs_no_starts(policy):
    assert run_pool([], policy) == []
