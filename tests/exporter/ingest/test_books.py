from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.sonar.documents import iterate_documents
from jobfeatures_exporter.ingest.books import Counts, ForeignJobCounters
from jobfeatures_exporter.ingest.contents import ProcessRecord
from jobfeatures_exporter.ingest.parse import parse_envelope


def record(pid, cpu, ppid=1, command="a", count=1):
    return ProcessRecord(
        pid=pid, ppid=ppid, command=command, count=count, cpu_secs=cpu, resident_bytes=0,
        threads=None, data_read_bytes=2 * cpu, data_written_bytes=0, data_cancelled_bytes=0,
    )  # fmt: skip


def seconds(*looks):
    """Return a job's CPU seconds after each look at its processes."""
    book, found = ForeignJobCounters(), []
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
        "one that ends among those that are rolled up is not counted twice",
        [[record(2**22 + 1, 10, count=3)], [record(2**22 + 1, 7, count=2)], [record(2**22 + 1, 9, count=2)]],
        [10, 10, 12],
    ),
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
    book = ForeignJobCounters()
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
    book, before = ForeignJobCounters(), Counts()
    for now, look in enumerate(looks):
        book.update(look, now)
        assert all(mine >= theirs for mine, theirs in zip(book.total, before, strict=True))
        before = book.total


# --- against a machine on which the truth is known ---------------------------------


class Tree:
    """Processes of one job that fork, work, end and are waited for, or not; `used` is what all of them used."""

    def __init__(self) -> None:
        self.processes = {10: [1, "a", 0, 0]}  # pid: parent, command, own seconds, of children waited for
        self.zombies: dict[int, list] = {}
        self.next_pid, self.used, self.ended = 11, 0, 0

    def work(self, pid, secs):
        self.processes[pid][2] += secs
        self.used += secs

    def fork(self, pid, command):
        self.processes[self.next_pid] = [pid, command, 0, 0]
        self.next_pid += 1

    def end(self, pid, fate):
        parent, command, own, waited = gone = self.processes.pop(pid)
        self.ended += own + waited
        for each in (*self.processes.values(), *self.zombies.values()):
            if each[0] == pid:
                each[0] = 1
        if parent in self.processes and fate == "waited for":
            self.processes[parent][3] += own + waited
        elif parent in self.processes and fate == "zombie":
            self.zombies[pid] = [parent, command + " <defunct>", *gone[2:]]

    def reap(self, pid):
        parent, _, own, waited = self.zombies.pop(pid)
        if parent in self.processes:
            self.processes[parent][3] += own + waited

    def look(self, *, rolled, hidden):
        everybody = {**self.processes, **({} if hidden else self.zombies)}
        parents = {each[0] for each in everybody.values()}
        found, groups = [], {}
        for pid, (parent, command, own, waited) in everybody.items():
            if not rolled or pid in parents:
                found.append(record(pid, own + waited, parent, command))
            else:
                groups.setdefault((parent, command), []).append(own + waited)
        for number, ((parent, command), used) in enumerate(sorted(groups.items())):
            pid = 2**22 + 1 + number if len(used) > 1 else 0
            found.append(record(pid, sum(used), parent, command, len(used)))
        return found


@pytest.mark.parametrize("rolled", [False, True], ids=["each by itself", "rolled up"])
@given(data=st.data())
def test_never_more_is_counted_than_was_used_and_no_less_than_what_goes_on(data, rolled):
    tree, book, hidden = Tree(), ForeignJobCounters(), data.draw(st.booleans())
    for now in range(data.draw(st.integers(2, 8))):
        for _ in range(data.draw(st.integers(0, 5))):
            if not tree.processes:
                break
            pid = data.draw(st.sampled_from(sorted(tree.processes)))
            match data.draw(st.sampled_from(["work", "work", "fork", "end", "reap"])):
                case "work":
                    tree.work(pid, data.draw(st.integers(1, 9)))
                case "fork":
                    tree.fork(pid, data.draw(st.sampled_from("ab")))
                case "end":
                    tree.end(pid, data.draw(st.sampled_from(["waited for", "zombie", "forgotten"])))
                case "reap" if tree.zombies:
                    tree.reap(min(tree.zombies))
        book.update(tree.look(rolled=rolled, hidden=hidden), now)
        assert book.total.cpu_secs <= tree.used
        assert book.total.cpu_secs >= tree.used - tree.ended


@pytest.mark.skipif(
    "JOBFEATURES_DATA" not in os.environ, reason="JOBFEATURES_DATA names no folder of captures"
)
def test_a_capture_of_a_real_agent_gives_what_its_processes_truly_used():
    text = (Path(os.environ["JOBFEATURES_DATA"]) / "sonar/rollup-0.19/sample.json").read_text()
    book = ForeignJobCounters()
    for now, document in enumerate(iterate_documents(text)):
        for job in parse_envelope(document.value).jobs:
            book.update(job.processes, now)
    assert book.total.cpu_secs == 19  # 19.3 by the parent's getrusage; documents have whole seconds
