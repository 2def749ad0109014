"""Which files of a job are read at which sample, on calm and on busy nodes."""

import os
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from jobfeatures_exporter.model.snapshot import DiskSample, NodeSample
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, KeptFile
from jobfeatures_exporter.sampling.groups.cgroup import (
    RARELY_SAMPLES,
    STILL_SAMPLES,
    JobCgroup,
)
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from tests.exporter.sampling.groups.made import listed


def busy(look, oom_kills=0) -> NodeSample:
    """A node at whose every sample swap, disks and pressures have changed."""
    pressures = {(each, "some"): float(look) for each in ("cpu", "memory", "io")}
    sizes = {"SwapTotal": 2**40, "SwapFree": 2**40 - look * 4096, "SwapCached": 0}
    disks = {"sda": DiskSample(major=8, minor=0, stats=(look,) * 11)}
    return NodeSample(memory_bytes=sizes, disks=disks, pressure_secs=pressures, oom_kills=oom_kills)


@pytest.fixture
def reads(monkeypatch):
    """The names of files read since it was cleared."""
    names, read = [], KeptFile.read
    monkeypatch.setattr(
        KeptFile,
        "read",
        lambda file, **more: names.append(os.path.basename(file.path)) or read(file, **more),
    )
    return names


def copied_job_of_v2(fixtures, node, unreadable, name="job_4"):
    shutil.copytree(fixtures / "cgroup-v2", node.cgroup, dirs_exist_ok=True)
    (directory,) = [each for each in listed(node.cgroup, unreadable) if each.path.endswith(f"/{name}")]
    group = Path(directory.groups["unified"])
    for limit in ("memory.swap.max", "memory.high"):
        (group / limit).write_text("max\n")
    # The samples at which all is read in any case begin with this one.
    return replace(directory, inodes={"unified": STILL_SAMPLES}), group


def runs_on(group, look):
    (group / "cpu.stat").write_text(f"usage_usec {look}\nuser_usec {look}\nsystem_usec 0\n")


ALWAYS = {"cpu.stat", "memory.stat", "memory.current"}


IN_TURN = {"memory.events", "memory.peak", "memory.swap.current", "io.stat"}


RARELY = {"memory.max", "memory.swap.max", "memory.high", "cpuset.cpus.effective"}


PRESSURES = {f"{each}.pressure" for each in ("cpu", "memory", "io")}


def test_a_job_of_v2_that_has_run_is_read_in_five_files_on_the_busiest_node(
    fixtures, node, budget, unreadable, reads
):
    directory, group = copied_job_of_v2(fixtures, node, unreadable)
    signs = NodeSigns()
    job = JobCgroup(directory, budget, unreadable)
    looks = []
    for look in range(4 * RARELY_SAMPLES):
        runs_on(group, look)
        signs = signs.advance(busy(look))
        reads.clear()
        job.read(signs)
        looks.append(list(reads))
    looks = looks[1:]  # the first reads all
    assert sum(bool(RARELY.intersection(each)) for each in looks) == 4  # they are read at every eighth
    looks = [[name for name in each if name not in RARELY] for each in looks]
    assert {len(each) for each in looks} == {5}
    assert all(set(each) >= ALWAYS for each in looks)
    for name in IN_TURN | PRESSURES:
        at = [number for number, each in enumerate(looks) if name in each]
        assert max(later - earlier for earlier, later in pairwise(at)) <= 4, name


def test_on_a_calm_node_a_job_of_v2_that_has_run_is_read_in_five_files_each_of_them_up_to_date(
    fixtures, node, budget, unreadable, reads
):
    directory, group = copied_job_of_v2(fixtures, node, unreadable)
    signs = NodeSigns()
    job = JobCgroup(directory, budget, unreadable)
    calm = busy(0)
    signs = signs.advance(calm)
    for look in range(1, RARELY_SAMPLES):
        runs_on(group, look)
        signs = signs.advance(calm)
        reads.clear()
        job.read(signs)
    assert sorted(reads) == sorted(ALWAYS | {"memory.events", "memory.peak"})


def test_what_a_job_of_v2_did_before_it_fell_asleep_is_read_at_its_next_samples(
    fixtures, node, budget, unreadable, reads
):
    directory, group = copied_job_of_v2(fixtures, node, unreadable)
    signs = NodeSigns()
    job = JobCgroup(directory, budget, unreadable)
    for look in range(3):
        runs_on(group, look)
        signs = signs.advance(busy(look))
        job.read(signs)
    (group / "memory.peak").write_text("99999999999\n")
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 77\noom 0\noom_kill 0\n")
    (group / "io.stat").write_text("8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n")
    (group / "cpu.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=4242\n")
    runs_on(group, 3)
    signs = signs.advance(busy(3))
    found, looks = job.read(signs), 1
    while not job.sample_if_unchanged(cpu=True):
        signs = signs.advance(busy(100 + looks))  # others on the node go on
        found, looks = job.read(signs), looks + 1
    assert looks <= 4
    assert found.memory.peak == 99999999999
    assert found.counters["limit_hits"] == {"": (77,)}
    assert found.counters["block_io"] == {"8:0": (1, 2, 3, 4)}
    assert found.counters["cpu", "some"] == {"": (4242,)}
    for _ in range(3):
        reads.clear()
        assert job.sample_if_unchanged(cpu=True)
        assert set(reads) <= {"cpu.stat", "memory.current", "io.stat"} | RARELY


def test_a_file_that_vanishes_from_a_job_of_v2_keeps_its_last_value_until_its_turn_and_then_has_none(
    fixtures, node, budget, unreadable, monkeypatch
):
    # A kept descriptor of a plain file outlives it; one of the kernel's does not.
    monkeypatch.setattr(DescriptorBudget, "take", lambda *_: False)
    directory, group = copied_job_of_v2(fixtures, node, unreadable)
    job, signs, told = JobCgroup(directory, budget, unreadable), NodeSigns(), []
    (group / "cpu.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    for look in range(8):
        runs_on(group, look)
        signs = signs.advance(busy(look))
        told.append(job.read(signs).counters.get(("cpu", "some")))
        if not look:
            (group / "cpu.pressure").unlink()
    assert told[0] == {"": (0,)}
    assert told[4:] == [None] * 4


def test_an_oom_kill_on_v2_is_read_at_the_sample_at_which_the_node_has_counted_it(
    fixtures, node, budget, unreadable
):
    directory, group = copied_job_of_v2(fixtures, node, unreadable)
    signs = NodeSigns()
    job = JobCgroup(directory, budget, unreadable)
    for look in range(1, 20):
        runs_on(group, look)
        (group / "memory.events").write_text(f"low 0\nhigh 0\nmax 0\noom {look}\noom_kill {look}\n")
        signs = signs.advance(busy(look, oom_kills=look))
        assert job.read(signs).counters["oom_kills"] == {"": (look,)}


def test_the_peak_of_v2_is_never_below_charged_memory(fixtures, node, budget, unreadable):
    directory, group = copied_job_of_v2(fixtures, node, unreadable)
    signs = NodeSigns()
    job = JobCgroup(directory, budget, unreadable)
    for look in range(1, 12):
        runs_on(group, look)
        for name in ("memory.current", "memory.peak"):
            (group / name).write_text(f"{look * 10**12}\n")
        signs = signs.advance(busy(look))
        assert job.read(signs).memory.peak == look * 10**12
