"""Ids, hosts, states, times, limits and sizes as LSF prints them."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.lsf.basics import is_plain_id, make_id, parse_hosts
from jobfeatures.batch.lsf.values import (
    STATES,
    TimeLimit,
    parse_limit,
    parse_size,
    parse_state,
    parse_time,
)
from jobfeatures.errors import ParseError
from jobfeatures.records.model import JobState

NOW = datetime(2026, 11, 21, 13, 0, tzinfo=UTC).timestamp()


def epoch(*date: int, tz: object = UTC) -> int:
    return int(datetime(*date, tzinfo=tz).timestamp())


# ---------------------------------------------------------------- ids and hosts


@pytest.mark.parametrize(
    ("job_id", "index", "expected"),
    [("7", "0", "7"), ("7", "", "7"), ("7", "-", "7"), ("7", "4", "7[4]"), ("7[4]", "4", "7[4]"), ("7[4]", "", "7[4]")],
)  # fmt: skip
def test_an_array_s_job_has_its_index_in_its_id(job_id: str, index: str, expected: str) -> None:
    assert make_id(job_id, index) == expected
    assert is_plain_id(expected)


@pytest.mark.parametrize(
    ("job_id", "index"),
    [("", "0"), ("0", "0"), ("7 ", "0"), ("7[0]", "0"), ("7[4]", "5"), ("7", "x"), ("7", "-1"), ("٧", "0"), ("7\n", "0"), ("7;id", "")],
)  # fmt: skip
def test_what_is_no_id_is_refused(job_id: str, index: str) -> None:
    with pytest.raises(ParseError):
        make_id(job_id, index)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4*n1:2*n2", {"n1": 4, "n2": 2}),
        ("n1:n1:n2", {"n1": 2, "n2": 1}),
        ("n1", {"n1": 1}),
        ("2*n1:n1", {"n1": 3}),
        ("16*n1@cluster2", {"n1@cluster2": 16}),
        ("", {}),
        ("-", {}),
    ],
)
def test_slots_are_counted_by_host(text: str, expected: dict[str, int]) -> None:
    assert parse_hosts(text) == expected


@pytest.mark.parametrize(
    "text", ["0*n1", "4*", "*n1", "n1:", "n1 n2", "-4*n1", "9999999*n1", "4*4*n1", "n/1"]
)
def test_what_is_no_list_of_hosts_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_hosts(text)


# ---------------------------------------------------------------- states


def test_every_state_of_the_manual_is_known() -> None:
    words = {"PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "DONE", "EXIT", "WAIT", "ZOMBI", "UNKWN", "PROV"}
    assert words == STATES.keys()


@pytest.mark.parametrize(
    ("stat", "reason", "expected"),
    [
        ("EXIT", "", JobState.FAILED),
        ("EXIT", "TERM_OWNER: job killed by owner", JobState.CANCELLED),
        ("EXIT", "TERM_RUNLIMIT: job killed after reaching LSF run time limit", JobState.TIMEOUT),
        ("EXIT", "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit", JobState.OUT_OF_MEMORY),
        ("EXIT", "TERM_OF_2031: unheard of", JobState.FAILED),
        ("RUN", "TERM_OWNER: not yet", JobState.RUNNING),
        ("NEWSTATE", "", JobState.UNKNOWN),
    ],
)
def test_an_end_is_told_apart_by_its_reason(stat: str, reason: str, expected: JobState) -> None:
    assert parse_state(stat, reason) is expected


def test_a_host_that_cannot_be_reached_proves_no_end() -> None:
    for stat in ("UNKWN", "ZOMBI"):
        assert not parse_state(stat).is_finished


# ---------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nov 21 12:31", epoch(2026, 11, 21, 12, 31)),
        ("Nov  1 12:31", epoch(2026, 11, 1, 12, 31)),
        ("Nov 21 12:31:07 2024", epoch(2024, 11, 21, 12, 31, 7)),
        ("Nov 21 12:31 L", epoch(2026, 11, 21, 12, 31)),
        ("Nov 21 22:07:01 2026 E", epoch(2026, 11, 21, 22, 7, 1)),
        ("Sat Nov 21 12:31:07 2026", epoch(2026, 11, 21, 12, 31, 7)),
        ("Dec 31 23:59", epoch(2025, 12, 31, 23, 59)),  # not in five weeks
        ("Nov 22 12:00", epoch(2026, 11, 22, 12, 0)),  # a day of grace: clocks differ, ends are ahead
        ("Feb 29 10:00", epoch(2024, 2, 29, 10, 0)),
        ("-", None),
        ("", None),
    ],
)
def test_a_year_that_is_not_told_is_the_last_that_fits(text: str, expected: int | None) -> None:
    assert parse_time(text, now_secs=NOW, tz=UTC) == expected


def test_times_are_local() -> None:
    zone = ZoneInfo("Europe/Zurich")
    assert parse_time("Jul  1 12:00", now_secs=NOW, tz=zone) == epoch(2026, 7, 1, 10, 0)


@pytest.mark.parametrize(
    "text", ["Nov 31 12:00", "nov 21 12:31", "21 Nov 12:31", "Nov 21", "Nov 21 25:00", "Nov 21 12:31 X Y", "Feb 29 10:00:00 2026"]
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="not a time"):
        parse_time(text, now_secs=NOW, tz=UTC)


@given(st.integers(25_000_000, 30_000_000))
def test_a_time_of_the_last_year_is_read_back_to_the_minute(minutes: int) -> None:
    known = datetime.fromtimestamp(minutes * 60, UTC)
    now = known.timestamp() + 3600
    assert parse_time(known.strftime("%b %d %H:%M"), now_secs=now, tz=UTC) == known.timestamp()


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1440.0", TimeLimit(Fraction(86400))),
        ("240.0/n1", TimeLimit(Fraction(14400), "n1")),
        ("3.5/XEON_8", TimeLimit(Fraction(210), "XEON_8")),
        ("24:00", TimeLimit(Fraction(86400))),
        ("3:30", TimeLimit(Fraction(12600))),
        ("00:10:30", TimeLimit(Fraction(630))),
        ("0", TimeLimit(Fraction(0))),
        ("-", None),
        ("", None),
    ],
)
def test_limits_are_minutes_or_hours_and_minutes(text: str, expected: TimeLimit | None) -> None:
    assert parse_limit(text) == expected


@pytest.mark.parametrize(
    "text", ["1440 min", "-5", "1:2:3:4", "1.5:30", "/n1", "5/", "5/a b", "unlimited", "1e9"]
)
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="not a limit"):
        parse_limit(text)


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8 Gbytes", 8 * 2**30),
        ("5.5 Gbytes", 11 * 2**29),
        ("100 Mbytes", 100 * 2**20),
        ("100M", 100 * 2**20),
        ("4096 KB", 2**22),
        ("1 Tbytes", 2**40),
        ("2048", 2**21),
        ("17 bytes", 17),
        ("-", None),
    ],
)
def test_sizes_are_powers_of_1024(text: str, expected: int | None) -> None:
    assert parse_size(text) == expected


def test_a_size_without_a_unit_is_in_the_unit_of_the_site() -> None:
    assert parse_size("8", bare_unit="G") == 8 * 2**30


@pytest.mark.parametrize("text", ["8 Gigs", "G", "-8", "8 8", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="not a size"):
        parse_size(text)


@given(st.text(max_size=40))
def test_nothing_but_parse_errors_comes_out(text: str) -> None:
    for parse in (
        lambda: parse_time(text, now_secs=NOW, tz=UTC),
        lambda: parse_limit(text),
        lambda: parse_size(text),
        lambda: parse_hosts(text),
        lambda: make_id(text, text),
    ):
        try:
            parse()
        except ParseError:
            continue
