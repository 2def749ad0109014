"""How groups and processes are gathered by job."""

from types import SimpleNamespace

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.groups.cgroup import GroupList
from jobfeatures_exporter.sampling.processes.attributor import Attribution
from jobfeatures_exporter.sampling.values import Listed, find_populated, gather

ONE, TWO = JobKey("slurm", "1"), JobKey("slurm", "2")


def group(source, name, uid=None):
    membership = Membership(batch_system="slurm", job_id=name, uid=uid)
    return SimpleNamespace(directory=SimpleNamespace(cpu_source=source, membership=membership))


def listed(*groups):
    return Listed(GroupList(groups, [each.directory for each in groups]), {}, {})


def test_each_group_and_process_is_with_its_job_and_a_strangers_group_with_none():
    groups = group("/a", "1"), group("/b", "1"), group("/c", "2", uid=7)
    found = Attribution({10: ONE, 11: TWO, 12: 12}, {}, strangers={("slurm", "2", 7)})
    gathered = gather(found, listed(*groups), {10: "a", 11: "b", 12: "c"})
    assert gathered.key_of == {"/a": ONE, "/b": ONE, "/c": None}
    assert gathered.groups == {ONE: [*groups[:2]]}
    assert gathered.members == {ONE: ["a"], TWO: ["b"], 12: ["c"]}
    assert gathered.of_jobs() == {ONE: ["a"], TWO: ["b"]}


def test_a_job_that_has_only_a_group_has_no_processes():
    gathered = gather(Attribution({}, {}), listed(group("/a", "1")), {})
    assert gathered.of_jobs() == {ONE: ()}


def test_populated_are_groups_in_which_the_kernel_counts_processes():
    groups = group("/a", "1"), group("/b", "2"), group("/c", "3")
    sums = {"/a": SimpleNamespace(processes=1), "/b": SimpleNamespace(processes=0)}
    assert find_populated(listed(*groups), sums) == [groups[0].directory.membership]
