from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.ingest.books import Counts, JobBook
from jobfeatures.formats.sonar.records import ProcessRecord


def record(pid, cpu, ppid=1, command="a", count=1):
    return ProcessRecord(
        pid=pid, ppid=ppid, command=command, count=count, cpu_secs=cpu, resident_bytes=0, virtual_bytes=0,
        threads=None, data_read_bytes=2 * cpu, data_written_bytes=0, data_cancelled_bytes=0,
    )  # fmt: skip


def seconds(*looks):
    """Return a job's CPU seconds after each look at its processes."""
    book, found = JobBook(), []
    for now, look in enumerate(looks):
        book.update(look, now)
        found.append(book.total.cpu_secs)
    return found


LOOKS = [
    ("the first look counts all", [[record(5, 10), record(6, 1)]], [11]),
    ("growth is counted", [[record(5, 10)], [record(5, 14)]], [10, 14]),
    ("a new process counts as a whole", [[record(5, 10)], [record(5, 10), record(6, 3)]], [10, 13]),
    ("a process that is gone is not taken back", [[record(5, 10), record(6, 3)], [record(5, 11)]], [13, 14]),
    ("none are left, and some come again", [[record(5, 10)], [], [record(7, 2)]], [10, 10, 12]),
    (
        "a reaped child is not counted twice",
        [[record(5, 1), record(6, 30, ppid=5)], [record(5, 32)]],
        [31, 32],
    ),
    (
        "nor is a reaped grandchild",
        [[record(5, 1), record(6, 2, ppid=5), record(7, 30, ppid=6)], [record(5, 34)]],
        [33, 34],
    ),
    ("a pid that is used again is a new process", [[record(5, 10)], [record(5, 4)]], [10, 14]),
    ("also where it has used more", [[record(5, 10)], [record(5, 12, ppid=9, command="b")]], [10, 22]),
    ("a process may become another program", [[record(5, 10)], [record(5, 12, command="b")]], [10, 12]),
    ("or an orphan", [[record(5, 10, ppid=4)], [record(5, 12)]], [10, 12]),
    ("what is rolled up grows", [[record(0, 10, count=3)], [record(0, 15, count=4)]], [10, 15]),
    ("and shrinks for nothing", [[record(0, 10, count=3)], [record(0, 4)], [record(0, 6)]], [10, 10, 12]),
    ("rolling up counts nothing again", [[record(5, 10), record(6, 5)], [record(0, 16, count=2)]], [15, 16]),
    ("nor does its end", [[record(0, 16, count=2)], [record(5, 10), record(6, 7)]], [16, 17]),
    (
        "children that were rolled up and reaped are not counted twice",
        [[record(5, 1), record(0, 30, ppid=5, count=3)], [record(5, 31)]],
        [31, 31],
    ),
]


@pytest.mark.parametrize(("looks", "expected"), [each[1:] for each in LOOKS], ids=[each[0] for each in LOOKS])
def test_a_book_counts(looks, expected):
    assert seconds(*looks) == expected


def test_bytes_are_counted_likewise():
    book = JobBook()
    book.update([record(5, 10)], 0)
    book.update([record(5, 12)], 1)
    assert book.total == Counts(12, 24, 0, 0)


RECORDS = st.builds(
    record,
    st.integers(0, 4),
    st.integers(0, 2**64),
    st.integers(0, 4),
    st.sampled_from("ab"),
)


@given(st.lists(st.lists(RECORDS, max_size=6), max_size=6))
def test_no_counter_ever_falls(looks):
    book, before = JobBook(), Counts()
    for now, look in enumerate(looks):
        book.update(look, now)
        assert all(mine >= theirs for mine, theirs in zip(book.total, before, strict=True))
        before = book.total
