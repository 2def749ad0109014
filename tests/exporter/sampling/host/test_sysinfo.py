"""How the node is made, from constructed trees and from this machine."""

import os
import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import CommandError, ParseError
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.host import sysinfo
from jobfeatures_exporter.sampling.host.sysinfo import (
    CpuLayout,
    Processor,
    compute_layout,
    parse_cpuinfo_layout,
    parse_distances,
    read_layout,
    read_numa_distances,
    read_sysinfo,
    read_topology,
)

# Constructed: two sockets of two cores of two threads, as x86 tells it.
CPUINFO = "\n\n".join(
    f"processor\t: {number}\nmodel name\t: Made Up 9000\nphysical id\t: {number // 2 % 2}\n"
    f"siblings\t: 4\ncore id\t\t: {number % 2 * 4}\ncpu cores\t: 2"
    for number in range(8)
)


@pytest.fixture
def tree(tmp_path):
    """Return a function that writes files below a folder, given by path."""

    def write(**files):
        for path, text in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return str(tmp_path)

    write.path = tmp_path
    return write


def processors(tree, rows):
    for number, (package, siblings) in enumerate(rows):
        folder = f"devices/system/cpu/cpu{number}/topology"
        tree(**{f"{folder}/physical_package_id": f"{package}\n", f"{folder}/thread_siblings_list": siblings})


def test_sockets_cores_and_threads_are_counted():
    found = [Processor(package, core) for package in (0, 1) for core in (0, 4, 5) for _ in (0, 1)]
    assert compute_layout(found) == CpuLayout(2, 3, 2, 6)


def test_the_largest_socket_and_core_count_where_some_are_offline():
    found = [Processor(0, 0), Processor(0, 0), Processor(0, 1), Processor(1, 0)]
    assert compute_layout(found) == CpuLayout(2, 2, 2, 3)


def test_no_processors_have_no_layout():
    assert compute_layout([]) is None


def test_cpuinfo_tells_the_layout():
    assert parse_cpuinfo_layout(CPUINFO) == CpuLayout(2, 2, 2, 4)


def test_cpuinfo_of_arm_tells_no_sockets():
    with pytest.raises(ParseError, match="physical id"):
        parse_cpuinfo_layout("processor\t: 0\nBogoMIPS\t: 50.00\nCPU architecture: 8\n")


def test_sysfs_comes_first_and_passes_over_what_is_offline(tree):
    processors(tree, [(0, "0-1"), (0, "0-1"), (0, "2-3"), (0, "2-3")])
    (tree.path / "devices/system/cpu/cpu4").mkdir()
    (tree.path / "devices/system/cpu/cpufreq").mkdir()
    unreadable = Unreadable()
    assert read_layout("/no/proc", str(tree.path), unreadable) == CpuLayout(1, 2, 2, 2)
    assert unreadable.counts == {}


def test_a_machine_that_does_not_know_its_package_has_one(tree):
    processors(tree, [(-1, "0"), (-1, "1")])
    assert read_layout("/no/proc", str(tree.path), Unreadable()) == CpuLayout(1, 2, 1, 2)


def test_cpuinfo_is_asked_where_sysfs_is_broken(tree):
    processors(tree, [("many", "0")])
    tree(cpuinfo=CPUINFO)
    unreadable = Unreadable()
    assert read_layout(str(tree.path), str(tree.path), unreadable) == CpuLayout(2, 2, 2, 4)
    assert unreadable.counts == {"cpu_topology_garbage": 1}


def test_what_neither_tells_is_unknown(tmp_path):
    assert read_layout(str(tmp_path), str(tmp_path), Unreadable()) is None


def test_distances_are_a_square():
    assert parse_distances(["10 21\n", "21 10\n"]) == ((10, 21), (21, 10))
    with pytest.raises(ParseError, match="number of distances"):
        parse_distances(["10 21", "21"])
    with pytest.raises(ParseError):
        parse_distances(["ten"])


