"""What hooks make of environments, answers and broken settings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jobfeatures.cli import main
from jobfeatures.config import Config
from jobfeatures.errors import OtherClusterError, ParseError
from jobfeatures.hooks.actions import find_objection, publish_job, remove_job, serve_request
from jobfeatures.hooks.request import Request
from jobfeatures.jobs.jobrecords import format_record
from jobfeatures.publish.hookreasons import reason_of
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits
from tests.configured import changed, configured
from tests.running import own_folder

START = 1795246160
UID = os.getuid()
PROLOG = {
    "SLURMD_NODENAME": "n1",
    "SLURM_JOB_ID": "777",
    "SLURM_JOB_UID": str(UID),
    "SLURM_JOB_USER": "bob",
    "SLURM_JOB_CPUS_PER_NODE": "2",
    "SLURM_NODELIST": "n1",
}
TIMES = {"SLURM_JOB_START_TIME": str(START), "SLURM_JOB_END_TIME": str(START + 420)}
RECORD = (
    "JobId=777 JobName=x UserId={user} JobState={state} Restarts={restarts} TimeLimit=00:07:00 "
    "StartTime={start} EndTime=1795246580 Partition=batch NodeList=n1 NumCPUs=2 "
    "  Nodes=n1 CPU_IDs=0-1 Mem=120 GRES= Features=(null)"
)
OURS = {"user": f"bob({UID})", "state": "RUNNING", "restarts": "0", "start": str(START)}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return settings with a stand-in for scontrol, which prints what stands in a file."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        "#!/bin/bash\nwhile read -r verb what name; do case $what in\n"
        f"hostnames) echo $name;; job) cat {tmp_path}/answer || echo 'slurm_load_jobs error: Invalid job id specified' >&2;;\n"
        "esac; done\n"
    )
    scontrol.chmod(0o755)
    return configured(
        Config, features_root=str(tmp_path / "root"), slurm_scontrol=str(scontrol), machine_total_cpu=8
    )


def answer(tmp_path: Path, **changes: str) -> None:
    (tmp_path / "answer").write_text(RECORD.format(**{**OURS, **changes}) + "\n")


def files(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "root/jobfeatures/slurm-777"
    return {path.name: path.read_text().strip() for path in folder.iterdir()}


def record(tmp_path: Path) -> dict[str, object]:
    return json.loads((tmp_path / "root/records/slurm-777.json").read_text())


def test_an_answer_about_the_job_adds_what_the_environment_lacks(config, tmp_path):
    answer(tmp_path)
    publish_job(config, "slurm", PROLOG, timeout_secs=60)
    assert files(tmp_path)["wall_limit_secs"] == "420"
    assert record(tmp_path)["limits"]["wall_secs"] == 420


@pytest.mark.parametrize(
    ("changes", "environ"),
    [
        ({"user": "alice(60001)"}, {}),
        ({"state": "COMPLETED"}, {}),
        ({"state": "FAILED"}, {}),
        ({"state": "PENDING"}, {}),
        ({"restarts": "1"}, {"SLURM_JOB_RESTART_COUNT": "2"}),
        ({"start": str(START - 3600)}, {"SLURM_JOB_START_TIME": str(START)}),
        ({}, None),  # the controller does not know it
    ],
)
def test_an_answer_about_another_job_or_run_is_not_this_jobs(config, tmp_path, changes, environ, caplog):
    if environ is not None:
        answer(tmp_path, **changes)
    job = publish_job(config, "slurm", {**PROLOG, **(environ or {})}, timeout_secs=60)
    assert (job.user, job.uid, job.state) == ("bob", UID, JobState.RUNNING)
    assert "wall_limit_secs" not in files(tmp_path)
    assert record(tmp_path)["user"] == "bob"
    assert [each.reason for each in caplog.records] == ["limits"]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"uid": 1}, {"uid": 2}),
        ({"restarts": 0}, {"restarts": 1}),
        ({"sluid": "a"}, {"sluid": "b"}),
        ({"start_secs": 4}, {"start_secs": 5}),
        ({"state": JobState.TIMEOUT}, {}),
        ({"state": JobState.PENDING}, {}),
    ],
)
def test_what_proves_another_job_or_run(theirs, ours, make_job):
    assert find_objection(make_job(**theirs), make_job(**ours)) is not None


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({}, {}),
        ({"uid": None}, {"uid": 2}),
        ({"restarts": 1}, {}),
        ({"start_secs": 6}, {"start_secs": 5}),
        ({"state": JobState.UNKNOWN}, {}),
        ({"state": JobState.SUSPENDED}, {}),
        ({"start_secs": 4, "batch_system": "gridengine"}, {"start_secs": 5, "batch_system": "gridengine"}),
    ],
)
def test_what_proves_nothing(theirs, ours, make_job):
    assert find_objection(make_job(**theirs), make_job(**ours)) is None


def test_memory_and_name_are_asked_for_although_the_environment_tells_start_and_limit(config, tmp_path):
    answer(tmp_path)
    job = publish_job(config, "slurm", {**PROLOG, **TIMES}, timeout_secs=60)
    assert (job.name, job.limits.memory_bytes) == ("x", 120 * 2**20)
    assert files(tmp_path)["max_rss_bytes"] == str(120 * 2**20)
    assert files(tmp_path)["jobstart_secs"] == str(START)


def test_without_an_answer_start_and_limit_of_the_environment_count(config, tmp_path, caplog):
    publish_job(config, "slurm", {**PROLOG, **TIMES}, timeout_secs=60)
    assert files(tmp_path)["wall_limit_secs"] == "420"
    assert [each.reason for each in caplog.records] == ["limits"]


def test_values_that_cannot_be_read_are_told_and_counted_and_the_rest_is_published(config, tmp_path, caplog):
    never = changed(config, hook_ask="never")
    publish_job(
        never, "slurm", {**PROLOG, "SLURM_JOB_GPUS": "0-", "SLURM_JOB_CPUS_PER_NODE": "two"}, timeout_secs=1
    )
    assert files(tmp_path) == {"job_id": "777"}
    assert [each.reason for each in caplog.records] == ["environment"] * 2
    assert "SLURM_JOB_CPUS_PER_NODE: must be CPUs per node, such as 2(x3),1: 'two'" in caplog.text


# ---------------------------------------------------------------- in the daemon


def refuse_none(problem):
    pytest.fail(str(problem))


def serve(config, environ, reported_at_secs=100.0, action="publish", batch_system="slurm", note=refuse_none):
    tree = FeatureTree(config.batch.common.root)
    request = Request(action, batch_system, environ, reported_at_secs)
    return serve_request(tree, config, Site(config.site), request, note)


def know(tmp_path: Path, job: Job) -> None:
    """Leave what the daemon knows of a job that it publishes."""
    own_folder(tmp_path / "root/known")
    (tmp_path / "root/known/slurm-777.json").write_text(format_record(job, reported_at_secs=50.0))


def test_the_daemon_publishes_at_once_and_asks_for_what_is_missing(config, tmp_path):
    assert serve(config, PROLOG).job_id == "777"
    assert files(tmp_path) == {"allocated_cpu": "2", "job_id": "777"}
    assert record(tmp_path)["told_at_secs"] == 100.0
    assert serve(config, {**PROLOG, **TIMES}).job_id == "777", "memory and name are in no prolog"
    assert serve(changed(config, slurm_ask="controller"), {**PROLOG, **TIMES}) is None
    assert serve(changed(config, hook_ask="never"), {**PROLOG, **TIMES}) is None
    assert files(tmp_path)["wall_limit_secs"] == "420"


def test_what_the_daemon_knows_of_the_same_run_is_not_taken_away(config, tmp_path, make_job):
    known = make_job("777", uid=UID, start_secs=START, limits=Limits(wall_secs=600, memory_bytes=UNLIMITED))
    know(tmp_path, known)
    serve(config, PROLOG)
    assert files(tmp_path)["wall_limit_secs"] == "600"
    assert record(tmp_path)["limits"] == {"wall_secs": 600, "memory_bytes": "unlimited"}


def test_what_the_daemon_knows_of_another_job_of_that_id_is_not_this_jobs(config, tmp_path, make_job):
    known = make_job("777", user="alice", uid=UID + 1, limits=Limits(wall_secs=600))
    know(tmp_path, known)
    serve(config, PROLOG)
    assert files(tmp_path) == {"allocated_cpu": "2", "job_id": "777"}


@pytest.mark.parametrize("by_daemon", [True, False])
def test_a_prolog_begins_a_run_whatever_an_earlier_one_of_the_same_user_has_left(config, tmp_path, by_daemon):
    """Slurm 22.05 tells neither start nor restarts: what the new run writes must not be removed by a late answer."""
    answer(tmp_path)
    written = [tmp_path / "root/jobstatus/slurm-777" / name for name in ("before", "now")]
    for number, file in enumerate(written):
        if by_daemon:
            serve(config, PROLOG, 100.0 + number)
        else:
            publish_job(config, "slurm", PROLOG, timeout_secs=60)
        assert list(file.parent.iterdir()) == []
        file.touch()
    serve(config, PROLOG, 101.0)  # the same hook once more
    assert [file.exists() for file in written] == [False, True]


def test_a_later_prolog_takes_over_no_restart_count_of_before(config, tmp_path, make_job):
    """No epilog ran, and Slurm 22.05 names no count: with the old one, the next answer would be another run."""
    know(tmp_path, make_job("777", uid=UID, restarts=0, start_secs=START, limits=Limits(wall_secs=600)))
    serve(config, PROLOG, START + 30.0)
    assert (record(tmp_path).get("restarts"), record(tmp_path)["start_secs"]) == (None, START)
    serve(config, PROLOG, START + 1000.0)
    found = record(tmp_path)
    assert (found.get("restarts"), found.get("start_secs")) == (None, None)
    assert found["limits"]["wall_secs"] == 600


def test_the_machine_s_values_are_not_the_intake_s_to_write(config, tmp_path):
    serve(config, PROLOG)
    assert not (tmp_path / "root/machinefeatures").exists()


def test_a_request_that_is_older_than_what_a_hook_has_published_by_itself_changes_nothing(config, tmp_path):
    answer(tmp_path)
    publish_job(config, "slurm", PROLOG, timeout_secs=60)
    before = files(tmp_path), record(tmp_path)
    assert serve(config, PROLOG, reported_at_secs=START) is None
    assert (files(tmp_path), record(tmp_path)) == before


def test_the_end_of_a_job_is_served_too(config, tmp_path):
    serve(config, PROLOG)
    assert serve(config, {"SLURM_JOB_ID": "777"}, action="remove") is None
    assert not [path for path in (tmp_path / "root").rglob("*777*") if "staging" not in path.parts]


ONE = {**PROLOG, "SLURM_CLUSTER_NAME": "one", "SLURM_JOB_NAME": "one"}


@pytest.mark.parametrize("by_daemon", [True, False])
@pytest.mark.parametrize("name", ["other", "../x", "a/b", "ü", "x" * 300])  # slurmd lets through all of them
def test_of_two_clusters_jobs_of_one_number_below_one_root_the_first_keeps_its_features(
    config, tmp_path, by_daemon, name
):
    """The other is refused and told nothing, and its epilog takes nothing away; then it may begin."""
    never = changed(config, hook_ask="never")

    def hook(environ, action="publish"):
        if by_daemon:
            serve(never, environ, action=action)
        elif action == "publish":
            publish_job(never, "slurm", environ, timeout_secs=1)
        else:
            remove_job(never, JobKey("slurm", "777"), environ)

    other = {**ONE, "SLURM_CLUSTER_NAME": name, "SLURM_JOB_NAME": "other"}
    shown = os.fsencode(f"slurm-777@{name}".replace("/", "%2F"))[:210]
    refusal = tmp_path / "root/exports" / os.fsdecode(shown)
    hook(ONE)
    for _ in range(2):
        with pytest.raises(OtherClusterError, match="gets no features: another cluster's job"):
            hook(other)
        assert (record(tmp_path)["cluster"], record(tmp_path)["name"]) == ("one", "one")
        assert refusal.exists()
    hook(ONE)  # requeued
    hook(other, "remove")
    assert files(tmp_path)["job_id"] == "777"
    assert not refusal.exists()
    hook(ONE, "remove")
    assert not (tmp_path / "root/jobfeatures/slurm-777").exists()
    refusal.touch()  # no epilog has run
    hook(other)
    assert (record(tmp_path)["cluster"], refusal.exists()) == (name, False)
    assert reason_of(OtherClusterError("")) == "cluster"


@pytest.mark.parametrize("name", ["a\nb", ""])
def test_a_cluster_without_a_name_that_one_can_have_is_none(config, tmp_path, name):
    told = []
    serve(config, {**PROLOG, "SLURM_CLUSTER_NAME": name}, note=told.append)
    assert "cluster" not in record(tmp_path)
    assert len(told) == bool(name)


@pytest.mark.parametrize("environ", [{}, {"SLURM_JOB_ID": ""}, {"SLURM_JOB_ID": "../7"}])
@pytest.mark.parametrize("action", ["publish", "remove"])
def test_a_request_without_a_job_is_refused(config, environ, action):
    if action == "remove" and environ.get("SLURM_JOB_ID"):
        serve(config, environ, action=action)  # an odd name is quoted: there is nothing to remove
    else:
        with pytest.raises(ParseError):
            serve(config, environ, action=action)


def test_values_of_a_request_that_cannot_be_read_are_reported(config, tmp_path):
    problems = []
    assert serve(config, {**PROLOG, **TIMES, "SLURM_JOB_CPUS_PER_NODE": "two"}, note=problems.append)
    assert [str(each) for each in problems] == [
        "environment:SLURM_JOB_CPUS_PER_NODE: must be CPUs per node, such as 2(x3),1: 'two'"
    ]
    assert files(tmp_path)["wall_limit_secs"] == "420"


def test_a_request_of_an_unknown_batch_system_is_refused(config):
    with pytest.raises(ParseError, match="unknown batch system"):
        serve(config, {}, batch_system="none")


# ---------------------------------------------------------------- broken settings


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """The environment of a prolog whose configuration has a table twice."""
    for name, value in {**PROLOG, **TIMES}.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "config.toml"
    file.write_text("[web]\nlisten_address = ':1'\n[web]\n")
    monkeypatch.setenv("JOBFEATURES_CONFIG_FILE", str(file))
    monkeypatch.setenv("JOBFEATURES_FEATURES_ROOT", str(tmp_path / "root"))
    return tmp_path / "root"


def keep(root: Path, text: str) -> Path:
    own_folder(root / "intake")
    kept = root / "intake/config.toml"
    kept.write_text(text)
    kept.chmod(0o600)
    return kept


def test_a_broken_configuration_costs_no_job_its_features(broken, capfd):
    keep(broken, "machine.total_cpu = 5\n")
    assert main(["publish", "--batch", "slurm", "--strict"]) == 0
    assert (broken / "jobfeatures/slurm-777/wall_limit_secs").read_text() == "420\n"
    assert (broken / "machinefeatures/total_cpu").read_text() == "5\n"
    said = capfd.readouterr().err
    assert "level=error" in said
    assert "the last good configuration is used" in said
    assert said.count("reason=configuration") == 1


def test_without_a_good_one_the_defaults_are_taken(broken, capfd):
    assert main(["publish", "--batch", "slurm", "--strict"]) == 0
    assert (broken / "jobfeatures/slurm-777").is_dir()
    assert "defaults are used" in capfd.readouterr().err
    assert main(["remove", "--batch", "slurm", "--strict"]) == 0
    assert not (broken / "jobfeatures/slurm-777").exists()


@pytest.mark.parametrize("fault", ["writable", "another's", "link"])
def test_a_kept_configuration_that_others_could_have_written_is_not_taken(broken, capfd, fault, tmp_path):
    kept = keep(broken, "machine.total_cpu = 5\n")
    if fault == "writable":
        kept.chmod(0o620)
    elif fault == "link":
        kept.rename(tmp_path / "elsewhere")
        kept.symlink_to(tmp_path / "elsewhere")
    elif os.geteuid() == 0:
        os.chown(kept, 6001, -1)
    else:
        pytest.skip("only root can give a file away")
    assert main(["publish", "--batch", "slurm", "--strict"]) == 0
    assert "defaults are used" in capfd.readouterr().err


def test_a_broken_variable_is_passed_over_with_the_others(broken, capfd, monkeypatch):
    monkeypatch.delenv("JOBFEATURES_CONFIG_FILE")
    monkeypatch.setenv("JOBFEATURES_HOOK_ASK", "sometimes")
    keep(broken, "machine.total_cpu = 5\n")
    assert main(["publish", "--batch", "slurm", "--strict"]) == 0
    assert (broken / "machinefeatures/total_cpu").read_text() == "5\n"
    assert "JOBFEATURES_HOOK_ASK" in capfd.readouterr().err
