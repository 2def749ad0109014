from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.system.rates import BURST_SECS, MAX_NAMES, Rates
from tests.held import count_held


def test_a_pause_saves_two_seconds_worth():
    rates = Rates(5)
    assert [rates.take("a", 0.0) for _ in range(11)] == [True] * 10 + [False]
    assert rates.take("b", 0.0)
    assert [rates.take("a", 1.0) for _ in range(6)] == [True] * 5 + [False]
    assert [rates.take("a", 100.0) for _ in range(11)] == [True] * 10 + [False]


def test_what_costs_more_than_can_be_saved_waits_for_all_of_it():
    rates = Rates(2)
    assert rates.take("a", 0.0, cost=10)
    assert not rates.take("a", 4.0, cost=10)
    assert rates.take("a", 5.0, cost=10)


def test_names_without_end_take_no_memory_without_end():
    rates = Rates(1)
    held = []
    for number in range(3 * MAX_NAMES):
        rates.take(number, number * 0.01)
        if number % MAX_NAMES == MAX_NAMES - 1:
            held.append(count_held(rates))
    assert held[-1] < 1.1 * held[0]


@given(st.lists(st.floats(0, 0.5), max_size=200), st.floats(0.5, 50))
def test_no_more_is_granted_than_the_rate_and_one_burst(pauses, per_sec):
    rates, now, granted = Rates(per_sec), 0.0, 0
    for pause in pauses:
        now += pause
        granted += rates.take("a", now)
    assert granted <= per_sec * (now + BURST_SECS) + 1
