from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.sonar.sender import compute_next_secs


def test_the_next_one_is_a_multiple_of_the_interval_on_the_clock():
    now = datetime(2027, 1, 15, 8, 3, 20, tzinfo=UTC).timestamp()
    assert compute_next_secs(now, 300) == datetime(2027, 1, 15, 8, 5, tzinfo=UTC).timestamp()
    assert compute_next_secs(now, 86400) == datetime(2027, 1, 16, tzinfo=UTC).timestamp()


def test_at_the_very_time_the_next_one_is_meant():
    assert compute_next_secs(600.0, 300.0) == 900.0


@given(st.floats(0, 4e9), st.floats(0.001, 1e6))
def test_it_is_always_later_and_never_more_than_two_intervals_away(now, interval):
    due = compute_next_secs(now, interval)
    assert now < due <= now + 2 * interval


@given(st.floats(0, 4e9), st.integers(1, 100_000))
def test_whole_seconds_are_met_exactly(now, interval):
    due = compute_next_secs(now, interval)
    assert due % interval == 0
    assert due - now <= interval
