from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess, GpuSample
from jobfeatures_exporter.sampling.gpu.bounds import MAX_WATTS
from jobfeatures_exporter.sampling.gpu.meter import CardMeter

CARD = GpuCard(uuid="GPU-1")


def reading(**values):
    return GpuSample(card=CARD, taken_at_secs=0.0, **values)


def test_busy_seconds_are_utilisation_times_time():
    meter = CardMeter(30)
    assert meter.update(reading(ce_util_percent=50), 100).busy_secs == 0
    assert meter.update(reading(ce_util_percent=50), 110).busy_secs == 5
    assert meter.update(reading(ce_util_percent=100), 120).busy_secs == 15


def test_what_is_not_told_is_unknown_and_goes_on_later():
    meter = CardMeter(30)
    meter.update(reading(ce_util_percent=100, power_watts=100), 100)
    meter.update(reading(ce_util_percent=100, power_watts=100), 110)
    silent = meter.update(reading(), 120)
    assert (silent.busy_secs, silent.energy_joules) == (None, None)
    again = meter.update(reading(ce_util_percent=100, power_watts=100), 130)
    assert (again.busy_secs, again.energy_joules) == (20, 2000)


def test_in_a_long_gap_nothing_is_counted_but_the_drivers_own_joules():
    meter = CardMeter(30)
    meter.update(reading(ce_util_percent=100, energy_joules=1000), 100)
    late = meter.update(reading(ce_util_percent=100, energy_joules=9000), 200)
    assert (late.busy_secs, late.energy_joules) == (0, 8000)


def test_joules_are_the_growth_of_the_drivers_counter_and_do_not_fall_when_it_begins_anew():
    meter = CardMeter(30)
    told = [
        meter.update(reading(energy_joules=each), 100 + 10 * i) for i, each in enumerate((5000, 5600, 50))
    ]
    assert [each.energy_joules for each in told] == [0, 600, 650]
    assert [each.power_watts for each in told] == [None, 60, None]


@pytest.mark.parametrize(
    ("counters", "joules", "refused"),
    [
        ((900_001_000, 900_000_999, 900_001_001), 2, 1),  # a joule less
        ((900_001_000, 0, 900_001_002), 2, 0),  # one reading of nothing
        ((22_545_283, 200, 22_547_283), 2000, 0),
        ((1000, 4_000_000_000, 1600), 600, 1),
        ((1000, 4_000_000_000, 4_000_000_050, 1600), 1650, 1),  # began anew twice
        ((1000, 7600, 8200), 7200, 0),
        ((1000, 1100, 50, 60), 160, 0),
        ((1000, -5, 8200), 7200, 1),
        ((1000, 900_000, 1_800_000), 0, 2),
    ],
)
def test_no_card_has_more_joules_than_its_limit_allows_in_the_time(counters, joules, refused):
    count, card = Counter(), GpuCard(uuid="GPU-1", max_power_limit_watts=700)
    meter = CardMeter(30, lambda name: count.update([name]))
    for secs, counter in enumerate(counters):
        sample = GpuSample(card=card, taken_at_secs=0.0, energy_joules=counter, power_watts=300)
        told = meter.update(sample, 100 + 10 * secs)
    assert told.energy_joules == joules
    assert count == Counter({"gpu_refused_energy_joules": refused} if refused else {})


def test_a_counter_that_began_anew_tells_no_power():
    meter = CardMeter(30)
    told = [
        meter.update(reading(energy_joules=each), 100 + 10 * i)
        for i, each in enumerate((22_545_283, 200, 22_547_283, 22_548_283))
    ]
    assert [each.power_watts for each in told] == [None, None, 100, 100]


def test_over_a_pause_a_counter_may_grow_by_as_much_longer():
    meter = CardMeter(30)
    meter.update(reading(energy_joules=1000, power_limit_watts=300), 100)
    assert meter.update(reading(energy_joules=300_000, power_limit_watts=300), 1100).energy_joules == 299_000
    assert (
        meter.update(reading(energy_joules=9_300_000, power_limit_watts=300), 2100).energy_joules == 299_000
    )


