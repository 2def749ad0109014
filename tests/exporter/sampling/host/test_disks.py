from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.snapshot import DiskSample
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.host.disks import Disks, parse_diskstats

# Captured from Linux 6.18.
VDA = " 254       0 vda 45023 11337 3165466 9175 27223 43076 2878264 8078 0 9248 21528 89507 64 925080 4186 2369 88\n"
LOOP = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
# Constructed: of Linux 3.10, a disk, its partition and a logical volume on it.
OLD = (
    "   8       0 sda 10 0 80 5 20 0 160 7 0 9 12\n"
    "   8       1 sda1 9 0 72 5 20 0 160 7 0 9 12\n"
    " 253       0 dm-0 9 0 72 5 20 0 160 7 0 9 12\n"
)
# Constructed after reports: an NVMe disk and the path to it; before Linux 6.4 the path alone counts.
PATH = "   0       0 nvme0c0n1 7 0 56 1 9 0 72 1 0 2 2\n"
HEAD = " 259       1 nvme0n1 7 0 56 1 9 0 72 1 0 2 2\n"
IDLE_HEAD = " 259       1 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n"


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a node with these devices: whole ones by name with what they are made of."""

    def make(text: str, blocks: dict[str, list[str]]) -> tuple[Disks, Unreadable, Path]:
        (tmp_path / "diskstats").write_text(text)
        for name, slaves in blocks.items():
            (tmp_path / "block" / name / "slaves").mkdir(parents=True)
            for slave in slaves:
                (tmp_path / "block" / name / "slaves" / slave).mkdir()
        unreadable = Unreadable()
        return Disks(str(tmp_path), str(tmp_path), unreadable), unreadable, tmp_path

    return make


def test_fields_stand_as_the_kernel_has_them():
    disk = parse_diskstats(LOOP + VDA)["vda"]
    assert (disk.major, disk.minor, disk.stats[:4], len(disk.stats)) == (
        254,
        0,
        (45023, 11337, 3165466, 9175),
        17,
    )
    assert [len(each.stats) for each in parse_diskstats(OLD).values()] == [11, 11, 11]


def test_a_whole_disk_is_told_from_partitions_and_from_what_is_made_of_others(make):
    disks, unreadable, _ = make(VDA + LOOP + OLD, {"vda": [], "loop0": [], "sda": [], "dm-0": ["sda1"]})
    assert {name: disk.whole for name, disk in disks.read().items()} == {
        "vda": True,
        "loop0": False,
        "sda": True,
        "sda1": None,
        "dm-0": False,
    }
    assert disks.others == {"7:0": False, "253:0": True}
    assert unreadable.counts == {}


def test_what_is_made_of_others_is_known_by_sysfs_whatever_its_name(make):
    disks, _, _ = make(VDA.replace("vda", "vault"), {"vault": ["sda"]})
    assert disks.read()["vault"].whole is False


def test_without_sysfs_nothing_is_known_to_be_a_disk_and_none_is_left_out(make):
    disks, unreadable, _ = make(VDA, {})
    assert disks.read()["vda"].whole is None
    assert disks.others == {}
    assert unreadable.counts == {}


def test_a_disk_that_comes_is_looked_at(make):
    disks, _, top = make(VDA, {"vda": []})
    disks.read()
    (top / "block" / "sdb" / "slaves").mkdir(parents=True)
    (top / "diskstats").write_text(VDA + "   8      16 sdb 1 0 8 0 0 0 0 0 0 0 0\n")
    assert disks.read()["sdb"] == DiskSample(
        major=8, minor=16, stats=(1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0), whole=True
    )


def test_volumes_of_zfs_count_on_the_disks_of_their_pool_though_sysfs_does_not_say_so(make):
    disks, _, _ = make(VDA + " 230       0 zd0 9 0 72 5 20 0 160 7 0 9 12\n", {"vda": [], "zd0": []})
    assert {name: disk.whole for name, disk in disks.read().items()} == {"vda": True, "zd0": False}


def test_an_nvme_disk_that_counts_beside_the_path_to_it_counts_once(make):
    disks, _, _ = make(PATH + HEAD, {"nvme0c0n1": [], "nvme0n1": []})
    assert {name: disk.whole for name, disk in disks.read().items()} == {"nvme0c0n1": False, "nvme0n1": True}
    assert disks.others == {"0:0": False}


def test_a_path_is_the_disk_as_long_as_it_counts_alone(make):
    disks, _, top = make(PATH + IDLE_HEAD, {"nvme0c0n1": [], "nvme0n1": []})
    assert disks.read()["nvme0c0n1"].whole is True
    assert disks.others == {}
    (top / "diskstats").write_text(PATH + HEAD)  # nothing had been read or written yet
    for _ in range(2):
        assert {name: disk.whole for name, disk in disks.read().items()} == {
            "nvme0c0n1": False,
            "nvme0n1": True,
        }


def test_a_path_whose_disk_is_not_listed_is_the_disk(make):
    disks, _, _ = make(PATH.replace("c0n1", "c0n2"), {"nvme0c0n2": []})
    assert disks.read()["nvme0c0n2"].whole is True


@pytest.mark.parametrize("failure", ["garbage", "missing"])
def test_without_diskstats_there_are_no_disks(make, failure):
    disks, unreadable, top = make("garbage\n", {})
    if failure == "missing":
        (top / "diskstats").unlink()
    assert disks.read() == {}
    assert unreadable.counts == ({"node_diskstats_garbage": 1} if failure == "garbage" else {})


def test_this_node_is_read_if_it_has_disks():
    unreadable = Unreadable()
    for name, disk in Disks("/proc", "/sys", unreadable).read().items():
        assert disk.whole is not True or Path(f"/sys/block/{name}").exists()
    assert unreadable.counts == {}


@given(st.text() | st.text(alphabet="0123456789 \nsda-", max_size=200))
def test_any_text_gives_disks_or_the_error(text):
    try:
        parse_diskstats(text)
    except ParseError:
        pass
