import errno
import os
import shutil

import pytest

from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groups.ledger import JobLedger
from jobfeatures_exporter.sampling.groups.steps import StepReader
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies, list_job_directories
from jobfeatures_exporter.sampling.stages.jobbook import make_steps


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def budget():
    return DescriptorBudget()


@pytest.fixture
def read(budget, unreadable):
    """Return a function that takes one look at the steps of all jobs below a root, as if they were one."""
    reader, ledger = StepReader(budget, unreadable), JobLedger()

    def read(root):
        directories, _ = list_job_directories(find_hierarchies(str(root)), unreadable)
        steps = make_steps(ledger, reader.read(directories))
        reader.forget_others()
        return {each.step: each for each in steps}

    yield read
    reader.close()
    assert budget.open == 0


def test_a_step_of_v2_is_read_from_its_own_group(fixtures, read, unreadable):
    steps = read(fixtures / "cgroup-v2")
    assert steps.keys() == {"0"}
    assert (steps["0"].user_cpu_secs, steps["0"].system_cpu_secs) == (0.6, 0.3)
    assert steps["0"].memory == MemoryBytes(
        anon=4000000, file=200000, shmem=100000, kernel=20000, charged=5000000, reclaimable=200000
    )
    assert unreadable.counts == {}


def test_a_step_of_v1_is_read_from_all_hierarchies(node, read):
    node.job_v1("slurm/uid_1/job_2", usage_secs=9, user=9)
    node.job_v1("slurm/uid_1/job_2/step_batch", usage_secs=4, user=3, system=1, memory=77)
    node.job_v1("slurm/uid_1/job_2/step_extern")
    node.job_v1("slurm/uid_1/job_2/else")
    steps = read(node.cgroup)
    assert steps.keys() == {"batch", "extern"}
    assert (steps["batch"].user_cpu_secs, steps["batch"].system_cpu_secs) == (3.0, 1.0)
    assert (steps["batch"].memory.anon, steps["extern"].user_cpu_secs) == (77, 0.0)


def test_the_time_of_a_step_never_falls_and_what_is_unreadable_is_unknown(node, read, unreadable):
    path = "slurm/uid_1/job_2/step_0"
    node.job_v1("slurm/uid_1/job_2")
    node.job_v1(path, usage_secs=4, user=3, system=1)
    assert read(node.cgroup)["0"].user_cpu_secs == 3.0
    stat = node.cgroup / "cpu,cpuacct" / path / "cpuacct.stat"
    stat.write_text("nonsense\n")
    assert read(node.cgroup)["0"].user_cpu_secs is None
    assert unreadable.counts == {"job_cpuacct_stat_garbage": 1}
    node.job_v1(path, usage_secs=1, user=1)
    assert read(node.cgroup)["0"].user_cpu_secs == 3.0


def test_a_step_that_is_made_again_between_two_looks_adds_to_what_the_first_one_used(node, read, tmp_path):
    node.job_v1("slurm/uid_1/job_2/step_0", usage_secs=4, user=3, system=1)
    assert read(node.cgroup)["0"].user_cpu_secs == 3.0
    for number, each in enumerate(sorted(node.cgroup.glob("*/slurm/uid_1/job_2/step_0"))):
        each.rename(tmp_path / f"gone{number}")
    node.job_v1("slurm/uid_1/job_2/step_0", usage_secs=1, user=1)
    assert read(node.cgroup)["0"].user_cpu_secs == 4.0


def test_the_same_step_on_two_emulated_nodes_is_one(node, read):
    for name, secs in (("slurm_a", 1), ("slurm_b", 2)):
        node.job_v1(f"{name}/uid_1/job_2")
        node.job_v1(f"{name}/uid_1/job_2/step_0", usage_secs=secs, user=1, memory=10)
    steps = read(node.cgroup)
    assert steps.keys() == {"0"}
    assert (steps["0"].user_cpu_secs, steps["0"].memory.anon) == (3.0, 20)


def test_steps_come_and_go(node, read, budget):
    node.job_v2("job_2")
    node.job_v2("system.slice/slurmstepd.scope/job_2/step_0")
    assert read(node.cgroup).keys() == {"0"}
    assert budget.open > 0
    shutil.rmtree(node.cgroup / "system.slice/slurmstepd.scope/job_2/step_0")
    assert read(node.cgroup) == {}
    assert budget.open == 0


def test_names_that_are_no_steps_and_files_and_links_are_passed_over(node, read, tmp_path):
    group = node.job_v2("job_2")
    for name in ("step_", "step_a b", "step_" + "x" * 65, 'step_"', "steps", "user"):
        (group / name).mkdir()
    (group / "step_9").write_text("")
    (group / "step_8").symlink_to(tmp_path)
    assert read(node.cgroup) == {}


def test_a_job_that_cannot_be_listed_has_no_steps_this_time(node, read, unreadable, monkeypatch):
    node.job_v2("job_2")
    real = os.scandir

    def fail(path):
        if str(path).endswith("job_2"):
            raise OSError(errno.EIO, "x", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", fail)
    assert read(node.cgroup) == {}
    assert unreadable.counts == {"job_steps_eio": 1}


@pytest.mark.parametrize(("path", "tops"), [
    ("slurm/uid_1/job_2", ["cpu,cpuacct"]),
    ("slurm/uid_1/job_2", ["memory"]),
    ("slurm/uid_1/job_2", ["cpu,cpuacct", "memory"]),
    ("system.slice/slurmstepd.scope/job_2", [""]),
])  # fmt: skip
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_step_goes_on_while_its_job_cannot_be_listed(node, read, tmp_path, monkeypatch, path, tops, number):
    made = node.job_v2 if path.startswith("system") else node.job_v1
    usage = {"user_usec": 10**6} if path.startswith("system") else {"usage_secs": 1, "user": 1}
    for count in (1, 2):  # made again, so that its ledger has more than the group that is there
        made(f"{path}/step_0", **usage)
        before = read(node.cgroup)
        assert before["0"].user_cpu_secs == count
        if count == 1:
            for each, group in enumerate(sorted(node.cgroup.glob(f"**/{path}/step_0"))):
                group.rename(tmp_path / f"gone{each}")
    real, failing = os.scandir, [f"{node.cgroup / top / path}" for top in tops]

    def fail(directory):
        if str(directory) in failing:
            raise OSError(number, "x", directory)
        return real(directory)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", fail)
        assert read(node.cgroup) == before
    assert read(node.cgroup) == before
