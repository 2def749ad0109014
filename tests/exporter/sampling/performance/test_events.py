"""Which counters make which figure, and what a count is worth: the tables against their sources' own words."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.sampling.performance.events import (
    _INTEL_MODELS,
    NAMES,
    Count,
    find_events,
    find_flops,
    parse_cpu,
)

CPUINFO = """processor\t: 0
vendor_id\t: {vendor}
cpu family\t: {family}
model\t\t: {model}
model name\t: Some Processor @ 2.00GHz
stepping\t: 1

processor\t: 1
vendor_id\t: other
cpu family\t: 1
model\t\t: 1
"""
# By bit of the umask: bits of a vector ÷ bits of an element (tools/perf's skylakex/floating-point.json).
ELEMENTS = {0: 1, 1: 1, 2: 128 // 64, 3: 128 // 32, 4: 256 // 64, 5: 256 // 32, 6: 512 // 64, 7: 512 // 32}


def test_a_processor_is_known_by_its_first_block():
    assert parse_cpu(CPUINFO.format(vendor="GenuineIntel", family=6, model=85)) == ("GenuineIntel", 6, 85)


@pytest.mark.parametrize("text", ["", "vendor_id\t: x\n", CPUINFO.format(vendor="x", family="six", model=1)])
def test_a_processor_that_does_not_say_is_not_known(text):
    assert parse_cpu(text) is None


@given(st.text())
def test_any_text_is_a_processor_or_none(text):
    assert parse_cpu(text) is None or len(parse_cpu(text)) == 3


@pytest.mark.parametrize("model", sorted(_INTEL_MODELS))
def test_intel_s_widths_are_each_counted_once_with_their_elements(model):
    seen = 0
    for event in find_flops(("GenuineIntel", 6, model)):
        assert event.config & 0xFF == 0xC7
        umask = event.config >> 8
        assert seen & umask == 0
        seen |= umask
        bits = [bit for bit in range(8) if umask >> bit & 1]
        assert {ELEMENTS[bit] for bit in bits} == {event.weight}
    # Without 512 bits their two umasks may be left: nothing can be counted there.
    assert seen in {0x7F, 0xFF}


@pytest.mark.parametrize(
    ("family", "model", "config"),
    [(0x17, 0x01, 0xFF03), (0x17, 0x31, 0xFF03), (0x19, 0x01, 0xFF03), (0x19, 0x21, 0xFF03),
     (0x19, 0x11, 0x1F03), (0x19, 0x61, 0x1F03), (0x19, 0xA0, 0x1F03), (0x1A, 0x02, 0x0F03)],
)  # fmt: skip
def test_amd_s_zens_count_operations_by_one_event(family, model, config):
    assert find_flops(("AuthenticAMD", family, model)) == ((4, config, 1),)


@pytest.mark.parametrize(
    "cpu",
    [None, ("GenuineIntel", 6, 0x3F), ("GenuineIntel", 6, 0x97), ("GenuineIntel", 15, 0x55),
     ("AuthenticAMD", 0x15, 2), ("HygonGenuine", 0x18, 1), ("", 0, 0)],
)  # fmt: skip
def test_of_other_processors_no_floating_point_is_claimed(cpu):
    assert find_flops(cpu) == ()


def test_each_figure_of_the_setting_has_its_events():
    assert all(find_events(name, ("GenuineIntel", 6, 0x55)) for name in NAMES)


def test_a_counter_that_was_always_there_is_taken_as_it_is():
    count = Count()
    assert count.grow(1000, 50, 50) == 1000
    assert count.grow(1500, 80, 80) == 500


def test_a_counter_that_had_its_turn_a_quarter_of_the_time_is_scaled():
    count = Count()
    assert count.grow(1000, 400, 100) == 4000
    assert count.grow(1100, 500, 200) == 100


def test_a_counter_that_never_had_its_turn_says_nothing():
    count = Count()
    assert count.grow(0, 400, 0) == 0
    assert count.grow(0, 0, 0) == 0


numbers = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=8))
def test_whatever_the_kernel_says_nothing_shrinks(readings):
    count = Count()
    assert all(count.grow(*reading) >= 0 for reading in readings)


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 100)), min_size=1, max_size=8),
)
def test_a_steady_program_is_found_whatever_turns_its_counter_has(per_ns, intervals):
    """The oracle: so many events a nanosecond, all the time; the counter sees them while it has its turn."""
    count, value, enabled, running, found = Count(), 0, 0, 0, 0.0
    for length_ns, percent in intervals:
        turn_ns = max(1, length_ns * percent // 100)
        value, enabled, running = value + per_ns * turn_ns, enabled + length_ns, running + turn_ns
        found += count.grow(value, enabled, running)
    assert isclose(found, per_ns * enabled, rel_tol=1e-9)


@pytest.mark.parametrize("wrong", [0, 4999, 2**64 - 5])
def test_a_reading_that_steps_back_or_leaps_is_none_and_the_next_counts_from_the_last(wrong):
    count = Count()
    readings = ((5000, 50, 50), (wrong, 60, 60), (7000, 70, 70))
    assert [count.grow(*each) for each in readings] == [5000, 0, 2000]
    assert count.refused == 1
