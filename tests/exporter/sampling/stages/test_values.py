"""How groups and processes are gathered by job, and removed groups sorted to the jobs that had them."""

from types import SimpleNamespace

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.layout.jobdirectory import GroupList
from jobfeatures_exporter.sampling.processes.attribution import Attribution
from jobfeatures_exporter.sampling.stages.values import (
    LastSample,
    ListedGroups,
    ProcessesRead,
    find_populated,
    gather,
    list_groups,
)

ONE, TWO = JobKey("slurm", "1"), JobKey("slurm", "2")
READING = GroupFigures(MemoryBytes())


def group(source, name, uid=None):
    membership = Membership(batch_system="slurm", job_id=name, uid=uid)
    return SimpleNamespace(unique_name=source, membership=membership)


def listed(*groups):
    return ListedGroups(GroupList(groups), {}, {})


def test_each_group_and_process_is_with_its_job_and_a_strangers_group_with_none():
    groups = group("/a", "1"), group("/b", "1"), group("/c", "2", uid=7)
    found = Attribution({10: ONE, 11: TWO, 12: 12}, {}, ignored={("slurm", "2", 7, "")})
    gathered = gather(found, listed(*groups), ProcessesRead({10: "a", 11: "b", 12: "c"}, are_all=True))
    assert gathered.key_of == {"/a": ONE, "/b": ONE, "/c": None}
    assert gathered.groups == {ONE: [*groups[:2]]}
    assert gathered.members == {ONE: ["a"], TWO: ["b"], 12: ["c"]}
    assert gathered.of_jobs() == {ONE: ["a"], TWO: ["b"]}


def test_a_job_that_has_only_a_group_has_no_processes():
    gathered = gather(Attribution({}, {}), listed(group("/a", "1")), ProcessesRead({}, are_all=True))
    assert gathered.of_jobs() == {ONE: ()}


def test_populated_are_groups_in_which_the_kernel_counts_processes():
    groups = group("/a", "1"), group("/b", "2"), group("/c", "3")
    sums = {"/a": SimpleNamespace(processes=1), "/b": SimpleNamespace(processes=0)}
    assert find_populated(listed(*groups), sums) == [groups[0].membership]


def list_with(between, *, gone, living=(), last=None):
    groups = GroupList([group(each, "1") for each in living], [group(each, "1") for each in gone])
    return list_groups(groups, between, LastSample({"/a": ONE, "/s": None} if last is None else last))


def gone_of(listed):
    return {key: [each.unique_name for each in those] for key, those in listed.gone.items()}


def test_a_removed_group_that_was_read_before_is_its_jobs():
    listed = list_with({"/a": READING}, gone=["/a"])
    assert (gone_of(listed), listed.between) == ({ONE: ["/a"]}, {"/a": READING})


def test_one_that_was_not_read_or_a_strangers_or_never_sampled_is_nobodys():
    assert gone_of(list_with({}, gone=["/a"])) == {}
    assert gone_of(list_with({"/s": READING, "/new": READING}, gone=["/s", "/new"])) == {}


def test_where_the_path_is_used_again_the_reading_may_be_of_the_next_job():
    assert gone_of(list_with({"/a": READING}, gone=["/a"], living=["/a"])) == {}


def test_without_a_reader_between_samples_there_are_no_readings():
    groups = GroupList(gone=(group("/a", "1"),))
    assert list_groups(groups, {}, LastSample({"/a": ONE})) == (groups, {}, {})
