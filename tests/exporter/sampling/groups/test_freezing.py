import os
import shutil

import pytest

from jobfeatures_exporter.sampling.groups import freezing
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup
from jobfeatures_exporter.sampling.groups.freezing import FreezerState, parse_freezer_state
from tests.exporter.sampling.groups.made import listed

SLURM_V1, SLURM_V2 = "slurm_n1/uid_6001/job_2", "job_2"


@pytest.fixture
def freeze(node):
    """Return a function that writes what the kernel says of one group, in the file of its version."""

    def write(path, *, frozen, populated=True):
        if (node.cgroup / "cgroup.controllers").exists():
            top = (
                node.cgroup
                if "/" in path and "slice" in path
                else node.cgroup / "system.slice/slurmstepd.scope"
            )
            file, text = top / path / "cgroup.events", f"populated {populated:d}\nfrozen {frozen:d}\n"
        else:
            file, text = (
                node.cgroup / "freezer" / path / "freezer.state",
                "FROZEN\n" if frozen else "THAWED\n",
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write


@pytest.fixture
def group(node, budget, unreadable):
    return lambda: JobCgroup(listed(node.cgroup, unreadable)[0], budget, unreadable)


def is_frozen(group):
    """Return what it says at the next sample."""
    group.read()
    return group.freezing.read()


@pytest.mark.parametrize("version", [1, 2])
def test_a_job_of_slurm_is_frozen_when_all_its_steps_are(node, freeze, group, version):
    """As of real Slurm 22.05, 24.11 and 26.05: the job's own group never is, slurmstepd goes on in it."""
    job, below = (SLURM_V1, "") if version == 1 else (SLURM_V2, "/user")
    (node.job_v1 if version == 1 else node.job_v2)(job)
    freeze(job, frozen=False)
    for step in ("step_batch", "step_extern", "step_0"):
        freeze(f"{job}/{step}{below}", frozen=False)
    found = group()
    assert not is_frozen(found)
    freeze(f"{job}/step_0{below}", frozen=True)
    assert not is_frozen(found)
    freeze(f"{job}/step_batch{below}", frozen=True)
    freeze(f"{job}/step_extern{below}", frozen=True)
    assert is_frozen(found)
    freeze(f"{job}/step_batch{below}", frozen=False)
    assert not is_frozen(found)


def test_a_step_whose_processes_have_ended_does_not_count(node, freeze, group):
    node.job_v2(SLURM_V2)
    freeze(f"{SLURM_V2}/step_0/user", frozen=False, populated=False)
    freeze(f"{SLURM_V2}/step_1/user", frozen=True)
    assert is_frozen(group())


@pytest.mark.parametrize(
    ("version", "path"),
    [
        (1, "htcondor/condor_var_lib_condor_execute_slot1_1@wn1"),
        (1, "oar/alice_10"),
        (2, "system.slice/condor.service/htcondor/condor_execute_slot1@wn1"),
        (2, "oar.slice/oar-u1000.slice/oar-u1000-j10.slice"),
    ],
)
def test_where_the_job_s_own_group_is_frozen_no_group_below_counts(node, freeze, group, version, path):
    (node.job_v1 if version == 1 else node.job_v2)(path)
    freeze(path, frozen=False)
    freeze(f"{path}/step_0", frozen=True)  # its user may make groups there, and freeze them
    freeze(f"{path}/step_0/user", frozen=True)
    found = group()
    assert not is_frozen(found)
    freeze(path, frozen=True)
    assert is_frozen(found)
    freeze(path, frozen=False)
    assert not is_frozen(found)


@pytest.mark.parametrize("version", [1, 2])
def test_where_nothing_tells_no_job_is_frozen(node, group, unreadable, version):
    """No freezer is mounted, or Linux is older than 5.2."""
    job = SLURM_V1 if version == 1 else SLURM_V2
    (node.job_v1 if version == 1 else node.job_v2)(job)
    found = group()
    assert not is_frozen(found)
    if version == 2:
        events = node.cgroup / "system.slice/slurmstepd.scope" / job / "step_0/user/cgroup.events"
        events.parent.mkdir(parents=True)
        events.write_text("populated 1\n")
        assert not is_frozen(found)
    assert unreadable.counts == {}


def test_a_freezer_group_that_is_made_late_is_looked_for_at_growing_intervals(
    node, freeze, group, monkeypatch
):
    node.job_v1(SLURM_V1)
    (node.cgroup / "freezer").mkdir()
    found, looked, scandir = group(), [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(path), scandir(path))[1])
    assert [found.freezing.read() for _ in range(30)] == [False] * 30
    assert len(looked) == 4
    freeze(f"{SLURM_V1}/step_0", frozen=True)
    assert any(found.freezing.read() for _ in range(30))


def test_a_job_that_runs_costs_one_small_file_a_sample(node, freeze, group, budget, monkeypatch):
    node.job_v1(SLURM_V1)
    for step in ("step_batch", "step_extern"):
        freeze(f"{SLURM_V1}/{step}", frozen=False)
    found = group()
    found.read()
    before = budget.open
    assert not found.freezing.read()
    assert budget.open == before + 1
    monkeypatch.setattr(freezing, "read_text", None)
    monkeypatch.setattr(os, "scandir", None)
    monkeypatch.setattr(os, "open", None)
    assert not found.freezing.read()


def test_another_step_stands_for_the_job_when_the_first_has_gone(node, freeze, group, budget):
    node.job_v1(SLURM_V1)
    freeze(f"{SLURM_V1}/step_0", frozen=False)
    freeze(f"{SLURM_V1}/step_extern", frozen=False)
    found = group()
    assert not is_frozen(found)
    kept = budget.open
    (node.cgroup / "freezer" / SLURM_V1 / "step_0/freezer.state").unlink()
    found.close()  # a removed group's file cannot be read through its descriptor
    shutil.rmtree(node.cgroup / "freezer" / SLURM_V1 / "step_0")
    assert not is_frozen(found)
    assert budget.open <= kept
    freeze(f"{SLURM_V1}/step_extern", frozen=True)
    assert is_frozen(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FROZEN\n", FreezerState.FROZEN),
        ("FREEZING\n", FreezerState.RUNS),
        ("THAWED\n", FreezerState.RUNS),
        ("populated 1\nfrozen 1\n", FreezerState.FROZEN),
        ("populated 1\nfrozen 0\n", FreezerState.RUNS),
        ("populated 0\nfrozen 0\n", FreezerState.EMPTY),
        ("populated 0\nfrozen 1\n", FreezerState.EMPTY),
        ("populated 1\n", FreezerState.RUNS),
        ("", FreezerState.RUNS),
    ],
)
def test_what_a_group_says(text, said):
    assert parse_freezer_state(text) is said


def test_a_sleeping_job_that_is_frozen_is_noticed_although_nothing_of_it_has_moved(node, freeze, make):
    node.job_v1(SLURM_V1, usage_secs=1.0)
    freeze(f"{SLURM_V1}/step_0", frozen=False)
    sampler = make()
    said = []
    for frozen in (False, False, True, True, False):
        freeze(f"{SLURM_V1}/step_0", frozen=frozen)
        [sample] = sampler.sample().jobs.values()
        said.append(sample.is_frozen)
    assert said == [False, False, True, True, False]
