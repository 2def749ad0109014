"""Answers of batch systems that other projects keep as examples, where somebody has them beside this one.

They are not ours to hand on: set JOBFEATURES_DATA to a folder with ``batch/`` in it. The
values were read from the files by eye and stand here.
"""

import json
import os
from dataclasses import fields
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from jobfeatures.batch.gridengine.answers import RequestedLimits, parse_asked_jobs
from jobfeatures.batch.gridengine.queue import parse_queue
from jobfeatures.batch.slurm.cluster import parse_node
from jobfeatures.batch.slurm.json.cluster import parse_json_node, parse_json_partition
from jobfeatures.batch.slurm.json.log import read_records, recognise
from jobfeatures.batch.slurm.json.values import JsonRecord
from jobfeatures.batch.slurm.record import parse_scontrol_job
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.records.model import JobState

FOLDER = os.environ.get("JOBFEATURES_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="JOBFEATURES_DATA names no folder of public examples")
UTC = ZoneInfo("UTC")
MIB = 2**20
CLOCKWORK = "clockwork/slurm_state_test/files"
RIVOS = "rivos-slurm-exporter/exporter/fixtures"
SGE = "ood_core/spec/job/adapters/sge/output_examples"


def read(name):
    path = Path(FOLDER) / "batch" / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path.read_bytes()


def records(name):
    text = read(name).decode()
    assert recognise(text[:4096])
    return list(read_records(text.splitlines(keepends=True), source=name, notes=Notes()))


def one_line_each(name):
    """Return what scontrol prints with -o of the same."""
    blocks = read(name).decode().strip().split("\n\n")
    return [" ".join(line.strip() for line in block.splitlines()) for block in blocks]


def test_accounting_as_json_of_slurm_21():
    first, second = records(f"{CLOCKWORK}/sacct_1")
    assert (first.job_id, first.name, first.user, first.account) == (
        "10",
        "test-job-1",
        "nobody",
        "def-cerise-rrg",
    )
    assert (first.state, second.state) == (JobState.NODE_FAIL, JobState.PREEMPTED)
    assert (first.submit_secs, first.eligible_secs, first.end_secs) == (1680193479, 1680193504, None)
    assert (first.wall_limit_secs, first.requested_cpus) == (1440 * 60, 4)
    assert first.requested_memory_bytes == 40960 * MIB
    assert (first.nodes, first.partition) == (("cdr1",), "partition1")
    assert (second.job_id, second.end_secs) == ("20", 1680215981)
    assert [each.name for each in records(f"{CLOCKWORK}/sacct_2")] == ["new_name", "submitit"]


def test_no_job_of_slurm_web_is_rejected():
    """What slurmrestd of Slurm 24.11 and 25.05 answers, v0.0.41 to v0.0.43."""
    folder = Path(FOLDER) / "batch/slurm-web/slurmrestd"
    paths = sorted(folder.glob("*/*/slurm*job*.json"))
    if not paths:
        pytest.skip(f"{folder} is not there")
    read = 0
    for path in paths:
        text = path.read_text()
        if recognise(text[:4096]):
            found = list(read_records([text], source=path.name, notes=Notes()))
            assert not any(isinstance(each, Rejected) for each in found), (path, found)
            read += len(found)
    assert read > 300


def known(record):
    return {each.name for each in fields(record) if getattr(record, each.name) not in (None, (), "", {})}


# Captured of another kind of job or node in one of the versions.
NOT_ALIKE = {
    "slurm-job-gpus-completed.json": {"end_secs", "exit_status"},
    "slurmdb-job-archived.json": {"exit_status"},
    "slurmdb-job-gpus-completed.json": {
        *("end_secs", "exit_status", "used_cpu_secs", "user_cpu_secs", "system_cpu_secs"),
    },
    "slurm-node-idle.json": {"gpus", "allocated_gpus"},
    "slurm-node-planned.json": {"gpus", "allocated_gpus"},
}


def test_slurm_web_s_versions_tell_the_same_fields_but_for_restarts_in_accounting():
    told = {}
    for path in sorted((Path(FOLDER) / "batch/slurm-web/slurmrestd").glob("*/*/*.json")):
        document = json.loads(path.read_text())
        if not isinstance(document, dict):
            continue
        found = [parse_json_node(JsonRecord(each)) for each in document.get("nodes") or ()]
        found += [parse_json_partition(JsonRecord(each)) for each in document.get("partitions") or ()]
        if document.get("jobs"):
            found += read_records([path.read_text()], source=path.name, notes=Notes())
        if found:
            each_of = set.intersection if len(found) < 3 else set.union
            told.setdefault(path.name, {})[path.parts[-3:-1]] = each_of(*map(known, found))
    if not told:
        pytest.skip("slurm-web's answers are not there")
    assert len(told) > 40
    for name, versions in told.items():
        differ = set.union(*versions.values()) - set.intersection(*versions.values())
        assert differ <= NOT_ALIKE.get(name, set()) | {"restarts"}, name
        if name.startswith("slurmdb-job"):
            assert all(
                ("restarts" in told_of) <= (version >= "0.0.42") for (_, version), told_of in versions.items()
            )


def test_queues_as_json_with_plain_numbers_and_with_numbers_in_objects():
    running, pending = records(f"{RIVOS}/squeue_out.json")
    assert (running.job_id, running.state, running.user) == ("26515966", JobState.RUNNING, "bkd")
    assert (running.submit_secs, running.start_secs, running.end_secs) == (1684114900, 1684114921, None)
    assert (running.wall_limit_secs, running.total_cpus, running.nodes) == (30240 * 60, 1, ("cs75",))
    assert running.requested_memory_bytes == 64000 * MIB  # per CPU, of which it has one
    assert (pending.job_id, pending.state, pending.start_secs) == ("58948420", JobState.PENDING, None)
    assert (pending.wall_limit_secs, pending.requested_memory_bytes) == (1439 * 60, 131072 * MIB)
    assert (pending.array_job_id, pending.array_task_id) == ("58948420", "1-10")


def test_nodes_as_json():
    nodes = [
        parse_json_node(JsonRecord(each)) for each in json.loads(read(f"{RIVOS}/sinfo_out.json"))["nodes"]
    ]
    assert [(node.name, node.states) for node in nodes[:3]] == [
        ("cs2.example.company.com", ("MIXED",)),
        ("cs3.example.company.com", ("IDLE",)),
        ("cs4.example.company.com", ("ALLOCATED",)),
    ]
    assert (nodes[0].cpus, nodes[0].allocated_cpus, nodes[0].memory_bytes) == (64, 4, 500000 * MIB)
    down = [parse_json_node(JsonRecord(each)) for each in json.loads(read(f"{CLOCKWORK}/sinfo_1"))["nodes"]]
    assert [(node.name, node.states) for node in down] == [
        ("test-node-1", ("DOWN", "NOT_RESPONDING")),
        ("test-node-2", ("DOWN", "DRAIN")),
    ]


def test_jobs_as_scontrol_prints_them():
    shell, training = (
        parse_scontrol_job(line, node_name=None, tz=UTC)
        for line in one_line_each(f"{CLOCKWORK}/scontrol_job_2")
    )
    assert (shell.key.job_id, shell.state, shell.user, shell.uid) == ("1", JobState.PENDING, "nobody", 65535)
    assert (shell.submit_secs, shell.start_secs, shell.limits.wall_secs) == (1608050648, None, 7 * 86400)
    assert (training.name, training.restarts, training.total_cpus) == ("imagenet.sh", 11, 10)
    assert (training.limits.memory_bytes, training.limits.cpu_secs) == (40 * 2**30, 7 * 86400 * 10)


def test_nodes_as_scontrol_prints_them():
    first, second = map(parse_node, one_line_each(f"{CLOCKWORK}/scontrol_node_2"))
    assert (first.name, first.states, first.gpus, first.allocated_gpus) == ("test-node", ("MIXED",), 8, 8)
    assert (first.cpus, first.memory_bytes) == (10, 386619 * MIB)  # CPUEfctv: what jobs may have
    assert (second.cpus, second.allocated_cpus, second.allocated_memory_bytes) == (80, 34, 196976 * MIB)
    assert len(list(map(parse_node, one_line_each(f"{CLOCKWORK}/scontrol_node_3")))) == 5


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("qstat_jr.xml", {"4147342": RequestedLimits(86400)}),
        ("qstat_jr_multislot.xml", {"942195": RequestedLimits(518400)}),
        ("uge_qstat_jr.xml", {"748172": RequestedLimits(14400)}),
    ],
)
def test_limits_as_three_kinds_of_grid_engine_tell_them(name, jobs):
    assert parse_asked_jobs(read(f"{SGE}/{name}")) == (jobs, [])


def test_a_job_that_grid_engine_does_not_know():
    assert list(parse_asked_jobs(read(f"{SGE}/qstat_jr_missing.xml"))[0].values()) == [
        RequestedLimits(known=False)
    ]


def test_the_queue_of_grid_engine():
    table = parse_queue(read(f"{SGE}/qstat_r.xml"), taken_at_secs=0, tz=UTC)
    found = {key.job_id: (job.state, job.name, job.limits.wall_secs) for key, job in table.jobs.items()}
    assert found["88"] == (JobState.RUNNING, "job_15", 360)
    assert found["1045"] == (JobState.PENDING, "job_RQ", 360)
    assert len(found) == 4
    [running] = [job for job in table.jobs.values() if job.state is JobState.RUNNING]
    assert (running.user, running.account, running.start_secs) == ("vagrant", "project_a", 1539182236)
    assert table.rejected == ()
