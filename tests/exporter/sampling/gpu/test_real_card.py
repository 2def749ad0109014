"""The real library of a real card. Nothing is changed on the card, and nothing is computed on it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import GpuSample, Kind, Snapshot
from jobfeatures_exporter.sampling.gpu import Paths
from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.scrape.collectors import gpudetail
from jobfeatures_exporter.scrape.collectors import gpus as collector

pytestmark = pytest.mark.gpu

PATIENCE_SECS = 60.0


@pytest.fixture(scope="module")
def snapshots():
    """Return two looks at the node, some readings of its cards apart."""
    if "pytest" in " ".join(
        line for line in Path("/proc/self/maps").read_text().splitlines() if "nvidia-ml" in line
    ):
        pytest.skip("this process has the stand-in for NVML loaded: run the tests marked gpu by themselves")
    clock = SystemClock()
    monitor = GpuMonitor(["auto"], clock, interval_secs=0.5, paths=Paths(), detail=True)
    if not monitor.readers:
        pytest.skip("no driver of a GPU is loaded")
    sampler = Sampler(SamplerSettings(), clock, gpus=monitor)
    pause = threading.Event()
    monitor.start()
    try:
        found: list[Snapshot] = []
        for _ in range(int(PATIENCE_SECS / 0.5)):
            snapshot = sampler.sample()
            if any(gpu.busy_secs is not None or gpu.energy_joules for gpu in snapshot.gpus):
                found.append(snapshot)
            if len(found) == 5:
                break
            pause.wait(0.7)
        if not found:
            pytest.fail(f"no card answered: {monitor.readers[0].unreadable.counts}")
        yield found
    finally:
        monitor.stop(PATIENCE_SECS)
        sampler.close()


@pytest.fixture(scope="module")
def cards(snapshots) -> list[GpuSample]:
    return [gpu for gpu in snapshots[-1].gpus if gpu.card.parent_uuid is None]


def test_the_drivers_answer_and_no_card_fails(snapshots, cards):
    assert all(snapshots[-1].gpu_drivers.values())
    assert [gpu.failing for gpu in cards] == [0] * len(cards)
    failures = {kind for kind in snapshots[-1].unreadable if kind.startswith("gpu_nvml")}
    assert {kind for kind in failures if not kind.endswith("_4")} == set()  # a container may lack permissions


def test_each_card_says_what_it_is(cards):
    assert len({gpu.card.uuid for gpu in cards}) == len(cards)
    for gpu in cards:
        card = gpu.card
        assert card.uuid.startswith(("GPU-", "PCI-"))
        assert card.index is not None
        assert card.minor is not None
        assert card.address.count(":") == 2
        assert card.model
        assert card.memory_bytes > 2**28


def test_figures_are_within_what_is_possible(cards):
    for gpu in cards:
        assert 0 <= gpu.memory_used_bytes <= gpu.card.memory_bytes
        for percent in (gpu.ce_util_percent, gpu.card.memory_percent(gpu.memory_used_bytes)):
            assert percent is None or 0 <= percent <= 100
        if gpu.temperature_celsius is not None:
            assert 0 < gpu.temperature_celsius < 120
        if gpu.power_watts is not None:
            assert 1 < gpu.power_watts < 2000
        if gpu.ce_clock_mhz is not None and gpu.card.max_ce_clock_mhz is not None:
            assert 0 < gpu.ce_clock_mhz <= gpu.card.max_ce_clock_mhz


def test_an_nvidia_card_of_a_data_centre_tells_every_field_but_its_fan(cards):
    for gpu in cards:
        if gpu.card.manufacturer != "NVIDIA":
            pytest.skip("not a card of NVIDIA")
        card = gpu.card
        assert card.architecture
        assert card.driver
        assert card.firmware
        assert card.min_power_limit_watts <= card.power_limit_watts <= card.max_power_limit_watts
        assert card.max_memory_clock_mhz > 0
        assert gpu.compute_mode
        assert gpu.performance_state in range(16)
        assert gpu.power_limit_watts > 0


def test_counters_grow_as_time_and_power_allow(snapshots):
    first, last = snapshots[0], snapshots[-1]
    before = {gpu.card.uuid: gpu for gpu in first.gpus}
    for gpu in last.gpus:
        if gpu.card.parent_uuid is not None or gpu.card.uuid not in before:
            continue
        elapsed = gpu.taken_at_secs - before[gpu.card.uuid].taken_at_secs
        assert elapsed > 0
        if gpu.busy_secs is not None and before[gpu.card.uuid].busy_secs is not None:
            assert 0 <= gpu.busy_secs - before[gpu.card.uuid].busy_secs <= elapsed + 1
        if gpu.energy_joules is not None and before[gpu.card.uuid].energy_joules is not None:
            grown = gpu.energy_joules - before[gpu.card.uuid].energy_joules
            assert 0 < grown < 2000 * (elapsed + 1)


def test_processes_are_known_or_counted_as_unattributed(snapshots):
    snapshot = snapshots[-1]
    for gpu in snapshot.gpus:
        unknown = sum(snapshot.key_of(process.pid) is None for process in gpu.processes)
        assert snapshot.gpu_unattributed[gpu.card.uuid] <= unknown


def test_a_page_has_the_cards(snapshots):
    context = Context(now_secs=snapshots[-1].taken_at_secs, snapshot=snapshots[-1], kinds=frozenset(Kind))
    samples = {family.metric.name: family.samples for family in collector.families(context)}
    assert len(samples["batch_gpu"]) == len(snapshots[-1].gpus)
    assert all(age < 60 for _, age in samples["batch_gpu_age_seconds"])


def counted(snapshots, cards, what):
    """Return what each card counted from the first look to the last, by its further labels; skip without any."""
    before = {gpu.card.uuid: gpu.counts for gpu in snapshots[0].gpus}
    found = [
        {
            count[1:]: (value - before.get(gpu.card.uuid, {}).get(count, 0), value)
            for count, value in gpu.counts.items()
            if count[0] == what
        }
        for gpu in cards
    ]
    if not any(found):
        pytest.skip(f"this machine has no card that supports it: {what}")
    return [each for each in found if each]


def test_a_profile_is_within_what_is_possible(snapshots, cards):
    profiled = [each[()][1] for each in counted(snapshots, cards, "profiled")]
    assert all(0 < secs < 10 * PATIENCE_SECS for secs in profiled)
    for secs, units in zip(profiled, counted(snapshots, cards, "busy"), strict=True):
        assert {("sm",), ("warps",), ("tensor",), ("memory",)} == set(units)
        assert all(0 <= busy <= secs * 1.01 for _, busy in units.values())
    for links in counted(snapshots, cards, "link"):
        assert all(bytes_ >= 0 for bytes_, _ in links.values())


@pytest.mark.parametrize("what", ["ecc", "lifetime_ecc", "remapped"])
def test_errors_are_counted_by_kind(snapshots, cards, what):
    for kinds in counted(snapshots, cards, what):
        assert set(kinds) == {("corrected",), ("uncorrected",)}
        assert all(grown >= 0 and value < 10**6 for grown, value in kinds.values())


def test_what_holds_clocks_back_does_so_for_no_longer_than_was_looked(snapshots, cards):
    for reasons in counted(snapshots, cards, "clock_reason"):
        assert all(0 <= secs < 10 * PATIENCE_SECS for _, secs in reasons.values())


def test_events_are_watched_for(cards):
    watched = [gpu.flags["xids_watched"] for gpu in cards if "xids_watched" in gpu.flags]
    if not watched:
        pytest.skip("this machine has no card that sends events")
    assert all(watched)


def test_a_page_has_the_details(snapshots):
    if not any(gpu.counts for gpu in snapshots[-1].gpus):
        pytest.skip("this machine has no card that tells more on request")
    context = Context(now_secs=snapshots[-1].taken_at_secs, snapshot=snapshots[-1], kinds=frozenset(Kind))
    assert any(family.samples for family in gpudetail.families(context))
