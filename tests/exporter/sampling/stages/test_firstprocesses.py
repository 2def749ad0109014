"""Which processes' ends are waited for as those of jobs."""

from types import SimpleNamespace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.groups.cgroup import GroupList
from jobfeatures_exporter.sampling.stages.firstprocesses import AGAIN_LOOKS, FirstProcesses
from jobfeatures_exporter.sampling.stages.values import Attributed, Listed, ProcessesRead

KEY = JobKey("slurm", "7")
DIRECTORY = SimpleNamespace(cpu_source="/a")


def process(pid, ppid):
    return SimpleNamespace(pid=pid, ppid=ppid, command="a", state="S")


PROCESSES = {1: process(1, 0), 41: process(41, 1), 42: process(42, 41)}


class Told(list):
    def follow(self, directories, by_pid):
        self.append((directories, by_pid))


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def follow(told):
    first = FirstProcesses(told)

    def follow(pids, *, have_changed=False, are_all=True):
        members = {KEY: [PROCESSES[pid] for pid in pids]} if pids else {}
        found = Attributed(
            dict.fromkeys(pids, KEY), {"/a": KEY}, {KEY: [SimpleNamespace(directory=DIRECTORY)]}, members
        )
        groups = GroupList(have_changed=have_changed)
        first.follow(Listed(groups, {}, {}), ProcessesRead(PROCESSES, are_all=are_all), found)

    return follow


def test_of_a_jobs_processes_that_is_waited_for_whose_parent_is_outside(follow, told):
    follow([41, 42])
    assert told == [([DIRECTORY], {41: [DIRECTORY]})]


def test_what_has_not_changed_is_not_told_again(follow, told):
    for _ in range(2 * AGAIN_LOOKS):
        follow([41, 42])
    assert len(told) == 1
    follow([42])  # its parent has ended
    assert told[1:] == [([DIRECTORY], {42: [DIRECTORY]})]


def test_groups_are_told_as_soon_as_they_change_and_what_was_not_read_stays_as_it_was(follow, told):
    follow([41, 42])
    follow([], have_changed=True, are_all=False)
    assert told[1] == ([DIRECTORY], {41: [DIRECTORY]})
    follow([], are_all=False)
    assert len(told) == 2
