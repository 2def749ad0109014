import errno
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import ProcessIo
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.processes.processio import FAILED_READ_AGAIN, READ_AGAIN, ProcessIoBook
from jobfeatures_exporter.sampling.processes.scan import parse_process_stat

JOB = JobKey("slurm", "1")
OTHER = JobKey("slurm", "2")


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def budget():
    return DescriptorBudget()


@pytest.fixture
def book(node, budget, unreadable):
    book = ProcessIoBook(str(node.proc), budget, unreadable)
    yield book
    book.close()


def process(node, pid, *, read=0, written=0, **stat):
    """Start a process or let it change; return its sample."""
    path = node.process(pid, **stat)
    (path / "io").write_text(
        f"rchar: {read}\nwchar: {written}\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 0\n"
        "cancelled_write_bytes: 0\n"
    )
    return parse_process_stat((path / "stat").read_bytes())


def read_of(told, key=JOB):
    return told[key].read_bytes if key in told else None


def test_processes_of_a_job_are_summed_by_job(node, book):
    first, second = process(node, 10, read=5, written=1), process(node, 11, read=7)
    other = process(node, 12, read=100)
    assert book.update({JOB: [first, second], OTHER: [other]}) == {
        JOB: ProcessIo(
            read_bytes=12, written_bytes=1, data_read_bytes=0, data_written_bytes=0, data_cancelled_bytes=0
        ),
        OTHER: ProcessIo(
            read_bytes=100, written_bytes=0, data_read_bytes=0, data_written_bytes=0, data_cancelled_bytes=0
        ),
    }


def test_what_a_child_did_is_not_counted_again_with_its_parent(node, book):
    parent, child = process(node, 10, read=5), process(node, 11, ppid=10, read=100)
    assert read_of(book.update({JOB: [parent, child]})) == 105
    node.end(11)
    parent = process(node, 10, read=5 + 130, user=1)  # it did 30 more before it ended
    assert read_of(book.update({JOB: [parent]})) == 135


def test_a_process_that_sleeps_is_read_now_and_then_only(node, book, monkeypatch):
    sleeper = process(node, 10, read=5)
    book.update({JOB: [sleeper]})
    (node.proc / "10/io").write_text((node.proc / "10/io").read_text().replace("rchar: 5", "rchar: 6"))
    told = [read_of(book.update({JOB: [sleeper]})) for _ in range(READ_AGAIN)]
    assert set(told) == {5, 6}
    assert told == sorted(told)


def test_a_job_that_has_no_process_for_a_while_keeps_what_it_had(node, book):
    book.update({JOB: [process(node, 10, read=5)]})
    node.end(10)
    assert read_of(book.update({JOB: []})) == 5
    assert read_of(book.update({JOB: [process(node, 11, read=3, start=7)]})) == 8
    assert read_of(book.update({JOB: []})) == 8
    assert read_of(book.update({})) is None
    assert read_of(book.update({JOB: []})) is None  # it had ended: nothing is known of another of its name


@pytest.mark.parametrize("failure", [errno.EACCES, errno.EIO, "garbage"])
def test_one_process_that_cannot_be_read_leaves_the_sum_unknown(
    node, book, unreadable, fail_opening, failure
):
    first, second = process(node, 10, read=5), process(node, 11, read=7)
    if failure == "garbage":
        (node.proc / "11/io").write_text("rchar: -1\n")
    else:
        fail_opening("11/io", failure)
    assert book.update({JOB: [first, second]}) == {}
    kind = failure if failure == "garbage" else errno.errorcode[failure].lower()
    assert unreadable.counts == {f"process_io_{kind}": 1}
    if failure != "garbage":
        fail_opening("11/io", None)
    second = process(node, 11, read=9)
    assert read_of(book.update({JOB: [first, second]})) == 14


def test_without_the_right_to_read_processes_they_are_tried_now_and_then_only(
    node, book, unreadable, fail_opening
):
    sleepers = [process(node, pid) for pid in range(100, 100 + READ_AGAIN)]
    fail_opening("/io", errno.EACCES)
    for _ in range(FAILED_READ_AGAIN):
        assert book.update({JOB: sleepers}) == {}
    assert unreadable.counts == {
        "process_io_eacces": READ_AGAIN + READ_AGAIN * (FAILED_READ_AGAIN - 1) // FAILED_READ_AGAIN
    }
    fail_opening("/io", None)
    told = [book.update({JOB: sleepers}) for _ in range(FAILED_READ_AGAIN)]
    assert read_of(told[-1]) == 0


def test_a_process_that_has_vanished_since_it_was_listed_is_no_failure(node, book, unreadable):
    first, second = process(node, 10, read=5), process(node, 11, read=7)
    shutil.rmtree(node.proc / "11")
    assert read_of(book.update({JOB: [first, second]})) == 5
    assert unreadable.counts == {}


def test_descriptors_of_processes_that_have_gone_are_closed(node, book, budget):
    book.update({JOB: [process(node, 10), process(node, 11)]})
    assert budget.open == 2
    book.update({JOB: [process(node, 11)]})
    assert budget.open == 1
    book.close()
    assert budget.open == 0


LOOKS = st.lists(
    st.dictionaries(
        st.integers(10, 13),
        st.tuples(st.integers(0, 2**64 - 1), st.sampled_from(["ok", "EACCES", "garbage", "gone"])),
    ),
    max_size=8,
)


@given(LOOKS)
def test_whatever_is_read_nothing_falls(node, looks):
    book = ProcessIoBook(str(node.proc), DescriptorBudget(0), Unreadable())
    told = 0
    for ticks, look in enumerate(looks):
        members = []
        for pid, (read, how) in look.items():
            members.append(process(node, pid, read=read, ppid=pid - 1, user=ticks))
            if how == "gone":
                node.end(pid)
            elif how != "ok":
                (node.proc / str(pid) / "io").write_text("rchar")
        now = read_of(book.update({JOB: members}))
        if now is not None:
            assert now >= told
            told = now
    book.close()


def sample(pid):
    return parse_process_stat(Path(f"/proc/{pid}/stat").read_bytes())


@pytest.mark.program
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel has no I/O accounting")
def test_the_kernel_adds_a_child_that_was_waited_for_to_its_parent_and_we_do_not_count_it_twice(unreadable):
    size, more = 10_000_000, 200_000  # more than a pipe holds
    command = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['head', '-c', sys.argv[1], '/dev/zero'], stdout=subprocess.PIPE)\n"
        "child.stdout.read(int(sys.argv[2]))\n"
        "print(child.pid, flush=True); sys.stdin.readline()\n"
        "child.stdout.read(); child.wait(); print('waited', flush=True); sys.stdin.readline()\n"
    )
    book = ProcessIoBook("/proc", DescriptorBudget(), unreadable)
    parent = subprocess.Popen(
        [sys.executable, "-S", "-c", command, str(size + more), str(size)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        child = int(parent.stdout.readline())
        # The child waits for the pipe. Of a zombie's counters only root would be told.
        before = book.update({JOB: [sample(parent.pid), sample(child)]})[JOB]
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "waited\n"
        assert not Path(f"/proc/{child}").exists()
        after = book.update({JOB: [sample(parent.pid)]})[JOB]
        alone = int(Path(f"/proc/{parent.pid}/io").read_text().split()[1])
        # Both have read it: the child from the device, the parent from the pipe.
        assert 2 * size <= before.read_bytes <= after.read_bytes < 2 * size + size // 2
        assert alone >= 2 * size  # of the parent, which now has the child's: the kernel did add it
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
        book.close()
    assert unreadable.counts == {}