def test_numa_nodes_are_read_in_the_order_of_their_numbers(tree):
    rows = {2: "20 10 40", 10: "30 40 10", 0: "10 20 30"}
    tree(**{f"devices/system/node/node{number}/distance": row for number, row in rows.items()})
    assert read_numa_distances(str(tree.path), Unreadable()) == ((10, 20, 30), (20, 10, 40), (30, 40, 10))


def test_a_kernel_without_numa_has_no_distances(tmp_path):
    unreadable = Unreadable()
    assert read_numa_distances(str(tmp_path), unreadable) == ()
    assert unreadable.counts == {}


@given(st.text(max_size=300))
def test_no_text_breaks_the_parsers(text):
    for parse in (parse_cpuinfo_layout, lambda given: parse_distances([given, given])):
        try:
            parse(text)
        except ParseError:
            pass


def test_a_node_of_which_nothing_can_be_read_is_known_by_its_kernel_alone(tmp_path):
    found = read_sysinfo(procfs=str(tmp_path), sysfs=str(tmp_path), now_secs=5.0, unreadable=Unreadable())
    assert (found.sockets, found.memory_bytes, found.cpu_model, found.numa_distances) == (None, None, "", ())
    assert (found.os_name, found.architecture) == (os.uname().sysname, os.uname().machine)


def test_this_machine_tells_as_many_processors_as_are_online():
    found = read_sysinfo(procfs="/proc", sysfs="/sys", now_secs=5.0, unreadable=Unreadable())
    assert found.memory_bytes > 2**24
    if found.sockets is None:
        pytest.skip("neither /sys nor /proc/cpuinfo of this machine tells its sockets")
    assert found.sockets * found.cores_per_socket * found.threads_per_core >= os.sysconf(
        "SC_NPROCESSORS_ONLN"
    )


# --- hwloc --------------------------------------------------------------------


@pytest.fixture
def lstopo(tmp_path, monkeypatch):
    """Return a function that puts a script in the place of lstopo."""

    def put(script):
        program = tmp_path / "lstopo-stand-in"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sysinfo, "LSTOPO", ("no-such-program", str(program)))

    return put


def test_pictures_are_asked_for_by_their_form(lstopo):
    lstopo('echo "$@"')
    assert read_topology(sysinfo.SVG) == "--of svg -\n"
    assert read_topology(sysinfo.TEXT) == "--of console -\n"


def test_without_hwloc_there_is_no_picture(monkeypatch):
    monkeypatch.setattr(sysinfo, "LSTOPO", ("no-such-program",))
    assert read_topology(sysinfo.TEXT) == ""


@pytest.mark.parametrize(
    ("script", "kind", "counted"),
    [
        ("exit 3", "failed", "topology_eio"),
        ("sleep 60", "timeout", "topology_etimedout"),
        ("while :; do echo too much of a node; done", "too large", "topology_efbig"),
    ],
)
def test_a_picture_that_fails_hangs_or_is_too_large_costs_only_itself(
    lstopo, script, kind, counted, monkeypatch
):
    lstopo(script)
    monkeypatch.setattr(sysinfo, "LSTOPO_TIMEOUT_SECS", 0.3 if kind == "timeout" else 20.0)
    with pytest.raises(CommandError) as raised:
        read_topology(sysinfo.TEXT)
    assert raised.value.kind == kind
    unreadable = Unreadable()
    found = read_sysinfo(
        procfs="/proc", sysfs="/sys", now_secs=5.0, unreadable=unreadable, topology=[sysinfo.TEXT]
    )
    assert found.topology_text == ""
    assert found.memory_bytes is not None
    assert unreadable.counts[counted] == 1


@pytest.mark.skipif(shutil.which("lstopo-no-graphics") is None, reason="hwloc is not installed")
def test_the_real_hwloc_draws_this_machine():
    assert re.match(r"<\?xml .*<svg ", read_topology(sysinfo.SVG), re.DOTALL)
    assert read_topology(sysinfo.TEXT).startswith("Machine")
