"""Open files of processes: of this one, and of a made-up /proc."""

import os
import resource

import pytest

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.processes.openfiles import OpenFileBook, parse_open_limit

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max processes             127393               127393               processes
Max open files            {}                 1048576              files
Max locked memory         8388608              8388608              bytes
"""


def process(pid, start_ticks=7):
    return ProcessSample(
        pid=pid, ppid=1, pgid=pid, session=pid, start_ticks=start_ticks, command="x", state="S", user_ticks=0,
        system_ticks=0, children_user_ticks=0, children_system_ticks=0, threads=1, resident_bytes=0, virtual_bytes=0,
    )  # fmt: skip


def test_this_process_has_as_many_as_it_opens():
    book = OpenFileBook("/proc", Unreadable())
    before = book.update([process(os.getpid())])[os.getpid()]
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(5)]
    after = book.update([process(os.getpid())])[os.getpid()]
    for each in held:
        os.close(each)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert before.limit == (None if soft == resource.RLIM_INFINITY else soft)
    assert after.opened == before.opened + 5


def test_a_limit_is_read_once_for_each_process(tmp_path):
    (tmp_path / "9/fd").mkdir(parents=True)
    for number in range(3):
        (tmp_path / f"9/fd/{number}").touch()
    limits = tmp_path / "9/limits"
    limits.write_text(LIMITS.format(1024))
    book = OpenFileBook(str(tmp_path), Unreadable())
    first = book.update([process(9)])[9]
    limits.write_text(LIMITS.format(4096))
    assert book.update([process(9)])[9] == first
    assert first.limit == 1024
    assert book.update([process(9, start_ticks=8)])[9].limit == 4096


def test_what_cannot_be_read_is_counted_and_what_has_gone_is_not(tmp_path):
    (tmp_path / "9/fd").mkdir(parents=True)
    (tmp_path / "9/limits").write_text("nothing\n")
    unreadable = Unreadable()
    assert OpenFileBook(str(tmp_path), unreadable).update([process(9), process(10)]) == {}
    assert list(unreadable.counts.values()) == [1]


def test_no_limit_is_told_from_a_missing_line():
    assert parse_open_limit(LIMITS.format("unlimited")) is None
    with pytest.raises(ParseError):
        parse_open_limit("Max processes 1 1 processes\n")
