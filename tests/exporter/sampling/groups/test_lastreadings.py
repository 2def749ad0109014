"""The last word on a job's groups: read when its first process has ended, kept until a look takes it."""

import contextlib
import os
import re
import threading
from pathlib import Path

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures.system import filelimit
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling import descriptors
from jobfeatures_exporter.sampling.groups import lastreadings
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.lastreadings import LastReadings, most_waited_for, read_figures
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from tests.running import started, until

PIDFD = re.compile(r"^Pid:\t(\d+)$", re.MULTILINE)
JOB = Membership(batch_system="slurm", job_id="7")


def directory(path="/slurm/uid_1/job_7", inode=5, top="/sys/fs/cgroup/memory"):
    return JobDirectory(path=path, membership=JOB, groups={"memory": top + path}, inodes={"cpuacct": inode})


def figures(peak, **kills):
    counters = {"oom_kills": {name: (count,) for name, count in kills.items()}}
    return GroupFigures(memory=MemoryBytes(anon=1, peak=peak), counters=counters)


@contextlib.contextmanager
def running(words):
    """Let the thread run; it ends behind a whole round."""
    thread = threading.Thread(target=words.run, daemon=True)
    thread.start()
    try:
        yield words
    finally:
        words.stop()
        thread.join(60)
    assert not thread.is_alive()


def waited_for():
    """Return the processes that this one holds descriptors of, see pidfd_open(2)."""
    found = set()
    for each in os.listdir("/proc/self/fdinfo"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.update(map(int, PIDFD.findall(Path(f"/proc/self/fdinfo/{each}").read_text())))
    return found


@pytest.fixture
def rounds(monkeypatch):
    """Return a list that grows at every round of a thread."""
    made = []
    monkeypatch.setattr(
        lastreadings, "most_waited_for", lambda: (made.append(1), lastreadings.MAX_WAITED_FOR)[1]
    )
    return made


def test_the_groups_of_a_job_are_read_when_its_first_process_has_ended():
    read = []

    def read_all(each):
        read.append(each.path)
        return figures(9)

    words = LastReadings(read_all)
    first, other = directory(), directory("/slurm/uid_1/job_8", 6)
    with started(["sleep", "1000"]) as one, started(["sleep", "1000"]) as two, running(words):
        words.follow([first, other], {one.pid: [first], two.pid: [other]})
        until(lambda: waited_for() == {one.pid, two.pid})
        assert words.take() == {}
        one.kill()
        heard = until(words.take)
        assert list(heard) == [first.unique_name]
        until(lambda: waited_for() == {two.pid})
        assert words.take() == {}  # though nobody has waited for it: it is read once
        assert set(read) == {first.path}
        words.follow([other], {two.pid: [other], os.getpid(): [other]})
        until(lambda: waited_for() == {two.pid, os.getpid()})
        words.follow([first], {one.pid: [first]})  # its number may be that of another process by now
        assert list(until(words.take)) == [first.unique_name]


def test_the_groups_are_read_if_the_process_has_ended_before_it_could_be_waited_for(rounds):
    words = LastReadings(lambda _: figures(9))
    with started(["sleep", "1000"]) as child, running(words):
        child.kill()
        child.wait()
        words.follow([directory()], {child.pid: [directory()]})
        assert list(until(words.take)) == [directory().unique_name]
        before = len(rounds)
        words.follow([directory()], {child.pid: [directory()]})
        until(lambda: len(rounds) > before)
    assert words.take() == {}  # it is read once


def test_what_is_read_later_is_no_lower_and_keeps_what_has_gone():
    told = [figures(7, task_0=1), figures(5, task_1=2), GroupFigures(memory=MemoryBytes())]
    words = LastReadings(lambda _: told.pop(0))
    each = directory()
    words.follow([each], {})
    for _ in range(3):
        words.note(each.groups["memory"])
    [heard] = words.take().values()
    assert heard.memory.peak == 7
    assert heard.counters == {"oom_kills": {"task_0": (1,), "task_1": (2,)}}
    words.note("/sys/fs/cgroup/memory/elsewhere")
    assert words.take() == {}
    words.close()


def test_a_reading_that_fails_is_told_and_ends_nothing(caplog):
    def fail(_):
        raise RuntimeError("ours")

    words = LastReadings(fail)
    words.follow([directory()], {})
    words.note(directory().groups["memory"])
    assert words.take() == {}
    assert "unexpected error in reading a job's last figures" in caplog.text
    words.close()


def test_a_reading_keeps_no_descriptor(node, open_descriptors):
    node.job_v1("slurm_n1/uid_1/job_7", usage_secs=2.0, user=150, system=50, memory=77)
    group = directory("/slurm_n1/uid_1/job_7", top=str(node.cgroup / "memory"))
    before = open_descriptors()
    assert read_figures(group).memory.peak == 77
    assert open_descriptors() == before


def test_descriptors_are_given_back_and_no_more_than_a_few_are_taken(rounds, monkeypatch, open_descriptors):
    monkeypatch.setattr(lastreadings, "MAX_WAITED_FOR", 1)
    before = open_descriptors()
    words = LastReadings(lambda _: figures(1))
    with started(["sleep", "1000"]) as child:
        wanted = {child.pid: [directory()], os.getpid(): [directory()], 2**22 + 1: [directory()]}
        with running(words):
            for number in (1, 2):
                words.follow([], wanted)
                until(lambda: len(rounds) >= number)  # noqa: B023
            until(waited_for)
            assert len(waited_for()) == 1
        words.stop()
        assert open_descriptors() == before


def test_a_kernel_without_such_descriptors_is_told_of_once(rounds, monkeypatch, caplog):
    def fail(_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", fail)
    words = LastReadings(lambda _: figures(1))
    with running(words):
        for number in range(1, 4):
            words.follow([], {1: [directory()], 2: [directory()]})
            until(lambda: len(rounds) >= number)  # noqa: B023
    assert caplog.text.count("cannot wait for the end of processes") == 1


@pytest.mark.parametrize("soft", [64, 256, 700, 1024, 1500, 20_000, 524_288])
def test_waiting_for_ends_and_keeping_files_together_leave_descriptors_to_listeners(monkeypatch, soft):
    monkeypatch.setattr(filelimit.resource, "getrlimit", lambda _: (soft, soft))
    budget = descriptors.DescriptorBudget()
    kept = 0
    while budget.take():
        kept += 1
    assert soft - kept - most_waited_for() >= min(256, soft // 4)
    assert most_waited_for() > 0
