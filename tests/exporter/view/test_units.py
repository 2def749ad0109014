import re

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
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1023, "0.999 KiB"), (2**30, "1 GiB"), (1.5 * 2**40, "1.5 TiB")],
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
        (float("nan"), "?"),
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


@pytest.mark.parametrize(
    ("value", "whole", "text"),
    [
        (108 * 1024, 16 * 2**30, "108 KiB"),
        (3.25 * 2**30, 16 * 2**30, "3.25"),
        (0, 16 * 2**30, "0"),
        (18 * 2**30, 16 * 2**30, "18"),
        (2 * 2**40, 16 * 2**30, "2 TiB"),
    ],
)
def test_a_part_has_a_unit_where_that_is_not_the_unit_of_the_whole(value, whole, text):
    assert units.format_part_of(value, whole) == text.replace(" ", THIN)


@given(st.integers(0, 2**60), st.integers(1, 2**60))
def test_no_size_has_more_than_three_digits_that_matter(value, whole):
    for text in (units.format_bytes(value), units.format_part_of(value, whole)):
        assert len(re.sub(r"[^0-9]", "", text).lstrip("0")) <= 3


@pytest.mark.parametrize(
    ("cpus", "text"),
    [
        (0, "0"),
        (0.2034, "0.2"),
        (0.01, f"<{THIN}0.1"),
        (4, "4"),
        (15.94, "15.9"),
        (0.95, "0.9"),
        (127.6, "128"),
    ],
)
def test_cpus_have_one_digit_behind_the_point(cpus, text):
    assert units.format_cpus(cpus) == text


@pytest.mark.parametrize(
    ("core_secs", "text"),
    [
        (0, "0 core s"),
        (45.3, "45 core s"),
        (0.0491 * 3600, "3 core min"),
        (3599, "1 core h"),
        (5400, "1.5 core h"),
        (12_345 * 3600, "12,300 core h"),
        (1_234_567 * 3600, "1.23 M core h"),
        (-5400, "-1.5 core h"),
        (float("inf"), "∞ core h"),
    ],
)
def test_cpu_time_has_the_unit_that_people_would_say(core_secs, text):
    assert units.format_core_time(core_secs) == text.replace(" ", THIN)


def test_times_are_told_with_their_zone_and_for_machines(set_zone):
    for zone, text in (("UTC", "08:00 UTC"), ("Europe/Berlin", "09:00 CET")):
        set_zone(zone)
        assert units.format_time(1_800_000_000) == f"Fri 15 Jan 2027 {text}"
    assert units.machine_time(1_800_000_000) == "2027-01-15T08:00:00Z"
    assert units.format_time(1e18) == "1000000000000000000"
    assert units.machine_time(1e18) == ""


def test_shares():
    assert units.format_share(0.048) == f"4.8{THIN}%"
    assert units.format_share(0.97) == f"97{THIN}%"
    assert units.format_share(0.0001) == f"<{THIN}0.1{THIN}%"
    assert units.format_share(0) == f"0{THIN}%"
