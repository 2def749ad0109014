from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.sampling.extrasamples import (
    BURST_SAMPLES,
    KEPT_SAMPLES,
    SAMPLES_PER_SEC,
    ExtraSamples,
)
from tests.held import count_held


def looks(plan, now, until):
    """Return when looks are taken if nothing else happens."""
    taken = []
    while now <= until:
        if plan.is_due(now):
            taken.append(now)
        wait = plan.wait_secs(now)
        if wait is None:
            break
        now += max(wait, 0.001)
    return taken


def test_nothing_is_due_where_nothing_happens():
    plan = ExtraSamples(10)
    assert not plan.is_due(100.0)
    assert plan.wait_secs(100.0) is None


def test_a_change_is_looked_at_at_once_and_once():
    plan = ExtraSamples(10)
    plan.ending()
    assert plan.wait_secs(100.0) == 0
    assert plan.is_due(100.0)
    assert not plan.is_due(100.0)


def test_a_job_that_began_is_looked_at_again_until_the_regular_looks_suffice():
    plan = ExtraSamples(10)
    plan.began(100.0)
    assert [round(each - 100, 1) for each in looks(plan, 100.0, 200.0)] == [0, 0.5, 1.0, 2.0, 4.0, 8.0]


@given(st.floats(1.0, 9.9))
def test_of_a_job_at_least_half_of_its_life_has_been_seen(life):
    plan = ExtraSamples(10)
    plan.began(0.0)
    seen = max(each for each in looks(plan, 0.0, life) if each <= life)
    assert seen >= life / 2 - 0.02


@given(st.lists(st.tuples(st.floats(0, 0.3), st.booleans()), max_size=300))
def test_however_much_happens_the_looks_are_few(events):
    plan, now, taken = ExtraSamples(10), 0.0, 0
    for gap, is_begin in events:
        now += gap
        plan.began(now) if is_begin else plan.ending()
        taken += plan.is_due(now)
    assert taken <= BURST_SAMPLES + now * SAMPLES_PER_SEC + 1e-6


def test_no_change_is_forgotten_for_want_of_a_look():
    plan = ExtraSamples(10)
    for _ in range(BURST_SAMPLES):
        plan.ending()
        assert plan.is_due(0.0)
    plan.ending()
    assert not plan.is_due(0.0)
    wait = plan.wait_secs(0.0)
    assert 0 < wait <= 1 / SAMPLES_PER_SEC
    assert plan.is_due(wait)


def test_a_thousand_jobs_at_once_are_one_plan():
    plan = ExtraSamples(10)
    plan.began(0.0)
    one = count_held(plan)
    for number in range(1000):
        plan.began(number / 1000)
    assert count_held(plan) < one + 10


def test_jobs_that_have_gone_leave_looks_for_those_about_to():
    plan = ExtraSamples(10)
    for _ in range(100):
        plan.ended()
        plan.is_due(0.0)
    for _ in range(KEPT_SAMPLES - 1):
        plan.ending()
        assert plan.is_due(0.0)


def test_a_job_that_has_gone_is_noticed_in_the_end():
    plan = ExtraSamples(10)
    for _ in range(BURST_SAMPLES):
        plan.ending()
        assert plan.is_due(0.0)
    plan.ended()
    assert not plan.is_due(0.0)
    assert plan.is_due(plan.wait_secs(0.0))
