from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.questions import ClockDifference


@given(
    st.floats(-400, 400),
    st.lists(st.tuples(st.floats(0, 5000), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20),
)
def test_the_difference_is_right_within_a_second_and_the_time_of_an_answer(ahead_secs, answers):
    """The other clock tells whole seconds, at some moment between asking and answering."""
    difference = ClockDifference()
    for asked_secs, way_secs, share in answers:
        shown = int(1_800_000_000 + asked_secs + share * way_secs + ahead_secs) - 1_800_000_000
        difference.learn(shown, asked_secs=asked_secs, answered_secs=asked_secs + way_secs)
    assert abs(difference.ahead_secs - ahead_secs) <= 1 + answers[-1][1] + 1e-6


def test_an_answer_that_took_long_or_came_before_it_was_asked_for_tells_nothing():
    difference = ClockDifference()
    difference.learn(1000, asked_secs=900, answered_secs=905)
    difference.learn(1000, asked_secs=900, answered_secs=899)
    assert difference.ahead_secs is None


def test_an_estimate_that_still_agrees_does_not_move():
    difference = ClockDifference()
    difference.learn(1300, asked_secs=1000.0, answered_secs=1000.2)
    first = difference.ahead_secs
    difference.learn(1361, asked_secs=1060.9, answered_secs=1061.1)
    assert difference.ahead_secs == first
    difference.learn(1367, asked_secs=1061, answered_secs=1061.2)
    assert abs(difference.ahead_secs - 306.4) < 0.01
