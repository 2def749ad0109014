import errno

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.publish.site import read_cores
from jobfeatures_exporter.model.snapshot import CpuSecs
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.host.disks import Disks
from jobfeatures_exporter.sampling.host.procfs import (
    parse_entities,
    parse_loadavg,
    parse_meminfo,
    parse_oom_kills,
    parse_stat,
    read_node,
)

STAT = "cpu  {0}\ncpu3 {0}\nbtime 7\n".format("100 1 50 1000 5 2 3 4 9 9")


def test_a_captured_node_is_read(fixtures):
    unreadable = Unreadable()
    node = read_node(str(fixtures / "proc"), unreadable)
    assert unreadable.counts == {}
    assert node.boot_time_secs == 1795247965
    assert node.cpu == CpuSecs(91.61, 0.0, 46.85, 6434.95, 5.73, 0.0, 1.28, 0.12)
    assert list(node.cores) == [0, 1]
    assert node.memory_bytes["MemTotal"] == 24684084 * 1024
    assert "HugePages_Total" not in node.memory_bytes  # a count, not bytes
    assert (node.load1, node.load5, node.load15) == (0.35, 0.12, 0.03)


def test_guest_times_are_not_added():
    stat = parse_stat(STAT, ticks_per_sec=100)
    assert stat.cpu == stat.cores[3] == CpuSecs(1.0, 0.01, 0.5, 10.0, 0.05, 0.02, 0.03, 0.04)


@pytest.mark.parametrize(
    "text", ["", "garbage", "cpu 1 2 3", "cpu 1 2 3 4 5 6 7 x", "btime", "btime -1", "cpu0 " + "9" * 30]
)
def test_garbage_for_stat_is_an_error(text):
    with pytest.raises(ParseError):
        parse_stat(text)


def test_an_error_names_the_line_and_the_text():
    with pytest.raises(ParseError, match=r"^/proc/stat:2:cpu0: .*'minus'$"):
        parse_stat("cpu  1 2 3 4 5 6 7 8\ncpu0 1 minus 3 4 5 6 7 8\n", source="/proc/stat")


@pytest.mark.parametrize(
    "text", ["", "MemTotal 12 kB", "MemTotal: -1 kB", "HugePages_Total: 3", "MemTotal: 1 MB"]
)
def test_garbage_for_meminfo_is_an_error(text):
    with pytest.raises(ParseError):
        parse_meminfo(text)


@pytest.mark.parametrize("text", ["", "1 2 3", "nan 0.1 0.1", "0.1 0.2", "-0.10 0.10 0.10"])
def test_garbage_for_loadavg_is_an_error(text):
    with pytest.raises(ParseError):
        parse_loadavg(text)


@given(st.text() | st.text(alphabet="cpu btime0123456789:\n kBMemTotal.-", max_size=200))
def test_any_text_gives_a_record_or_the_error(text):
    for parse in (parse_stat, parse_meminfo, parse_loadavg, parse_entities):
        try:
            parse(text)
        except ParseError:
            pass


def test_what_is_missing_is_none_and_what_is_broken_is_counted_too(node):
    (node.proc / "meminfo").write_text("nothing of the kind\n")
    (node.proc / "loadavg").unlink()
    unreadable = Unreadable()
    sample = read_node(str(node.proc), unreadable)
    assert sample.memory_bytes == {}
    assert sample.load1 is None
    assert sample.cpu is not None
    assert unreadable.counts == {"node_meminfo_garbage": 1}


def test_threads_that_run_and_that_there_are_stand_with_the_load(node):
    sample = read_node(str(node.proc), Unreadable())
    assert (sample.runnable_entities, sample.existing_entities) == (3, 136)
    for text in ("0.1 0.1 0.1", "0.1 0.1 0.1 7 1", "0.1 0.1 0.1 -1/2 1"):
        with pytest.raises(ParseError):
            parse_entities(text)


def test_pressure_is_told_in_seconds_where_the_kernel_has_it(node):
    unreadable = Unreadable()
    assert read_node(str(node.proc), unreadable).pressure_secs == {}
    (node.proc / "pressure").mkdir()
    for number, resource in enumerate(("cpu", "memory", "io"), 1):
        (node.proc / "pressure" / resource).write_text(
            f"some avg10=0.00 avg60=0.00 avg300=0.00 total={number}500000\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        )
    # All tasks of a node cannot wait for its CPUs: the kernel's zero is none of a measurement.
    assert read_node(str(node.proc), unreadable).pressure_secs == {
        ("cpu", "some"): 1.5,
        ("memory", "some"): 2.5,
        ("memory", "full"): 0.0,
        ("io", "some"): 3.5,
        ("io", "full"): 0.0,
    }
    (node.proc / "pressure" / "io").write_text("full of nonsense\n")
    assert ("io", "some") not in read_node(str(node.proc), unreadable).pressure_secs
    assert unreadable.counts == {"node_pressure_io_garbage": 1}


def test_a_kernel_that_was_started_without_pressure_is_no_failure(node, fail_opening):
    (node.proc / "pressure").mkdir()
    (node.proc / "pressure" / "cpu").write_text("")
    fail_opening("pressure/cpu", errno.EOPNOTSUPP)
    unreadable = Unreadable()
    assert read_node(str(node.proc), unreadable).pressure_secs == {}
    assert unreadable.counts == {}


def test_kills_for_want_of_memory_are_counted_where_the_kernel_does():
    assert parse_oom_kills("pgfault 5\noom_kill 7\nnuma_pte_updates 0\n") == 7
    assert parse_oom_kills("pgfault 5\nxoom_kill 7\noom_kill x\n") is None


@given(st.text())
def test_any_text_has_kills_or_none(text):
    assert (parse_oom_kills(text) or 0) >= 0


def figures_of_psutil():
    """Return what psutil says of this node, by the names of NodeSample's fields."""
    cpu, memory = psutil.cpu_times(), psutil.virtual_memory()
    return {
        **{f"cpu.{name}": getattr(cpu, name) for name in CpuSecs._fields},
        "boot_time_secs": psutil.boot_time(),
        "MemTotal": memory.total,
        **{
            f"bytes read: {name}": each.read_bytes
            for name, each in psutil.disk_io_counters(perdisk=True).items()
        },
    }


def test_a_node_has_what_psutil_says_of_it():
    """Counters run on: ours lie between psutil's before and after. Memory in use is not held against it, as its
    "available" is its own estimate on old kernels and in containers."""
    unreadable = Unreadable()
    before = figures_of_psutil()
    node = read_node("/proc", unreadable, Disks("/proc", "/sys", unreadable).read())
    after = figures_of_psutil()
    ours = {
        **{f"cpu.{name}": value for name, value in node.cpu._asdict().items()},
        "boot_time_secs": node.boot_time_secs,
        "MemTotal": node.memory_bytes["MemTotal"],
        **{f"bytes read: {name}": each.stats[2] * 512 for name, each in node.disks.items()},
    }
    names = [name for name in before if before[name] <= after[name]]  # idle and iowait may fall: proc_stat(5)
    assert len(names) > 8
    assert [name for name in names if not before[name] <= ours[name] <= after[name]] == []
    assert (psutil.cpu_count(logical=False), psutil.cpu_count()) == read_cores()
