"""The controller role on a real Slurm, whose users write what they like into their jobs' names."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.batch.slurm.answers import Scontrol
from jobfeatures.batch.slurm.refused import ask_squeue
from jobfeatures.formats.sonar.validate import validate_envelope

BIN = Path(sys.executable).parent
CLUSTER = "hpc.example.org"
HOSTILE = 'end\n7\x1fJobId=7 JobName=x UserId=root(0)\n\x1f1|2\t"q" \\ ${x} \'; ü'


@pytest.fixture
def controller(slurm, start_exporter):
    """Return a function that starts the controller role."""

    def start(*flags: str):
        return start_exporter(
            "--role", "controller", "--batch.sources", "slurm", "--controller.interval", "1s", *flags,
            environ=slurm.environ,
        )  # fmt: skip

    return start


@pytest.fixture
def document(slurm):
    """Return a function that runs a command that prints one document."""

    def run(command: str, profile: str = "current") -> dict:
        done = subprocess.run(
            [BIN / "jobfeatures-exporter", "sonar", command, "--cluster", CLUSTER, "--sonar.profile", profile],
            env={**os.environ, **slurm.environ}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        found = json.loads(done.stdout)
        assert validate_envelope(found, profile=profile, strict=True) == []
        return found["data"]["attributes"]

    return run


def value(exporter, name, **labels):
    """Return the value of the one series with these labels; None if there is none."""
    found = list(exporter.series(name, batch_system="slurm", **labels).values())
    assert len(found) <= 1
    return found[0] if found else None


def other_node(slurm) -> str:
    names = set(slurm.run("sinfo", "-h", "-N", "-o", "%N").split()) - {slurm.node}
    assert len(names) == 1
    return names.pop()


def test_jobs_are_counted_by_partition_and_state(slurm, controller, until):
    running = slurm.submit("sleep 60", "-J", HOSTILE, "-p", "batch", "-n", "2")
    slurm.wait(running, "RUNNING")
    slurm.submit("sleep 60", "-H", "-J", "held", "-p", "long", "-n", "1")
    slurm.submit("sleep 60", "--begin", "now+1hour", "-p", "batch,long", "--array", "1-5,9%2")
    exporter = controller()
    assert value(exporter, "batch_queue_jobs", partition="batch", state="RUNNING") == 1
    assert value(exporter, "batch_queue_cpus", partition="batch", state="RUNNING") == 2
    assert value(exporter, "batch_queue_jobs", partition="long", state="RUNNING") == 0
    assert value(exporter, "batch_queue_jobs", partition="batch", state="PENDING") == 6
    assert value(exporter, "batch_queue_jobs", partition="long", state="PENDING") == 7
    assert value(exporter, "batch_queue_pending_jobs", partition="long", reason="JobHeldUser") == 1
    assert value(exporter, "batch_queue_oldest_wait_seconds", partition="long") == 0
    assert exporter.series("batch_exporter_source_rejected_records_total", source="slurm-queue") == {
        (("source", "slurm-queue"),): 0
    }
    assert exporter.series("batch_node_load1") == {}
    slurm.run("scancel", running)
    until(lambda: value(exporter, "batch_queue_jobs", partition="batch", state="RUNNING") == 0)


def test_jobs_that_slurm_holds_under_any_reason_do_not_wait(slurm, controller, until):
    """Requeued into hold, and with constraints that cannot be met: nobody but a person lets them start."""
    requeued = slurm.submit("sleep 60", "-p", "batch", "-n", "1", "--requeue")
    slurm.wait(requeued, "RUNNING")
    slurm.run("scontrol", "requeuehold", requeued)
    slurm.wait(requeued, "PENDING")
    waiting = slurm.submit(
        "sleep 60", "-p", "batch", "--exclusive", "-N", "2", "--dependency", f"after:{requeued}"
    )
    told = slurm.run("squeue", "-h", "-j", requeued, "-O", "Reason:60,PriorityLong:20")
    assert told.replace("_", " ").rpartition("state")[0].strip() == "job requeued in held"
    assert told.split()[-1] == "0"
    exporter = controller()
    assert value(exporter, "batch_queue_not_eligible_jobs", partition="batch", cause="held") == 1
    assert value(exporter, "batch_queue_not_eligible_jobs", partition="batch", cause="dependent") == 1
    assert value(exporter, "batch_queue_waiting_jobs", partition="batch") == 0
    assert value(exporter, "batch_queue_oldest_wait_seconds", partition="batch") == 0
    slurm.run("scancel", requeued, waiting)
    until(lambda: value(exporter, "batch_queue_jobs", partition="batch", state="PENDING") == 0)


def test_a_job_that_has_left_the_queue_is_no_failure_when_it_is_asked_for_alone(slurm, monkeypatch):
    for name, text in slurm.environ.items():
        monkeypatch.setenv(name, text)
    job = slurm.submit("sleep 60", "-p", "batch")

    def asked(*ids):
        return ask_squeue(Scontrol(timeout_secs=60.0).programs, ids, node_name=None).keys()

    assert asked("99999990") == set()
    assert asked("99999990", job) == {job}
    assert asked(job) == {job}
    slurm.run("scancel", job)


def test_a_drained_node_shows_and_its_reason_forges_nothing(slurm, controller, until):
    exporter = controller()
    drained = other_node(slurm)
    assert value(exporter, "batch_cluster_nodes", partition="batch", state="IDLE") == 2
    total = value(exporter, "batch_cluster_cpus", partition="batch", kind="idle")
    reason = f'kernel\nNodeName={slurm.node} State=DOWN CPUAlloc=9 "q"'
    slurm.run("scontrol", "update", f"nodename={drained}", "state=drain", f"reason={reason}")
    try:
        until(lambda: value(exporter, "batch_cluster_nodes_flagged", partition="batch", flag="DRAIN") == 1)
        assert value(exporter, "batch_cluster_nodes", partition="batch", state="IDLE") == 2
        assert value(exporter, "batch_cluster_nodes", partition="batch", state="DOWN") == 0
        assert value(exporter, "batch_cluster_cpus", partition="batch", kind="other") == total / 2
        assert value(exporter, "batch_cluster_cpus", partition="batch", kind="idle") == total / 2
    finally:
        slurm.run("scontrol", "update", f"nodename={drained}", "state=resume")
    until(lambda: value(exporter, "batch_cluster_nodes_flagged", partition="batch", flag="DRAIN") == 0)


def test_prometheus_discovers_the_nodes(slurm, controller, prometheus, until):
    exporter = controller("--controller.sd-port", "9817")
    nodes = {slurm.node, other_node(slurm)}
    assert {each["labels"]["__meta_batch_node"] for each in json.loads(exporter.get("/sd"))} == nodes
    query = prometheus(exporter.address, discovery=f"http://{exporter.address}/sd")
    until(lambda: len(query('up{job="discovered"}')) == 2)
    labels = {each["node"]: each for each in map(json.loads, query('up{job="discovered"}'))}
    assert labels.keys() == nodes
    assert labels[slurm.node]["instance"] == f"{slurm.node}:9817"
    assert labels[slurm.node]["partitions"] == ",batch,long,"
    assert labels[slurm.node]["system"] == "slurm"
    until(lambda: query(f'up{{instance="{exporter.address}"}} == 1'))
    assert until(lambda: query('sum(batch_cluster_nodes{partition="batch"})')) == {"{}": 2}


@pytest.mark.parametrize("profile", ["current", "seed"])
def test_jobs_and_their_steps_are_a_valid_document(slurm, document, until, profile):
    job_id = slurm.submit("srun -n1 sleep 0.2\nexit 3", "-J", HOSTILE, "-p", "long", "-t", "7")
    slurm.wait(job_id, "FAILED")
    array = slurm.submit("sleep 300", "--array", "1-3%1", "-p", "batch")
    slurm.wait(array, "PENDING", "RUNNING")

    def records():
        jobs = [each for each in document("jobs", profile)["slurm_jobs"] if each["job_id"] == int(job_id)]
        found = {each["job_step"]: each for each in jobs}
        return found if found.keys() >= {"", "batch", "extern", "0"} else None

    found = until(records)  # until accounting knows of it the queue reports the job, without steps
    job = found[""]
    assert job["job_state"] == "FAILED"
    assert job["job_name"] == HOSTILE.replace('"', "`")  # accounting writes it so
    assert (job["user_name"], job["account"], job["partition"]) == ("alice", "physics", "long")
    assert (job["exit_code"], job["nodes"]) == (3, [slurm.node])
    assert job["time_limit"] == (422 if profile == "current" else 9)
    assert job["end_time"] >= job["start_time"] >= job["submit_time"]
    assert found["0"]["sacct"]["AllocTRES"].startswith("cpu=1,")
    tasks = [
        each for each in document("jobs", profile)["slurm_jobs"] if each.get("array_job_id") == int(array)
    ]
    assert {each.get("array_task_id") for each in tasks if not each["job_step"]} >= {1, None}


def test_the_cluster_is_a_valid_document(slurm, document):
    found = document("cluster")
    both = [f"{slurm.node[:-1]}[1-2]"]
    assert found["slurm"] is True
    assert found["partitions"] == [{"name": "batch", "nodes": both}, {"name": "long", "nodes": both}]
    assert [name for each in found["nodes"] for name in each["names"]] == both


def test_the_daemon_sends_what_changed(slurm, controller, tmp_path, until):
    tree = tmp_path / "tree"
    tree.mkdir()
    controller(
        "--sonar.cluster", CLUSTER, "--sonar.sinks", "tree", "--sonar.tree-directory", str(tree),
        "--sonar.jobs-interval", "1s", "--sonar.cluster-interval", "1s",
    )  # fmt: skip
    job_id = int(slurm.submit("sleep 3", "-J", HOSTILE))

    def documents():  # a busy Slurm may not answer in time, of which a document of errors tells
        decoder, found = json.JSONDecoder(), []
        for path in sorted(tree.rglob("0+*.json")):
            text = path.read_text().strip()
            while text:
                each, end = decoder.raw_decode(text)
                found.append(each)
                text = text[end:].lstrip()
        return found

    def told():
        answers = [each["data"]["attributes"] for each in documents() if "errors" not in each]
        records = [
            job
            for each in answers
            for job in each.get("slurm_jobs", [])
            if (job["job_id"], job["job_step"]) == (job_id, "")
        ]
        return records if any(job["job_state"] == "COMPLETED" for job in records) else None

    records = until(told, 60)
    states = [job["job_state"] for job in records]
    assert states[-1] == "COMPLETED"
    assert sum("submit_time" in job for job in records) == 1  # it does not change
    assert "end_time" in records[-1]
    assert {"job", "cluster"} == {each["data"]["type"] for each in documents() if "errors" not in each}
    assert all(validate_envelope(each, profile="current", strict=True) == [] for each in documents())


def test_the_checker_has_nothing_to_say(slurm, tmp_path):
    environ = {**os.environ, **slurm.environ}
    for command in ("jobs", "cluster"):
        file = tmp_path / f"{command}.json"
        with file.open("wb") as output:
            subprocess.run(
                [BIN / "jobfeatures-exporter", "sonar", command, "--cluster", CLUSTER], env=environ, stdout=output, check=True
            )  # fmt: skip
        subprocess.run([BIN / "jobfeatures", "check", file], check=True)


def test_a_controller_that_is_away_costs_no_scrape(slurm, controller, tmp_path, until):
    exporter = controller("--controller.timeout", "2s")
    conf = Path(slurm.environ["SLURM_CONF"])
    kept = tmp_path / "slurm.conf"
    shutil.copy(conf, kept)
    conf.write_text(kept.read_text().replace("SlurmctldPort=", "SlurmctldPort=1\n#"))
    try:
        until(lambda: exporter.series("batch_exporter_source_up", source="slurm-nodes")[
            (("source", "slurm-nodes"),)
        ] == 0)  # fmt: skip
        assert value(exporter, "batch_cluster_nodes", partition="batch", state="IDLE") == 2
        assert len(json.loads(exporter.get("/sd"))) == 2
    finally:
        shutil.copy(kept, conf)
    until(lambda: exporter.series("batch_exporter_source_up", source="slurm-nodes")[
        (("source", "slurm-nodes"),)
    ] == 1)  # fmt: skip


def test_a_cluster_without_accounting_tells_of_its_queue(slurm, document, tmp_path):
    job_id = slurm.submit("sleep 300", "-J", HOSTILE, "-t", "7")
    slurm.wait(job_id, "RUNNING")
    conf = Path(slurm.environ["SLURM_CONF"]).read_text()
    without = (
        re.sub(r"(?m)^AccountingStorage.*\n", "", conf) + "AccountingStorageType=accounting_storage/none\n"
    )
    (tmp_path / "slurm.conf").write_text(without)
    slurm.environ["SLURM_CONF"] = str(tmp_path / "slurm.conf")
    [job] = [each for each in document("jobs")["slurm_jobs"] if each["job_id"] == int(job_id)]
    assert (job["job_name"], job["job_state"], job["time_limit"]) == (HOSTILE, "RUNNING", 422)
    assert "sacct" not in job


def test_where_nobody_answers_the_document_says_so(slurm, tmp_path):
    (tmp_path / "slurm.conf").write_text("ClusterName=nobody\nSlurmctldHost=localhost(127.0.0.1)\n")
    environ = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    for command in ("jobs", "cluster"):
        done = subprocess.run(
            [BIN / "jobfeatures-exporter", "sonar", command, "--cluster", CLUSTER, "--controller.timeout", "3s"],
            env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        found = json.loads(done.stdout)
        assert validate_envelope(found, profile="current", strict=True) == []
        assert len(found["errors"]) == 1
