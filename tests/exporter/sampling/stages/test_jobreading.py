"""What is read of jobs, and when nothing is; groups and processes' memory are stand-ins."""

from types import SimpleNamespace

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import FigureSource, GroupKey, JobSample, NodeSample
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, GroupList, JobDirectory
from jobfeatures_exporter.sampling.stages.jobreading import JobReader
from jobfeatures_exporter.sampling.stages.values import (
    Attributed,
    LastSample,
    ListedGroups,
    NodeReading,
    ProcessesRead,
)
from tests.exporter.sampling.jobs import slurm

KEY = slurm("2")
DIRECTORY = JobDirectory(
    path="/job_2", membership=Membership(batch_system="slurm", job_id="2"), groups={UNIFIED: "/job_2"}
)
SOURCE = DIRECTORY.unique_name
LAST = LastSample({SOURCE: KEY}, {KEY: JobSample(key=KEY, accounting=FigureSource.CGROUP, uid=6001)})
IDLE = SimpleNamespace(running=0, blocked=0, processes=1)


class Group:
    directory, has_lost, is_quiet, pages = DIRECTORY, False, True, None

    def __init__(self):
        self.frozen, self.reads = False, 0
        self.freezing = SimpleNamespace(read=lambda: self.frozen)

    def read(self, signs):
        self.reads += 1
        return GroupFigures(MemoryBytes(anon=self.reads))

    def sample_if_unchanged(self, *, cpu):
        return self.is_quiet

    def read_core_usage(self):
        return (7,)

    def read_huge_pages(self, sizes):
        return self.pages


class Members:
    memory_failed = False

    def memory(self, processes):
        return MemoryBytes(anon=100 * len(processes), hugetlb=50 if processes else None)

    def are_hidden(self, directories, *, have_run):
        return False


@pytest.fixture
def group():
    return Group()


@pytest.fixture
def read(group):
    """Return a function that reads a job with one group, once more, as the kernel has summed it."""
    reader = JobReader(SimpleNamespace(reader=lambda _: group), Members(), None)

    def read(*, sums=IDLE, between=None, gone=(), groups=(DIRECTORY,), pages=None, are_all=True, **members):
        found = Attributed({}, {}, {KEY: groups} if groups else {}, members.get("members", {}))
        listed = ListedGroups(GroupList(groups), between or {}, {KEY: gone} if gone else {})
        node = NodeReading(NodeSample(), NodeSigns(), (), 9, pages)
        parts = ProcessesRead({}, are_all), {SOURCE: sums}, {}, node, LAST
        return reader.read(found, listed, *parts, with_cores=members.get("cores", False))

    return read


def test_a_job_none_of_whose_threads_has_run_is_read_once(read, group):
    first, *later = (read().jobs[KEY] for _ in range(4))
    assert group.reads == 1
    assert (first.is_still, [each.is_still for each in later]) == (False, [True] * 3)
    assert all(each is later[0] and each.groups is first.groups for each in later)
    group.frozen = True
    assert read().jobs[KEY] == later[0]._replace(is_frozen=True)


@pytest.mark.parametrize(
    "more",
    [
        {"sums": SimpleNamespace(running=1, blocked=0, processes=1)},
        {"between": {SOURCE: GroupFigures(MemoryBytes())}},
    ],
)
def test_one_that_runs_or_was_read_between_two_samples_is_read_each_time(read, group, more):
    for _ in range(3):
        assert not read(**more).jobs[KEY].is_still
    assert group.reads == 3


def test_one_whose_memory_moves_is_read_though_its_threads_sleep(read, group):
    read()
    group.is_quiet = False
    assert not read().jobs[KEY].is_still


def test_of_a_removed_group_what_was_read_before_is_its_jobs_and_of_an_ended_job_all(read):
    gone = JobDirectory(path="/old", membership=DIRECTORY.membership, groups={UNIFIED: "/old"})
    between = {gone.unique_name: GroupFigures(MemoryBytes(anon=3))}
    living = read(between=between, gone=[gone]).jobs[KEY]
    assert [each.has_gone for each in living.groups] == [False, True]
    assert living.memory.anon == 1, "what has gone has no memory any more"
    ended = read(between=between, gone=[gone], groups=()).ended[KEY]
    assert [(each.has_gone, each.figures.memory.anon) for each in ended.groups] == [(True, 3)]


def test_cpu_time_by_core_is_read_on_request(read):
    assert read().jobs[KEY].groups[0].core_nanosecs is None
    assert read(sums=SimpleNamespace(running=1, blocked=0, processes=1), cores=True).jobs[KEY].groups[
        0
    ].core_nanosecs == (7,)


@pytest.mark.parametrize(
    ("told", "are_all", "expected"),
    [(30, True, 30), (2000, True, 1000), (None, True, 50), (None, False, None)],
)
def test_huge_pages_are_told_by_groups_else_by_all_processes_and_no_more_than_the_node_has(
    read, group, told, are_all, expected
):
    group.pages = told
    members = {KEY: ["a process"]}
    assert read(pages={2: 1000}, are_all=are_all, members=members).jobs[KEY].memory.hugetlb == expected


def test_memory_of_what_is_no_job_s_is_the_same_object_while_its_processes_are(read):
    first, second = (read(members={41: ["a"]}).memory[GroupKey(41, 9)] for _ in range(2))
    assert first is second
    assert read(members={41: ["a", "b"]}).memory[GroupKey(41, 9)].anon == 200
