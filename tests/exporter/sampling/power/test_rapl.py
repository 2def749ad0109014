"""Energy counters below a constructed /sys: no machine of ours has real ones."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.power.rapl import (
    STILL_SECS,
    NodeEnergy,
    compute_domain,
    find_zones,
    parse_energy,
)
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings

RANGE_UJ = 262_143_328_850
ZONES = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "core",
    "intel-rapl:0:1": "uncore",
    "intel-rapl:0:2": "dram",
    "intel-rapl:1": "package-1",
    "intel-rapl:1:0": "dram",
    "intel-rapl:2": "psys",
    "intel-rapl-mmio:0": "package-0",
}


@pytest.fixture
def powercap(tmp_path):
    """Return a function that writes counters in microjoules by zone."""
    top = tmp_path / "sys/class/powercap"

    def write(**uj):
        for zone, name in ZONES.items():
            folder = top / zone
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "name").write_text(f"{name}\n")
            (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
            value = uj.get(zone.replace("intel-rapl", "z").replace("-", "_").replace(":", "_"), 0)
            (folder / "energy_uj").write_text(f"{value}\n")
        (top / "intel-rapl").mkdir(exist_ok=True)
        (top / "dtpm").mkdir(exist_ok=True)
        return str(tmp_path / "sys")

    return write


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def make_energy(clock, unreadable):
    made = []

    def make(sysfs):
        made.append(NodeEnergy(sysfs, clock, DescriptorBudget(), unreadable))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_each_domain_is_counted_once(powercap, unreadable):
    zones = find_zones(powercap(), unreadable)
    assert sorted(zone.domain for zone in zones) == ["dram-0", "dram-1", "package-0", "package-1", "psys"]
    assert not any("mmio" in zone.path for zone in zones)
    assert unreadable.counts == {}


@pytest.mark.parametrize(
    ("name", "parent", "domain"),
    [
        ("package-0", None, "package-0"),
        ("package-1-die-1", None, "package-1-die-1"),
        ("dram", "package-1-die-1", "dram-1-die-1"),
        ("core", "package-0", None),
        ("uncore", "package-0", None),
        ("psys", None, "psys"),
        ("dram", None, None),
        ("dram", "psys", None),
    ],
)
def test_a_zone_is_named_with_its_package(name, parent, domain):
    assert compute_domain(name, parent) == domain


def test_joules_count_from_our_start_and_through_a_wrap(powercap, make_energy, clock):
    energy = make_energy(powercap(z_0=RANGE_UJ - 2_000_000))
    assert energy.read()["package-0"] == 0
    clock.advance(10)
    powercap(z_0=3_000_000)
    assert energy.read()["package-0"] == 5


@pytest.mark.parametrize(
    ("grown_uj", "joules"),
    [
        ([2_000_000, 2_000_000, 2_000_000, 2_000_000], {"package-0-die-0": 2}),  # AMD: each shows the socket's
        ([2_000_000, 2_000_100, 2_100_000, 2_000_000], {"package-0-die-0": 2}),  # read a little later
        ([2_000_000, 3_000_000, 2_000_000, 5_000_000], {"package-0-die-0": 2, "package-0-die-1": 3, "package-0-die-3": 5}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("start_uj", [0, 7_000_000, RANGE_UJ - 1_000_000])
def test_dies_that_show_one_counter_are_counted_once(
    tmp_path, make_energy, clock, start_uj, grown_uj, joules
):
    def write(energies):
        for number, uj in enumerate(energies):
            folder = tmp_path / f"class/powercap/intel-rapl:{number}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "name").write_text(f"package-0-die-{number}\n")
            (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
            (folder / "energy_uj").write_text(f"{uj % RANGE_UJ}\n")

    write([start_uj] * 4)
    energy = make_energy(str(tmp_path))
    assert energy.read() == {"package-0-die-0": 0}
    clock.advance(10)
    write([start_uj + uj for uj in grown_uj])
    assert energy.read() == pytest.approx(joules, abs=0.2)


def test_dies_of_one_counter_stay_one_where_the_node_is_so_busy_that_we_wait_between_two_of_them(
    tmp_path, make_energy, clock, monkeypatch
):
    def write(uj):
        for number in range(2):
            folder = tmp_path / f"class/powercap/intel-rapl:{number}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "name").write_text(f"package-0-die-{number}\n")
            (folder / "energy_uj").write_text(f"{uj}\n")

    def wait_after_reading(data):
        read_uj = parse_energy(data)
        if read_uj == 0:
            clock.advance(1)
            write(100_000_000)
        return read_uj

    write(0)
    energy = make_energy(str(tmp_path))
    assert energy.read() == {"package-0-die-0": 0}
    monkeypatch.setattr("jobfeatures_exporter.sampling.power.rapl.parse_energy", wait_after_reading)
    assert energy.read().keys() == {"package-0-die-0"}


def test_intels_dies_are_counted_each(tmp_path, make_energy, clock, fail_opening):
    for number, uj in enumerate((5_000_000, 9_000_000)):
        folder = tmp_path / f"class/powercap/intel-rapl:{number}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"package-0-die-{number}\n")
        (folder / "energy_uj").write_text(f"{uj}\n")
    energy = make_energy(str(tmp_path))
    assert energy.read() == {"package-0-die-0": 0, "package-0-die-1": 0}


def test_a_counter_is_bounded_by_the_limits_of_its_package_in_both_directions(
    powercap, make_energy, clock, unreadable, tmp_path
):
    sysfs = powercap(z_0=5_000_000_000, z_1=5_000_000_000)
    (tmp_path / "sys/class/powercap/intel-rapl:1/constraint_1_power_limit_uw").write_text("300000000\n")
    energy = make_energy(sysfs)
    energy.read()
    clock.advance(60)
    powercap(z_0=5_000_000_000 + 400_000_000_000, z_1=4_999_999_999)  # 6.7 kW; a microjoule less: 4.4 kW
    assert energy.read()["package-0"] == energy.read()["package-1"] == 0
    assert unreadable.counts == {"node_energy_refused": 2}
    clock.advance(60)
    powercap(z_0=5_000_000_000 + 403_000_000_000, z_1=5_001_000_000)
    assert (energy.read()["package-0"], energy.read()["package-1"]) == (3000, pytest.approx(1))


def test_a_machine_without_counters_has_none_and_that_is_no_fault(tmp_path, make_energy, unreadable):
    assert make_energy(str(tmp_path)).read() == {}
    assert unreadable.counts == {}


def test_counters_that_only_root_may_read_are_absent_and_counted(
    powercap, make_energy, unreadable, fail_opening
):
    energy = make_energy(powercap())
    fail_opening("energy_uj", errno.EACCES)
    assert energy.read() == {}
    assert unreadable.counts == {"node_energy_eacces": 5}


def test_a_counter_stands_still_while_it_cannot_be_read(powercap, make_energy, clock, unreadable):
    energy = make_energy(powercap(z_0=1_000_000, z_1=0))
    energy.read()
    powercap(z_0="garbage", z_1=4_000_000)
    clock.advance(10)
    assert energy.read()["package-0"] == 0
    assert energy.read()["package-1"] == 4
    powercap(z_0=9_000_000, z_1=4_000_000)
    assert energy.read()["package-0"] == 8
    assert unreadable.counts == {"node_energy_garbage": 2}


def test_counters_that_never_move_are_unknown_and_counted_not_0(powercap, node, clock):
    """As some virtual machines show them, and boards psys or memory."""
    node.job_v2("job_4")
    sysfs = powercap(z_0=77, z_2=5)
    sampler = Sampler(SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), sysfs=sysfs), clock)
    sampler.sample()
    clock.advance(STILL_SECS / 2)
    powercap(z_0=77, z_2=1_000_005)
    assert sampler.sample().node.energy_joules["package-0"] == 0  # it may still
    clock.advance(STILL_SECS)
    snapshot = sampler.sample()
    assert snapshot.node.energy_joules == {"psys": 1}
    assert snapshot.jobs[JobKey("slurm", "4")].energy_joules is None
    assert snapshot.unreadable["node_energy_still"] == 4
    powercap(z_0=2_000_077, z_2=1_000_005)
    snapshot = sampler.sample()
    sampler.close()
    assert snapshot.node.energy_joules == {"package-0": 2, "psys": 1}
    assert snapshot.jobs[JobKey("slurm", "4")].energy_joules == 0


def test_garbled_names_and_ranges_cost_their_own_zone(powercap, unreadable, tmp_path):
    sysfs = powercap()
    top = tmp_path / "sys/class/powercap"
    (top / "intel-rapl:1/name").write_bytes(b"\xff\n")
    (top / "intel-rapl:0/max_energy_range_uj").write_text("")
    zones = {zone.domain: zone for zone in find_zones(sysfs, unreadable)}
    assert zones["package-0"].max_range_uj is None
    assert "package-1" not in zones
    assert unreadable.counts == {"node_energy_garbage": 2}


def test_no_descriptor_is_left(powercap, make_energy, open_descriptors):
    before = open_descriptors()
    energy = make_energy(powercap())
    energy.read()
    energy.close()
    assert open_descriptors() == before


@given(st.binary(max_size=64))
def test_any_bytes_are_a_number_or_refused(data):
    try:
        assert parse_energy(data) >= 0
    except ParseError:
        pass


def test_a_job_has_its_part_of_the_package_and_the_node_the_whole(powercap, node, clock):
    node.job_v2("job_4", user_usec=0)
    sysfs = powercap()
    sampler = Sampler(SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), sysfs=sysfs), clock)
    sampler.sample()
    clock.advance(10)
    powercap(z_0=300_000_000, z_0_2=100_000_000, z_2=900_000_000)
    node.job_v2("job_4", user_usec=1_000_000)
    (node.proc / "stat").write_text("cpu  500 0 50 1000 5 0 1 0 0 0\nbtime 1795247965\n")  # 4 s more
    snapshot = sampler.sample()
    sampler.close()
    assert snapshot.node.energy_joules == {
        "package-0": 300, "package-1": 0, "dram-0": 100, "dram-1": 0, "psys": 900,
    }  # fmt: skip
    assert snapshot.jobs[JobKey("slurm", "4")].energy_joules == 100


def test_without_counters_a_job_has_no_joules(node, clock, tmp_path):
    node.job_v2("job_4")
    sampler = Sampler(
        SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), sysfs=str(tmp_path)), clock
    )
    assert sampler.sample().jobs[JobKey("slurm", "4")].energy_joules is None
    sampler.close()


@pytest.mark.skipif(
    not os.path.isdir("/sys/class/powercap/intel-rapl:0"), reason="this machine has no energy counters"
)
def test_this_machine_s_own_counters(make_energy, unreadable):
    domains = make_energy("/sys").read()
    assert all(joules == 0 for joules in domains.values())
    assert domains or unreadable.counts
