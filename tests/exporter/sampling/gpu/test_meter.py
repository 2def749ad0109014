from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.sampling.gpu.meter import CardMeter
from jobfeatures_exporter.snapshot import GpuCard, GpuSample

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
    assert [each.power_watts for each in told] == [None, 60, 5]


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
    assert busy <= sum(max(0.0, elapsed) for *_, elapsed in readings) + 1e-6
