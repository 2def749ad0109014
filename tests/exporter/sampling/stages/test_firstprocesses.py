"""Which processes' ends are waited for as those of jobs."""

from types import SimpleNamespace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.layout.jobdirectory import GroupList
from jobfeatures_exporter.sampling.stages.firstprocesses import AGAIN_SAMPLES, FirstProcesses
from jobfeatures_exporter.sampling.stages.values import Attributed, ListedGroups, ProcessesRead

KEY = JobKey("slurm", "7")
DIRECTORY = SimpleNamespace(unique_name="/a")


def process(pid, ppid):
    return SimpleNamespace(pid=pid, ppid=ppid, command="a", state="S")


PROCESSES = {1: process(1, 0), 41: process(41, 1), 42: process(42, 41)}


@pytest.fixture
def find():
    """Return a function that looks for what is to be waited for after one more sample."""
    first = FirstProcesses()

    def find(pids, *, have_changed=False, are_all=True):
        members = {KEY: [PROCESSES[pid] for pid in pids]} if pids else {}
        found = Attributed(dict.fromkeys(pids, KEY), {"/a": KEY}, {KEY: [DIRECTORY]}, members)
        groups = GroupList(have_changed=have_changed)
        return first.find(ListedGroups(groups, {}, {}), ProcessesRead(PROCESSES, are_all=are_all), found)

    return find


def test_of_a_jobs_processes_that_is_waited_for_whose_parent_is_outside(find):
    assert find([41, 42]) == ([DIRECTORY], {41: [DIRECTORY]})


def test_what_has_not_changed_is_not_told_again(find):
    assert [find([41, 42]) is None for _ in range(2 * AGAIN_SAMPLES)].count(False) == 1
    assert find([42]) == ([DIRECTORY], {42: [DIRECTORY]})  # its parent has ended


def test_groups_are_told_as_soon_as_they_change_and_what_was_not_read_stays_as_it_was(find):
    find([41, 42])
    assert find([], have_changed=True, are_all=False) == ([DIRECTORY], {41: [DIRECTORY]})
    assert find([], are_all=False) is None
