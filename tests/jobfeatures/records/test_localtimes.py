"""Local times in the hours that clocks repeat and skip."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.records.localtimes import (
    REPEATED_HOUR,
    SKIPPED_HOUR,
    Skipped,
    Twice,
    choose_moments,
    parse_local,
)

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600
NIGHT = int(datetime(2025, 10, 26, tzinfo=UTC).timestamp())  # at 01:00 UTC it becomes 02:00 again


def read(text: str) -> int:
    return parse_local(text, BERLIN, field="Start")


def test_a_local_time_of_the_repeated_hour_means_two_moments():
    found = read("2025-10-26T02:10:00")
    assert isinstance(found, Twice)
    assert (int(found), found.later) == (NIGHT + 600, NIGHT + 600 + HOUR)
    assert type(read("2025-10-26T01:59:59")) is type(read("2025-10-26T03:00:00")) is int


def test_a_local_time_that_clocks_skip_is_known_as_such():
    assert isinstance(read("2025-03-30T02:30:00"), Skipped)
    assert type(read("2025-03-30T03:00:00")) is int


@pytest.mark.parametrize(
    "text", ["2025-10-26T02:10:00+0100", "2025-10-26T02:10:00+01:00", "2025-10-26T01:10:00Z"]
)
def test_an_offset_counts_and_not_the_zone(text):
    found = read(text)
    assert (type(found), found) == (int, NIGHT + 600 + HOUR)


def test_what_is_no_time_is_refused_with_its_field():
    with pytest.raises(ParseError, match="not a time") as caught:
        read("2025-13-26T02:10:00")
    assert caught.value.field == "Start"


def clock(secs: int) -> int:
    """Return a moment as it is read from the clock on the wall."""
    return read(datetime.fromtimestamp(secs, BERLIN).replace(tzinfo=None).isoformat())


def settled(times, ran_secs=None, away_secs=None):
    """Return the times, and what is doubtful."""
    doubtful = Counter()
    return choose_moments(times, ran_secs, away_secs, doubtful), list(doubtful)


@given(st.lists(st.integers(-HOUR, 4 * HOUR), min_size=3, max_size=3).map(sorted))
def test_with_the_run_time_known_the_run_is_right_or_doubtful(offsets):
    told = tuple(NIGHT + each for each in offsets)
    found, doubtful = settled([clock(each) for each in told], told[2] - told[1])
    assert doubtful or found == told
    assert found[2] - found[1] == told[2] - told[1]
    assert found[0] <= found[1]
    assert all(type(each) is int for each in found)


def test_of_readings_that_agree_alike_the_shorter_is_taken_as_doubtful():
    submit, later = read("2025-10-26T02:40:00"), NIGHT + 4 * HOUR
    assert settled([submit, later, later + 60], 60) == ((submit.later, later, later + 60), [REPEATED_HOUR])


def test_an_order_that_no_reading_keeps_is_doubtful():
    assert settled([NIGHT + 9 * HOUR, read("2025-10-26T02:10:00"), NIGHT + 3 * HOUR])[1] == [REPEATED_HOUR]


def test_a_time_that_clocks_skip_is_doubtful():
    assert settled([None, read("2025-03-30T02:30:00"), None])[1] == [SKIPPED_HOUR]
