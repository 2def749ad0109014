"""What the hooks of PBS and Torque hand over of their jobs. The environments are constructed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.pbs.openpbs import job_from_prolog as job_from_hook
from jobfeatures.batch.pbs.torque import ask_in_prolog, job_from_prolog
from jobfeatures.commands.common import which_batch_system, which_job
from jobfeatures.errors import ConfigurationError, ParseError, Rejected, SourceError
from jobfeatures.records.model import Job, JobKey, JobState, Limits, fill_unknown
from tests.configured import settings_for

HOOK = {
    "PBS_JOBID": "123[4].head",
    "PBS_HOOK_USER": "alice",
    "PBS_HOOK_UID": "6001",
    "PBS_HOOK_JOB_NAME": "train",
    "PBS_HOOK_QUEUE": "workq",
    "PBS_HOOK_ACCOUNT": "physics",
    "PBS_HOOK_EXEC_HOST": "n1.example.org:15002/0*4+n2.example.org:15002/0*2",
    "PBS_HOOK_EXEC_VNODE": "(n1:ncpus=4:mem=8388608kb:ngpus=1)+(n2:ncpus=2:mem=4194304kb)",
    "PBS_HOOK_WALLTIME": "03:00:00",
    "PBS_HOOK_MEM": "12gb",
    "PBS_HOOK_START": "1795246429",
    "PBS_HOOK_RUN_COUNT": "2",
}
PROLOGUE = {
    "PBS_JOBID": "123.batch.example.org",
    "TORQUE_USER": "alice",
    "TORQUE_UID": "6001",
    "TORQUE_JOB_NAME": "train",
    "TORQUE_LIMITS": "neednodes=1:ppn=4,nodes=1:ppn=4,walltime=03:00:00,mem=8gb",
    "TORQUE_QUEUE": "batch",
    "TORQUE_ACCOUNT": "physics",
    "TORQUE_START": "1795246429",
}


def test_the_hook_of_pbs_tells_all_there_is() -> None:
    assert job_from_hook(HOOK, node_name="n1") == Job(
        key=JobKey("pbs", "123[4]"),
        state=JobState.RUNNING,
        name="train",
        user="alice",
        uid=6001,
        account="physics",
        partition="workq",
        start_secs=1795246429,
        nodes=("n1.example.org", "n2.example.org"),
        total_cpus=6,
        allocated_cpus=4,
        limits=Limits(wall_secs=10800, cpu_secs=6 * 10800, memory_bytes=8 * 2**30),
        array_job_id="123",
        array_task_id="4",
        restarts=1,
        allocated_gpus=1,
    )
    job = job_from_hook(HOOK, node_name="n2")
    assert (job.allocated_cpus, job.limits.memory_bytes) == (2, 4 * 2**30)


def test_a_malformed_value_is_told_and_stays_unknown() -> None:
    notes: list[Rejected] = []
    changes = {
        "PBS_HOOK_WALLTIME": "soon",
        "PBS_HOOK_EXEC_VNODE": "(",
        "PBS_HOOK_UID": "-1",
        "PBS_HOOK_CPUT": "60",
    }
    job = job_from_hook({**HOOK, **changes}, node_name="n1", note=notes.append)
    assert (job.limits.wall_secs, job.limits.cpu_secs, job.uid, job.allocated_cpus) == (None, 60, None, 4)
    assert {each.field for each in notes} == {"exec_vnode", "PBS_HOOK_WALLTIME", "PBS_HOOK_UID"}


def test_a_job_of_which_nothing_is_told_has_its_id() -> None:
    for read, system in ((job_from_hook, "pbs"), (job_from_prolog, "torque")):
        job = read({"PBS_JOBID": "5.head"}, node_name="n1")
        assert job == Job(key=JobKey(system, "5"), state=JobState.RUNNING)


@pytest.mark.parametrize("job_id", ["", "x", "123[].head", "../1"])
def test_without_the_id_of_one_job_there_is_none(job_id: str) -> None:
    for read in (job_from_hook, job_from_prolog):
        with pytest.raises(ParseError):
            read({"PBS_JOBID": job_id}, node_name="n1")


def test_the_prologue_of_torque_tells_limits_and_its_own_time() -> None:
    assert job_from_prolog(PROLOGUE, node_name="n1") == Job(
        key=JobKey("torque", "123"),
        state=JobState.RUNNING,
        name="train",
        user="alice",
        uid=6001,
        account="physics",
        partition="batch",
        start_secs=1795246429,
        limits=Limits(wall_secs=10800, memory_bytes=8 * 2**30),
    )


@pytest.mark.parametrize("limits", ["nodes=2:ppn=4,mem=8gb", "nodes=n1+n2,mem=8gb", "procs=8,mem=8gb"])
def test_memory_of_several_hosts_is_no_limit_on_one(limits: str) -> None:
    assert job_from_prolog({**PROLOGUE, "TORQUE_LIMITS": limits}, node_name="n1").limits.memory_bytes is None


def test_malformed_limits_are_told() -> None:
    notes: list[Rejected] = []
    environ = {**PROLOGUE, "TORQUE_LIMITS": "walltime=-1,mem=much", "TORQUE_UID": "x"}
    assert job_from_prolog(environ, node_name="n1", note=notes.append).limits == Limits()
    assert {each.field for each in notes} == {"walltime", "mem", "TORQUE_UID"}


def test_slots_come_from_the_node_list_of_pbs_mom(tmp_path: Path) -> None:
    (tmp_path / "aux").mkdir()
    (tmp_path / "aux" / "123.batch.example.org").write_text("n1.example.org\n" * 4 + "n2.example.org\n" * 2)
    job = job_from_prolog(PROLOGUE, node_name="n1")
    answer = ask_in_prolog(
        job, settings_for("torque", torque_home=str(tmp_path)), node_name="n1", timeout_secs=1.0
    )
    assert answer is not None
    both = fill_unknown(answer, job)
    assert (both.nodes, both.total_cpus, both.allocated_cpus) == (("n1.example.org", "n2.example.org"), 6, 4)
    assert both.limits == Limits(wall_secs=10800, cpu_secs=6 * 10800, memory_bytes=8 * 2**30)


def test_a_host_without_a_node_list_leaves_it_to_the_daemon(tmp_path: Path) -> None:
    job = job_from_prolog(PROLOGUE, node_name="n1")
    config = settings_for("torque", torque_home=str(tmp_path))
    assert ask_in_prolog(job, config, node_name="n1", timeout_secs=1.0) is None
    (tmp_path / "aux").mkdir()
    (tmp_path / "aux" / "1234.batch").write_text("n1\n")
    assert ask_in_prolog(job, config, node_name="n1", timeout_secs=1.0) is None
    (tmp_path / "aux" / "123.batch").mkdir()
    with pytest.raises(SourceError):
        ask_in_prolog(job, config, node_name="n1", timeout_secs=1.0)


def test_a_job_knows_its_system_and_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SLURM_JOB_ID", "PBS_JOBID", "PBS_VERSION"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PBS_JOBID", "123[4].head")
    assert which_batch_system("pbs") == "pbs"
    assert which_job("pbs") == which_job("torque") == "123[4]"
    monkeypatch.setenv("PBS_JOBID", "x")
    with pytest.raises(ConfigurationError, match="not a job id"):
        which_job("pbs")


def test_the_environment_of_torque_is_told_from_that_of_pbs(monkeypatch: pytest.MonkeyPatch) -> None:
    from jobfeatures.batch import SYSTEMS

    for each in SYSTEMS.values():
        for variable in filter(None, (each.job_variable, each.second_variable)):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PBS_JOBID", "123.head")
    assert which_batch_system(None) == "pbs"
    monkeypatch.setenv("PBS_VERSION", "TORQUE-6.1.2")
    assert which_batch_system(None) == "torque"


_VALUES = st.text(max_size=20) | st.sampled_from(
    ["1.s", "n1/0*4", "(n1:ncpus=1:mem=1kb)", "01:00:00", "8gb", "9" * 30]
)


@given(st.dictionaries(st.sampled_from([*HOOK, *PROLOGUE, "PBS_HOOK_CPUT", "PBS_HOOK_PMEM"]), _VALUES))
def test_any_environment_is_a_job_or_refused(environ: dict[str, str]) -> None:
    for read in (job_from_hook, job_from_prolog):
        for given_id in ({}, {"PBS_JOBID": "1.s"}):
            with contextlib.suppress(ParseError):
                assert read({**environ, **given_id}, node_name="n1").state is JobState.RUNNING
