"""Intel's cards in a constructed /sys and /proc."""

import os

import pytest

from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess
from jobfeatures_exporter.sampling.gpu import intel

ADDRESS = "0000:4d:00.0"


@pytest.fixture
def read(tree, clock, unreadable):
    driver = intel.make_driver(tree.paths, clock, unreadable)
    return lambda: list(driver.read())


@pytest.fixture
def xe(tree):
    tree.card(
        0,
        "xe",
        "8086:56C0",
        ADDRESS,
        physical_vram_size_bytes="17179869184",
        tile0__gt0__freq0__act_freq="1950",
        tile0__gt0__freq0__max_freq="2050",
        hwmon__hwmon2__energy1_input="5000000",
        hwmon__hwmon2__power1_max="150000000",
        hwmon__hwmon2__temp2_input="52000",
    )
    return tree


@pytest.mark.parametrize("numbers", [(9, 10, 11), (11, 9, 10)])
def test_a_card_of_several_tiles_has_the_energy_of_all_not_of_one(tree, read, numbers):
    """Constructed after i915 on Data Center GPU Max, which has sensors for the card, and for each tile."""
    sensors = {}
    for number, name, joules in zip(numbers, ("i915", "i915_gt0", "i915_gt1"), (900, 400, 450), strict=True):
        sensors[f"hwmon__hwmon{number}__name"] = name
        sensors[f"hwmon__hwmon{number}__energy1_input"] = str(joules * 10**6)
    tree.card(
        0, "i915", "8086:0BD5", ADDRESS, **sensors, **{f"hwmon__hwmon{numbers[0]}__power1_max": "600000000"}
    )
    [sample] = read()
    assert (sample.energy_joules, sample.power_limit_watts) == (900, 600)


def fdinfo(number, busy, passed):
    return (
        f"drm-driver: xe\ndrm-client-id: {number}\ndrm-pdev: {ADDRESS}\ndrm-resident-vram0: 16 MiB\n"
        f"drm-cycles-ccs: {busy}\ndrm-total-cycles-ccs: {passed}\n"
    )


def test_a_card_of_the_driver_xe(xe, read):
    [sample] = read()
    assert sample.card == GpuCard(
        uuid=f"PCI-{ADDRESS}",
        index=0,
        minor=0,
        address=ADDRESS,
        manufacturer="Intel",
        model="8086:56c0",
        driver="xe",
        memory_bytes=2**34,
        power_limit_watts=150,
        max_ce_clock_mhz=2050,
    )
    assert (sample.temperature_celsius, sample.energy_joules, sample.ce_clock_mhz) == (52, 5, 1950)
    assert (sample.ce_util_percent, sample.memory_used_bytes) == (None, None)


def test_a_card_of_the_driver_i915_has_its_clocks_elsewhere(tree, read):
    tree.card(1, "i915", "8086:9A49", "0000:00:02.0")
    tree.write("sys/class/drm/card1/gt_act_freq_mhz", "1300\n")
    tree.write("sys/class/drm/card1/gt_max_freq_mhz", "1350\n")
    [sample] = read()
    assert (sample.ce_clock_mhz, sample.card.max_ce_clock_mhz, sample.card.memory_bytes) == (1300, 1350, None)


def test_utilisation_is_the_sum_over_the_clients_from_the_second_look_on(xe, read, clock):
    xe.client(10, 3, "/dev/dri/renderD128", fdinfo(1, 0, 0))
    xe.client(11, 3, "/dev/dri/renderD128", fdinfo(2, 0, 0))
    assert read()[0].ce_util_percent is None
    clock.advance(10)
    xe.client(10, 3, "/dev/dri/renderD128", fdinfo(1, 300, 1000))
    xe.client(11, 3, "/dev/dri/renderD128", fdinfo(2, 200, 1000))
    [sample] = read()
    assert sample.ce_util_percent == 50
    assert sample.memory_used_bytes == 2**25
    assert sample.processes == tuple(
        GpuProcess(
            pid=pid,
            memory_bytes=2**24,
            ce_util_percent=percent,
        )
        for pid, percent in ((10, 30), (11, 20))
    )


def test_where_not_every_process_can_be_looked_at_utilisation_is_unknown(xe, read, clock, monkeypatch):
    real = os.listdir

    def refused(path):
        if str(path).endswith("/11/fd"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "listdir", refused)
    for busy in (0, 300):
        for pid in (10, 11):
            xe.client(pid, 3, "/dev/dri/renderD128", fdinfo(pid, busy, 1000 + busy))
        [sample] = read()
        clock.advance(10)
    assert (sample.ce_util_percent, sample.memory_used_bytes) == (None, None)


@pytest.mark.parametrize(
    ("files", "limit", "most", "joules", "memory"),
    [
        ({"energy2_input": "7000000"}, None, None, 7, None),  # a package alone
        ({"energy1_input": "5000000", "energy2_input": "7000000"}, None, None, 5, None),
        ({"power1_cap": "275000000"}, 275, None, None, None),
        (
            {"power1_max": "0", "power1_cap": "275000000", "power1_rated_max": "300000000"},
            275,
            300,
            None,
            None,
        ),
        ({"power2_max": "17000000", "power2_rated_max": "30000000"}, 17, 30, None, None),
        ({"power1_max": "0"}, None, None, None, None),
    ],
)
def test_newer_cards_name_their_files_otherwise(tree, read, unreadable, files, limit, most, joules, memory):
    tree.card(
        0, "xe", "8086:E20B", ADDRESS, **{f"hwmon__hwmon2__{name}": text for name, text in files.items()}
    )
    [sample] = read()
    assert (sample.power_limit_watts, sample.card.max_power_limit_watts) == (limit, most)
    assert (sample.energy_joules, sample.card.memory_bytes) == (joules, memory)
    assert unreadable.counts == {}


def test_a_card_of_two_tiles_has_the_memory_of_both(tree, read):
    sizes = {f"tile{number}__physical_vram_size_bytes": str(2**36) for number in range(2)}
    tree.card(0, "xe", "8086:0BD5", ADDRESS, **sizes)
    assert read()[0].card.memory_bytes == 2**37


def test_energy_goes_on_with_the_counter_that_it_began_with(tree, read):
    place = "sys/class/drm/card0/device/hwmon/hwmon2"
    tree.card(0, "xe", "8086:E20B", ADDRESS, hwmon__hwmon2__energy1_input="5000000")
    assert read()[0].energy_joules == 5
    (tree.top / place / "energy1_input").unlink()
    tree.write(f"{place}/energy2_input", "9000000")
    assert read()[0].energy_joules is None


def test_a_device_that_its_driver_could_not_start_is_a_card_that_does_not_answer(xe, read):
    for name in (ADDRESS, "0000:63:00.0"):
        xe.write(f"sys/bus/pci/drivers/xe/{name}", "")
    assert [(each.card.uuid, each.failing) for each in read()] == [
        (f"PCI-{ADDRESS}", 0), ("PCI-0000:63:00.0", 1),
    ]  # fmt: skip
