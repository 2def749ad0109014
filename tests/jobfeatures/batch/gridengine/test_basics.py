"""Times, sizes and identities as Grid Engine writes them, sge_types(5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine.basics import (
    known,
    least_limit,
    make_key,
    number_of,
    parse_job_id,
    parse_limit_bytes,
    parse_limit_secs,
)
from jobfeatures.batch.gridengine.record import parse_timestamp
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, JobKey


@pytest.mark.parametrize(
    ("text", "secs"),
    [
        ("3600", 3600),
        ("0", 0),
        ("1:0:1", 3601),
        ("1::1", 3601),
        ("::5", 5),
        ("48:00:00", 172800),
        ("0x10", 16),
        ("010", 8),
        ("60.000000", 60),
        ("INFINITY", UNLIMITED),
        ("infinity", UNLIMITED),
        ("NONE", None),
        ("UNDEFINED", None),
        ("", None),
    ],
)
def test_times(text, secs):
    assert parse_limit_secs(text) == secs


@pytest.mark.parametrize(
    "text", ["1:30", "::", "1:2:3:4", "-5", "5s", "1:a:2", "٣", "08", "0x", " 5", "1e3", "9" * 99]
)
def test_what_is_no_time_is_an_error(text):
    with pytest.raises(ParseError):
        parse_limit_secs(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4G", 4294967296),
        ("4g", 4000000000),
        ("500", 500),
        ("1k", 1000),
        ("1K", 1024),
        ("3m", 3 * 10**6),
        ("3M", 3 * 2**20),
        ("2t", 2 * 10**12),
        ("2T", 2 * 2**40),
        ("1.5G", 1610612736),
        ("0x10K", 16384),
        ("INFINITY", UNLIMITED),
        ("none", None),
    ],
)
def test_lower_case_is_a_power_of_1000_and_upper_case_of_1024(text, size):
    assert parse_limit_bytes(text) == size


@pytest.mark.parametrize("text", ["4GB", "G", "-1G", "4 G", "1,5G", "4P", "٤G"])
def test_what_is_no_size_is_an_error(text):
    with pytest.raises(ParseError):
        parse_limit_bytes(text)


@given(st.text(max_size=40))
def test_any_text_is_a_limit_or_a_parse_error(text):
    for parse in (parse_limit_secs, parse_limit_bytes):
        try:
            found = parse(text)
        except ParseError:
            continue
        assert found is None or found is UNLIMITED or found >= 0


@given(st.integers(0, 9999), st.integers(0, 59), st.integers(0, 59))
def test_three_numbers_are_hours_minutes_and_seconds(hours, minutes, seconds):
    assert parse_limit_secs(f"{hours}:{minutes:02}:{seconds:02}") == hours * 3600 + minutes * 60 + seconds


def test_the_least_limit_is_a_number_if_there_is_one_and_unlimited_only_if_all_are():
    assert least_limit(UNLIMITED, 5, None, 3) == 3
    assert least_limit(UNLIMITED, UNLIMITED) is UNLIMITED
    assert least_limit(UNLIMITED, None) is None
    assert least_limit() is None


@pytest.mark.parametrize(
    ("stamp", "secs"),
    [("1795268001", 1795268001), ("1488840619845", 1488840619), ("1725898298874079", 1725898298), ("0", 0)],
)
def test_time_stamps_may_be_seconds_milliseconds_or_microseconds(stamp, secs):
    assert parse_timestamp(stamp) == secs


def test_a_task_of_an_array_is_a_job_of_its_own():
    assert make_key("7", None) == JobKey("gridengine", "7")
    assert make_key("7", "3") == JobKey("gridengine", "7.3")
    assert number_of("7.3") == number_of("7") == "7"
    for wrong in ("", "0", "7.", "7.0", "x", "7/3", "7\n", "7.3.1"):
        assert number_of(wrong) is None
    with pytest.raises(ParseError):
        make_key("7", "x")


@given(st.text(max_size=20), st.text(max_size=60))
def test_the_id_of_a_directory_is_always_an_id(name, config):
    job_id = parse_job_id(name, config)
    assert job_id is None or number_of(job_id) is not None


def test_words_that_say_nothing_are_not_known():
    assert [known(word) for word in ("none", "NONE", "UNDEFINED", "", None, "nobody")] == [None] * 5 + [
        "nobody"
    ]