def test_figures_that_no_card_can_have_are_unknown_named_and_not_integrated():
    count, most = Counter(), 2**32 - 1
    card = GpuCard(
        uuid="GPU-1", memory_bytes=80 * 10**9, power_limit_watts=700, max_power_limit_watts=most / 1e3
    )
    meter = CardMeter(30, lambda name: count.update([name]))
    sane = {"ce_util_percent": 50.0, "power_watts": 300.0, "temperature_celsius": 60.0, "fan_percent": 100.0}
    odd = {
        "ce_util_percent": 101.0, "power_watts": 3_766_543.21, "power_limit_watts": most / 1e3,
        "temperature_celsius": 255.0, "memory_used_bytes": 90 * 10**9, "fan_percent": 65535.0,
        "ce_clock_mhz": most, "memory_clock_mhz": most,
        "processes": (GpuProcess(1, 2**64 - 1, most), GpuProcess(2, 10, 20.0)),
    }  # fmt: skip
    for secs, values in enumerate((sane, odd, sane)):
        told = meter.update(GpuSample(card=card, taken_at_secs=0.0, **values), 100 + 10 * secs)
        if values is odd:
            assert all(getattr(told, name) is None for name in odd if name != "processes")
            assert told.processes == (GpuProcess(1), GpuProcess(2, 10, 20.0))
            assert (told.card.max_power_limit_watts, told.card.power_limit_watts) == (None, 700)
    assert (told.busy_secs, told.energy_joules) == (5, 3000)
    names = {f"gpu_refused_{name}" for name in odd if name != "processes"}
    assert count.keys() == {
        *names, "gpu_refused_max_power_limit_watts", "gpu_refused_process_percent", "gpu_refused_process_memory"
    }  # fmt: skip


def test_a_process_uses_no_less_than_nothing_and_no_card_has_no_memory():
    count, card = Counter(), GpuCard(uuid="GPU-1", memory_bytes=0)
    sample = GpuSample(
        card=card, taken_at_secs=0.0, processes=(GpuProcess(1, -1, -0.5), GpuProcess(2, 0, 0.0))
    )
    told = CardMeter(30, lambda name: count.update([name])).update(sample, 100)
    assert told.processes == (GpuProcess(1), GpuProcess(2, 0, 0.0))
    assert told.card.memory_bytes is None
    assert count == {"gpu_refused_process_percent": 1, "gpu_refused_process_memory": 1}


def test_a_card_that_says_that_it_draws_nothing_has_no_sensor():
    """The driver amdgpu says 0 of an MI200's second die: the first one's power is that of both."""
    count, meter = Counter(), CardMeter(30, lambda name: count.update([name]))
    told = [meter.update(reading(power_watts=0.0), at) for at in (100, 110)]
    assert [(each.power_watts, each.energy_joules) for each in told] == [(None, None)] * 2
    assert count == {"gpu_refused_power_watts": 2}


def test_a_limit_of_nothing_is_no_limit_and_no_fault():
    count = Counter()
    meter = CardMeter(30, lambda name: count.update([name]))
    told = meter.update(reading(power_limit_watts=0.0, power_watts=400.0), 100)
    assert (told.power_limit_watts, told.power_watts, count) == (None, 400, Counter())
    assert meter.update(reading(power_watts=MAX_WATTS + 1), 110).power_watts is None


def test_without_a_counter_power_is_integrated():
    meter = CardMeter(30)
    assert meter.update(reading(power_watts=200), 100).energy_joules == 0
    assert meter.update(reading(power_watts=300), 110).energy_joules == 3000


def test_a_card_that_tells_neither_has_no_joules():
    meter = CardMeter(30)
    for secs in (100, 110):
        assert meter.update(reading(ce_util_percent=1), secs).energy_joules is None


def test_time_in_which_clocks_are_held_is_counted_by_reason():
    meter = CardMeter(30)
    power, heat = ("clock_reason", "power_cap"), ("clock_reason", "hardware_thermal")
    reasons = {"power_cap": True, "hardware_thermal": False}
    meter.update(reading(clock_reasons=reasons, counts={("ecc", "corrected"): 7}), 100)
    found = meter.update(reading(clock_reasons=reasons, counts={("ecc", "corrected"): 7}), 110)
    assert found.counts == {("ecc", "corrected"): 7, power: 10, heat: 0}
    assert meter.update(reading(), 120).counts == {}
    assert meter.update(reading(clock_reasons=reasons), 500).counts == {power: 10, heat: 0}  # a long gap
    assert meter.update(reading(clock_reasons=reasons), 505).counts == {power: 15, heat: 0}


percents = st.none() | st.floats(0, 100)
amounts = st.none() | st.floats(0, 1e9)


@given(st.lists(st.tuples(percents, amounts, amounts, st.floats(-5, 100)), max_size=30))
def test_counters_never_fall_and_no_card_is_busier_than_time(readings):
    meter, now, busy, joules = CardMeter(30), 1000.0, 0.0, 0.0
    for percent, watts, counter, elapsed in readings:
        now += elapsed
        told = meter.update(reading(ce_util_percent=percent, power_watts=watts, energy_joules=counter), now)
        if told.busy_secs is not None:
            assert busy <= told.busy_secs <= busy + 30 * 31 + 1e-6
            busy = told.busy_secs
        if told.energy_joules is not None:
            assert told.energy_joules >= joules
            joules = told.energy_joules
            passed = sum(max(0.0, each) + 1 for *_, each in readings)
            assert joules <= passed * MAX_WATTS
    assert busy <= sum(max(0.0, elapsed) for *_, elapsed in readings) + 1e-6
