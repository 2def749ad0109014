"""The environment of a pre-execution command."""

from __future__ import annotations

import pwd
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch import programs
from jobfeatures.batch.basics import find_uid
from jobfeatures.batch.lsf import site
from jobfeatures.batch.lsf.prolog import job_from_prolog, job_id_of
from jobfeatures.batch.lsf.site import ask_in_prolog
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.system import lookups
from tests.configured import settings_for

ENVIRONMENT = {  # constructed from the manual's list of variables
    "LSB_JOBID": "123",
    "LSB_JOBINDEX": "4",
    "LSFUSER": "alice",
    "LSB_QUEUE": "normal",
    "LSB_JOBNAME": "array[1-9]",
    "LSB_PROJECT_NAME": "physics",
    "LSB_DJOB_NUMPROC": "6",
    "LSB_MCPU_HOSTS": "n1 4 n2 2 ",
    "LSB_HOSTS": "n1 n1 n1 n1 n2 n2",
    "LSB_DJOB_HOSTFILE": "/home/alice/.lsbatch/1.123.hostfile",
}


def test_the_job_of_an_environment_is_told_whole() -> None:
    job = job_from_prolog(ENVIRONMENT, node_name="n1")
    assert job.key == JobKey("lsf", "123[4]")
    assert job.state is JobState.RUNNING
    assert (job.user, job.partition, job.name, job.account) == ("alice", "normal", "array[1-9]", "physics")
    assert (job.allocated_cpus, job.total_cpus, job.nodes) == (4, 6, ("n1", "n2"))
    assert (job.array_job_id, job.array_task_id) == ("123", "4")
    assert (job.start_secs, job.limits.wall_secs, job.uid) == (None, None, None)


def test_a_job_that_is_no_array_has_the_index_0() -> None:
    assert job_id_of({"LSB_JOBID": "123", "LSB_JOBINDEX": "0"}) == "123"
    assert job_id_of({"LSB_JOBID": "123"}) == "123"


@pytest.mark.parametrize("job_id", ["", "0", "x", "123;rm", "../123", "123[4"])
def test_without_a_job_id_there_is_no_job(job_id: str) -> None:
    with pytest.raises(ParseError):
        job_from_prolog({**ENVIRONMENT, "LSB_JOBID": job_id}, node_name="n1")


def test_hosts_may_be_told_one_word_a_slot_only() -> None:
    environ = {key: value for key, value in ENVIRONMENT.items() if key != "LSB_MCPU_HOSTS"}
    assert job_from_prolog(environ, node_name="n2.example.org").allocated_cpus == 2


def test_the_only_host_is_this_one_whatever_it_is_called() -> None:
    environ = {**ENVIRONMENT, "LSB_MCPU_HOSTS": "n1-ib 4"}
    assert job_from_prolog(environ, node_name="n1").allocated_cpus == 4
    environ = {**ENVIRONMENT, "LSB_MCPU_HOSTS": "n1-ib 4 n2-ib 4"}
    assert job_from_prolog(environ, node_name="n1").allocated_cpus is None


@pytest.mark.parametrize("text", ["n1", "n1 four", "n1 4 n2", "n/1 4", "4 n1"])
def test_malformed_hosts_are_told_and_unknown(text: str) -> None:
    notes: list[Rejected] = []
    job = job_from_prolog({**ENVIRONMENT, "LSB_MCPU_HOSTS": text}, node_name="n1", note=notes.append)
    assert (job.nodes, job.allocated_cpus, job.total_cpus) == ((), None, 6)
    assert [each.field for each in notes] == ["LSB_MCPU_HOSTS"]


def test_a_malformed_count_is_told_and_unknown() -> None:
    notes: list[Rejected] = []
    environ = {"LSB_JOBID": "7", "LSB_DJOB_NUMPROC": "many"}
    assert job_from_prolog(environ, node_name="n1", note=notes.append).total_cpus is None
    assert [each.field for each in notes] == ["LSB_DJOB_NUMPROC"]


@given(st.dictionaries(st.sampled_from(sorted(ENVIRONMENT)), st.text()))
def test_any_environment_is_a_job_or_a_parse_error(environ: dict[str, str]) -> None:
    try:
        job_from_prolog({**ENVIRONMENT, **environ}, node_name="n1")
    except ParseError:
        return


def test_the_user_s_id_is_looked_up_and_nobody_else_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_commands(*_: object, **__: object) -> None:
        raise AssertionError("a command was made")

    monkeypatch.setattr(programs, "run_command", no_commands)
    job = job_from_prolog({**ENVIRONMENT, "LSFUSER": "root"}, node_name="n1")
    answer = ask_in_prolog(job, settings_for("lsf"), node_name="n1", timeout_secs=1.0)
    assert answer is not None
    assert answer.uid == 0
    unknown = job_from_prolog({**ENVIRONMENT, "LSFUSER": "no such user"}, node_name="n1")
    assert ask_in_prolog(unknown, settings_for("lsf"), node_name="n1", timeout_secs=1.0) is None


def test_a_directory_service_that_takes_its_time_keeps_no_hook_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(pwd, "getpwnam", lambda _user: answers.wait(60) and pwd.getpwuid(0))
    monkeypatch.setattr(lookups, "PATIENCE_SECS", 0.0)
    monkeypatch.setattr(site, "_USERS", lookups.LookUps(find_uid))
    job = Job(key=JobKey("lsf", "7"), user="ann")
    try:
        assert ask_in_prolog(job, settings_for("lsf"), node_name="n1", timeout_secs=1.0) is None
    finally:
        answers.set()
