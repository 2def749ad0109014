from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.view import units

THIN = "\u202f"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.012, "0.012"),
        (3.918, "3.92"),
        (64, "64"),
        (99.96, "100"),
        (12345.6, "12,346"),
        (2.0, "2"),
    ],
)
def test_figures_have_three_digits(value, text):
    assert units.format_figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1,023 B"), (2**30, "1 GiB"), (1.5 * 2**40, "1.5 TiB")]
)
def test_sizes_have_binary_units(value, text):
    assert units.format_bytes(value) == text.replace(" ", THIN)


@pytest.mark.parametrize(
    ("secs", "text"),
    [
        (0, "0 s"),
        (45.4, "45 s"),
        (4200, "1 h/10 min"),
        (86_400 + 300, "1 d"),
        (183_600, "2 d/3 h"),
        (-90, "−1 min/30 s"),
        (3600.0, "1 h"),
        (float("inf"), "∞"),
    ],
)
def test_times_have_their_two_largest_units(secs, text):
    assert units.format_span(secs) == text.replace(" ", THIN).replace("/", " ")


@given(st.floats())
def test_any_number_has_a_text(value):
    assert units.format_figure(value)
    assert units.format_span(value)


@given(st.floats(1e-3, 1e15))
def test_a_figure_is_what_it_says_to_half_a_percent(value):
    assert float(units.format_figure(value).replace(",", "")) == pytest.approx(value, rel=0.0051, abs=5e-5)


@given(st.integers(0, 2**50), st.integers(1, 2**50))
def test_a_part_is_in_the_unit_of_the_whole(value, whole):
    part = float(units.format_part_of(value, whole).replace(",", ""))
    number, unit = units.format_bytes(whole).split(THIN)
    assert part / float(number.replace(",", "")) == pytest.approx(value / whole, rel=0.011, abs=1e-3)
    assert unit.endswith("B")


def test_times_are_told_with_their_zone_and_for_machines():
    assert units.format_time(1_800_000_000, UTC) == "Fri 15 Jan 2027 08:00 UTC"
    assert units.machine_time(1_800_000_000) == "2027-01-15T08:00:00Z"
    assert units.format_time(1e18, UTC) == "1000000000000000000"
    assert units.machine_time(1e18) == ""


def test_shares_and_core_hours():
    assert units.format_share(0.048) == f"4.8{THIN}%"
    assert units.format_share(0.97) == f"97{THIN}%"
    assert units.format_share(0.0001) == f"< 0.1{THIN}%"
    assert units.format_share(0) == f"0{THIN}%"
    assert units.format_core_hours(5400) == f"1.5{THIN}core{THIN}h"
