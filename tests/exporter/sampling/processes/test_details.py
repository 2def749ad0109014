"""What is read of processes for documents: constructed files, a captured process, and this one."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.processes.details import parse_statm_data, read_detail, read_details
from jobfeatures_exporter.sampling.processes.scan import parse_process_stat

CAPTURED = Path(__file__).parents[3] / "fixtures/proc"


def sample_of(folder):
    return parse_process_stat((folder / "stat").read_bytes())


def test_data_is_the_sixth_field_in_pages():
    assert parse_statm_data("765 443 415 5 0 123 0\n", page_bytes=4096) == 123 * 4096


@pytest.mark.parametrize("text", ["", "1 2 3 4 5", "1 2 3 4 5 -6 7", "1 2 3 4 5 x 7"])
def test_what_is_no_statm_is_refused(text):
    with pytest.raises(ParseError):
        parse_statm_data(text)


@given(st.text(max_size=100))
def test_no_text_breaks_the_parser(text):
    try:
        assert parse_statm_data(text) >= 0
    except ParseError:
        pass


@pytest.fixture
def procfs(tmp_path):
    """Return a tree with one process whose status was constructed, statm and io added."""
    shutil.copytree(CAPTURED / "6663", tmp_path / "6663")
    (tmp_path / "6663/statm").write_text("765 443 415 5 0 123 0\n")
    (tmp_path / "6663/io").write_text(
        "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8193\ncancelled_write_bytes: 7\n"
    )
    return tmp_path


def test_a_process_tells_its_user_memory_data_and_io(procfs):
    unreadable = Unreadable()
    found = read_details(str(procfs), [sample_of(procfs / "6663")], unreadable)[6663]
    assert found.uid == os.geteuid()
    assert found.anon_bytes is not None
    assert found.data_bytes == 123 * os.sysconf("SC_PAGE_SIZE")
    assert (found.io.data_read_bytes, found.io.data_written_bytes) == (4096, 8193)
    assert found.io.data_cancelled_bytes == 7
    assert unreadable.counts == {}


def test_a_user_whom_our_user_namespace_does_not_map_is_unknown(procfs):
    (procfs / "self").mkdir()
    (procfs / "self/uid_map").write_text("0 1000 1\n")
    (procfs / "sys/kernel").mkdir(parents=True)
    (procfs / "sys/kernel/overflowuid").write_text(f"{os.geteuid()}\n")
    assert read_details(str(procfs), [sample_of(procfs / "6663")], Unreadable())[6663].uid is None


@pytest.mark.parametrize(
    ("name", "kind"), [("statm", "process_statm"), ("status", "process_status"), ("io", "process_io")]
)
def test_what_is_garbage_is_unknown_and_counted_and_the_rest_lives(procfs, name, kind):
    (procfs / "6663" / name).write_text("\0garbage\n")
    unreadable = Unreadable()
    found = read_detail(str(procfs), sample_of(procfs / "6663"), unreadable)
    assert unreadable.counts == {f"{kind}_garbage": 1}
    known = {"statm": found.data_bytes, "status": found.anon_bytes, "io": found.io}
    assert known.pop(name) is None
    assert None not in known.values()


def test_a_process_that_has_gone_is_no_failure(tmp_path, procfs):
    unreadable = Unreadable()
    assert read_details(str(tmp_path / "empty"), [sample_of(procfs / "6663")], unreadable) == {}
    assert unreadable.counts == {}


def test_this_process_tells_about_itself():
    process = sample_of(Path("/proc/self"))
    found = read_detail("/proc", process, Unreadable())
    assert found.uid == os.geteuid()
    assert found.anon_bytes > 2**20
    assert found.data_bytes > found.anon_bytes / 2
