"""The site's rules: lsf.conf, bparams, bqueues -l, lshosts."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.lsf.answers import parse_records
from jobfeatures.batch.lsf.limits import (
    LimitRules,
    hosts_of_limits,
    parse_factors,
    parse_limit_unit,
    parse_parameters,
    parse_queues,
)
from jobfeatures.batch.lsf.values import TimeLimit
from jobfeatures.errors import ParseError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "lsf"
QUEUES = (FIXTURES / "bqueues-l.txt").read_text()


def test_queues_have_limits_beside_each_other_and_below_heads() -> None:
    assert parse_queues(QUEUES) == {
        "normal": {"RUNLIMIT": TimeLimit(Fraction(86400)), "CPULIMIT": TimeLimit(Fraction(43200))},
        "short": {"RUNLIMIT": TimeLimit(Fraction(1800), "n1"), "CPULIMIT": TimeLimit(Fraction(7200), "n2")},
    }


def test_a_queue_without_limits_is_known_to_have_none() -> None:
    assert parse_queues("QUEUE: free\n  -- RUNLIMIT\n\nUSERS: all\n") == {"free": {}}


@pytest.mark.parametrize("row", ["1440.0 min", "1440.0 min 720.0 min 3.0 min", "none", ""])
def test_values_that_do_not_match_their_heads_are_not_guessed(row: str) -> None:
    assert parse_queues(f"QUEUE: q\n CPULIMIT   RUNLIMIT\n {row}\n") == {"q": {}}


@given(st.text())
def test_any_text_has_queues_or_none(text: str) -> None:
    assert isinstance(parse_queues(text), dict)
    assert isinstance(parse_queues("QUEUE: q\n CPULIMIT\n" + text), dict)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ABS_RUNLIMIT = Y", True),
        ("ABS_RUNLIMIT=y", True),
        ("    ABS_RUNLIMIT = Y", True),
        ("ABS_RUNLIMIT = N", False),
        ("", False),
        ("#ABS_RUNLIMIT = Y", False),
        ("NO_ABS_RUNLIMIT = Y", False),
    ],
)
def test_run_limits_are_absolute_where_lsb_params_says_so(line: str, expected: bool) -> None:
    text = f"lsb.params configuration at Sat Nov 21 12:30:00 2026\nMBD_SLEEP_TIME = 10\n{line}\n"
    assert parse_parameters(text) is expected


@pytest.mark.parametrize("text", ["", "Cannot connect to LSF\n", "MBD_SLEEP_TIME = 10"])
def test_what_is_no_answer_of_bparams_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_parameters(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LSF_UNIT_FOR_LIMITS=MB\n", "M"),
        ('LSF_UNIT_FOR_LIMITS="GB"\n', "G"),
        ("LSF_UNIT_FOR_LIMITS=T  # big\n", "T"),
        ("#LSF_UNIT_FOR_LIMITS=GB\n", "K"),
        ("LSF_UNIT_FOR_LIMITS=parsec\n", "K"),
        ("", "K"),
        ("LSF_UNIT_FOR_LIMITS=MB\nLSF_UNIT_FOR_LIMITS=GB\n", "G"),
    ],
)
def test_the_unit_of_limits_is_kib_unless_the_site_says_otherwise(text: str, expected: str) -> None:
    assert parse_limit_unit(text) == expected


def test_a_host_that_is_not_reached_has_no_cpu_factor() -> None:
    records = parse_records((FIXTURES / "lshosts.json").read_text(), source="lshosts")
    assert parse_factors(records) == ({"n1": Fraction("2.5"), "n2": Fraction(5)}, ())


def test_a_cpu_factor_that_is_none_is_told_and_never_divides() -> None:
    factors, rejected = parse_factors(
        [{"HOST_NAME": "n1", "CPUF": "fast"}, {"HOST_NAME": "n2", "CPUF": "0.0"}, {"HOST_NAME": "n3", "CPUF": "2"}]
    )  # fmt: skip
    assert factors == {"n3": 2}
    assert [each.text for each in rejected] == ["fast"]


def test_without_knowing_whether_run_limits_are_absolute_no_wall_limit_is_stated() -> None:
    queues = {"q": {"RUNLIMIT": TimeLimit(Fraction(60)), "CPULIMIT": TimeLimit(Fraction(60))}}
    rules = LimitRules(node_name="n1", absolute=None, factors={"n1": Fraction(2)}, queues=queues)
    assert rules.wall_limit(TimeLimit(Fraction(60)), "q") is None
    assert rules.cpu_limit("q") == 30


def test_a_job_s_own_run_limit_beats_its_queue_s() -> None:
    queues = {"q": {"RUNLIMIT": TimeLimit(Fraction(60))}}
    rules = LimitRules(node_name="n1", absolute=True, queues=queues)
    assert rules.wall_limit(TimeLimit(Fraction(30)), "q") == 30
    assert rules.wall_limit(None, "q") == 60
    assert rules.wall_limit(None, "other") is None


def test_the_hosts_whose_speed_counts_are_those_that_limits_name() -> None:
    records = [{"RUNTIMELIMIT": "5/n2"}, {"RUNTIMELIMIT": "bad"}, {"RUNTIMELIMIT": "5"}, {}]
    queues = [{"CPULIMIT": TimeLimit(Fraction(1), "n3")}]
    assert hosts_of_limits(records, queues) == {"n2", "n3"}


def test_many_empty_lines_are_read_once() -> None:
    text = "\n" * 200_000  # each looked at from each before it took minutes
    assert parse_limit_unit(text + "LSF_UNIT_FOR_LIMITS=MB\n") == "M"


FACTORS = {"n1": Fraction("2.5"), "n2": Fraction(5)}


@pytest.mark.parametrize(
    ("minutes", "host", "absolute", "node", "expected"),
    [
        (720, None, False, "n1", 17280),
        (1440, None, False, "n1", 34560),
        (1440, None, True, "n1", 86400),
        (240, "n1", False, "n1", 14400),  # set for this very host
        (240, "n1.example.org", False, "n1", 14400),
        (240, "n2", False, "n1", 28800),  # a slower host takes longer
        (240, "n2", True, "n1", 14400),
        (240, "XEON_8", False, "n1", None),  # a model's speed is not known
        (240, None, False, "n9", None),
    ],
)
def test_limits_count_at_the_speed_of_the_host(
    minutes: int, host: str | None, absolute: bool, node: str, expected: int | None
) -> None:
    limit = TimeLimit(Fraction(minutes * 60), host)
    assert LimitRules(node_name=node, factors=FACTORS).limit_secs(limit, absolute=absolute) == expected
