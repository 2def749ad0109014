"""Accounting and the cluster of Slurm's JSON: captured from 22.05, 24.11 and 26.05, versions between them constructed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobfeatures.batch.slurm.cluster import parse_node, parse_partition
from jobfeatures.batch.slurm.json.accounting import parse_json_accounting, version_of
from jobfeatures.batch.slurm.json.cluster import parse_json_cluster, parse_json_node, parse_json_notice
from jobfeatures.batch.slurm.json.values import JsonRecord, parse_document
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, JobState, NodeNotice
from tests.jobfeatures.batch.slurm.shapes import (
    NEWER,
    newer_db_job,
    newer_document,
    newer_node,
    newer_partition,
)

FIXTURES = Path(__file__).parents[4] / "fixtures" / "slurm" / "json"


def document(name: str) -> JsonRecord:
    return parse_document((FIXTURES / f"{name}.json").read_bytes(), source=name)


def records_of(found: JsonRecord):
    answer = parse_json_accounting(found, source="sacct", taken_at_secs=1.0)
    assert answer.rejected == ()
    return answer.records


def newer(version: str) -> JsonRecord:
    captured = document("accounting-v0.0.38").values
    jobs = [newer_db_job(job, version) for job in captured["jobs"]]
    return parse_document(json.dumps(newer_document(captured, "jobs", jobs, version)), source=version)


def job(records, job_id: str, step: str = ""):
    return [each for each in records if each.job_id == job_id and (each.step or "") == step][-1]


def test_jobs_hold_their_steps():
    records = records_of(document("accounting-v0.0.38"))
    assert [each.step for each in records if each.job_id == "12"] == [None, "batch", "extern", "0", "1"]
    whole, step = job(records, "12"), job(records, "12", "0")
    assert (whole.name, whole.user, whole.account, whole.nodes) == ("steps", "alice", "physics", ("labE2",))
    assert whole.requested_memory_bytes == 200 * 2**20
    assert dict(whole.more)["requested_resources"] == "cpu=2,mem=200M,node=1,billing=2"
    assert int(whole.user_cpu_secs + whole.system_cpu_secs) == 5  # of its steps
    assert dict(step.more)["max_resident_bytes"] == 33504 * 1024
    assert dict(step.more)["average_cpu_secs"] == 2
    assert (step.account, step.requested_cpus) == ("physics", 2)


def test_a_limit_that_was_not_recorded_is_not_known():
    values = document("accounting-v0.0.38").values
    values["jobs"][0]["time"]["limit"] = 0  # seen in 22.05, of a job that ended at once
    assert records_of(JsonRecord(values))[0].wall_limit_secs is None


def test_a_requeued_job_is_there_twice():
    states = [
        (each.state, each.state_word)
        for each in records_of(document("accounting-v0.0.38"))
        if each.job_id == "14" and not each.step
    ]
    assert states == [(JobState.PREEMPTED, "REQUEUED"), (JobState.COMPLETED, None)]


@pytest.mark.parametrize(
    ("code", "batch_step", "end"),
    [
        (0, "CANCELLED", (JobState.PREEMPTED, None)),
        (0, "COMPLETED", (JobState.UNKNOWN, None)),
        (3, "FAILED", (JobState.FAILED, 3)),
    ],
)
def test_a_run_that_is_requeued_at_its_end_was_not_taken_from_its_node(code, batch_step, end):
    values = document("accounting-26.05-v0.0.45").values
    [requeued] = [each for each in values["jobs"] if "REQUEUED" in each["state"]["current"]]
    requeued["exit_code"]["return_code"]["number"] = code
    requeued["steps"][0]["state"] = [batch_step]
    run = next(each for each in records_of(JsonRecord(values)) if each.job_id == "9")
    assert (run.state, run.exit_status) == end


@pytest.mark.parametrize("version", ["24.11-v0.0.42", "26.05-v0.0.45"])
def test_captured_accounting_of_later_versions_tells_how_jobs_ended(version):
    """A requeued job's first run is called PENDING and REQUEUED there, and has its times."""
    records = [each for each in records_of(document(f"accounting-{version}")) if not each.step]
    states = [(each.state.value, each.run_secs is None, bool(each.user)) for each in records]
    assert sorted(states) == sorted(
        (state, False, True)
        for state in (*["COMPLETED"] * 4, "CANCELLED", "FAILED", "OUT_OF_MEMORY", "PREEMPTED")
    )
    [first] = [each for each in records if each.state_word == "REQUEUED"]
    assert first.end_secs - first.start_secs == first.run_secs
    by_id = {each.job_id: each for each in records}
    assert (by_id["1"].wall_limit_secs, by_id["1"].requested_cpus, by_id["1"].requested_memory_bytes) == (
        420,
        2,
        120 * 2**20,
    )


def test_old_versions_are_not_believed_where_they_are_wrong():
    old, oldest = records_of(document("accounting-v0.0.38")), records_of(document("accounting-v0.0.37"))
    assert job(old, "8").exit_status is None  # it was 3, and 0 is reported
    assert job(old, "7").exit_status == 0
    assert job(oldest, "8").start_secs == job(old, "8").start_secs  # reported: when it became eligible
    assert job(old, "3").wall_limit_secs is None  # null means unknown or unlimited
    assert job(oldest, "2").end_secs is None or job(oldest, "2").state is not JobState.RUNNING


@pytest.mark.parametrize("version", NEWER)
def test_later_versions_have_the_same_and_more(version):
    found, old = records_of(newer(version)), records_of(document("accounting-v0.0.38"))
    assert version_of(newer(version)) == version
    assert [(each.key, each.step, each.state) for each in found] == [
        (each.key, each.step, each.state) for each in old
    ]
    assert [each.used_memory_bytes for each in found] == [each.used_memory_bytes for each in old]
    assert [each.end_secs for each in found] == [each.end_secs for each in old]
    assert job(found, "3").wall_limit_secs is UNLIMITED
    assert job(found, "9").array_task_id == "1"


def test_a_bad_job_and_a_bad_step_cost_themselves_only():
    values = document("accounting-v0.0.38").values
    values["jobs"][0]["job_id"] = "x"
    values["jobs"][1]["steps"][0]["step"]["id"] = "no step"
    answer = parse_json_accounting(JsonRecord(values), source="sacct", taken_at_secs=1.0)
    assert len(answer.rejected) == 2
    assert len(answer.records) == len(records_of(document("accounting-v0.0.38"))) - 3 - 1


@pytest.mark.parametrize(("count", "is_told"), [(-2, False), (-7, True), ("many", True), (None, False)])
def test_energy_that_is_no_number_costs_itself_only_and_is_named(count, is_told):
    """Constructed; Slurm 24.05 and later report a count of -2 for a job without energy."""
    values = document("accounting-v0.0.38").values
    values["jobs"][0]["tres"]["allocated"].append({"type": "energy", "name": "", "id": 3, "count": count})
    answer = parse_json_accounting(JsonRecord(values), source="sacct", taken_at_secs=1.0)
    assert answer.records == records_of(document("accounting-v0.0.38"))
    told = f"unreadable tres.allocated.energy, such as '{count}': unknown in 1"
    assert [each.reason for each in answer.rejected] == [told] * is_told


def test_a_state_that_nobody_knows_has_an_end_as_in_the_text_of_sacct():
    values = {"job_id": 5, "state": {"current": ["MOVED_AWAY"]}, "time": {"elapsed": 10, "end": 20}}
    found = records_of(JsonRecord({"jobs": [values]}))[0]
    assert (found.state, found.end_secs) == (JobState.UNKNOWN, 20)


@pytest.mark.parametrize(("count", "joules"), [(0, None), (512, 512)])
def test_an_energy_of_0_is_not_known(count, joules):
    values = document("accounting-v0.0.38").values
    values["jobs"][0]["tres"]["allocated"].append({"type": "energy", "name": "", "id": 3, "count": count})
    assert records_of(JsonRecord(values))[0].energy_joules == joules


def test_cpu_time_that_neither_job_nor_steps_report_is_not_known():
    values = {"job_id": 5, "state": {"current": ["COMPLETED"]}, "time": {"elapsed": 10}}
    values["steps"] = [{"step": {"id": "5.batch"}, "state": ["COMPLETED"], "time": {"elapsed": 10}}]
    found = records_of(JsonRecord({"jobs": [values]}))[0]
    assert (found.user_cpu_secs, found.system_cpu_secs, found.used_cpu_secs) == (None, None, None)


def test_cpus_that_are_no_number_cost_the_job():
    values = document("accounting-v0.0.38").values
    for each in values["jobs"][0]["tres"]["allocated"]:
        each["count"] = -7
    assert len(parse_json_accounting(JsonRecord(values), source="sacct", taken_at_secs=1.0).rejected) == 1


def test_an_answer_without_jobs_is_none():
    with pytest.raises(ParseError, match="no list of jobs"):
        parse_json_accounting(JsonRecord({}), source="sacct", taken_at_secs=1.0)


# --- nodes, partitions, reservations -----------------------------------------------


@pytest.mark.parametrize("version", ["v0.0.37", "v0.0.38", "v0.0.43"])
def test_nodes_and_partitions_equal_those_of_the_text(version):
    if version == "v0.0.43":
        nodes = {"nodes": [newer_node(each) for each in document("nodes-v0.0.38").values["nodes"]]}
        partitions = [newer_partition(each) for each in document("partitions-v0.0.38").values["partitions"]]
        found = parse_json_cluster(
            JsonRecord(nodes), JsonRecord({"partitions": partitions}), source="rest", taken_at_secs=1.0
        )
    else:
        found = parse_json_cluster(
            document(f"nodes-{version}"), document(f"partitions-{version}"), source="rest", taken_at_secs=1.0
        )
    lines = (FIXTURES / "nodes.txt").read_text().splitlines()
    assert found.nodes == tuple(parse_node(line) for line in lines)
    lines = (FIXTURES / "partitions.txt").read_text().splitlines()
    assert found.partitions == tuple(parse_partition(line) for line in lines)
    assert found.rejected == ()


@pytest.mark.parametrize("version", ["v0.0.37", "v0.0.38"])
def test_maintenance_of_a_node_is_announced(version):
    def notice(node_name: str, now_secs: float = 1.0):
        return parse_json_notice(
            document(f"nodes-{version}"),
            document(f"reservations-{version}"),
            node_name=node_name,
            now_secs=now_secs,
            source="rest",
        )

    assert notice("labE1").notice == NodeNotice(False, (1795271348,), 4)
    assert notice("labE2").notice == NodeNotice(False, (), 4)
    assert notice("labE1", 1795274948).notice == NodeNotice(False, (), 4)  # over
    assert notice("other").notice is None
    assert notice("other").rejected


def test_a_maintenance_that_floats_is_left_out_and_said():
    node = JsonRecord({"nodes": [{"name": "n1", "state": ["IDLE"]}]})
    floats = {"flags": ["MAINT", "TIME_FLOAT"], "start_time": 400, "end_time": 4000, "node_list": "n1"}
    real = {"flags": ["MAINT"], "start_time": 900, "end_time": 4000, "node_list": "n[1-2]"}
    reservations = JsonRecord({"reservations": [floats, real, {**floats, "node_list": "n2"}]})
    found = parse_json_notice(node, reservations, node_name="n1", now_secs=100.0, source="rest")
    assert found.notice == NodeNotice(False, (900,))
    assert ["TIME_FLOAT" in str(each) for each in found.rejected] == [True]


@pytest.mark.parametrize(
    "state",
    [
        {"state": "idle", "state_flags": ["DRAIN"]},
        {"state": ["IDLE", "DRAIN"]},
        {"state": ["MIXED", "FAIL"]},
        {"state": ["IDLE", "MAINTENANCE"]},
    ],
)
def test_a_draining_node_is_reported(state):
    node = JsonRecord({"nodes": [{"name": "n1", **state}]})
    found = parse_json_notice(node, JsonRecord({}), node_name="n1", now_secs=1.0, source="rest")
    assert found.notice == NodeNotice(True, ())


def test_gpus_of_nodes():
    record = {
        "name": "n1",
        "state": ["MIXED"],
        "cpus": 4,
        "tres": "cpu=4,gres/gpu=2",
        "tres_used": "cpu=1,gres/gpu=1",
    }
    node = parse_json_node(JsonRecord(record))
    assert (node.gpus, node.allocated_gpus) == (2, 1)
    node = parse_json_node(
        JsonRecord({**record, "tres": "", "gres": "gpu:a100:4", "gres_used": "gpu:a100:3(IDX:0-2)"})
    )
    assert (node.gpus, node.allocated_gpus) == (4, 3)


@pytest.mark.parametrize(
    "record", [{}, {"name": "a[1-2]", "state": "idle"}, {"name": "a", "state": []}, {"name": 1}]
)
def test_what_is_no_node_is_refused(record):
    with pytest.raises(ParseError):
        parse_json_node(JsonRecord(record))


def test_a_job_that_failed_did_not_end_with_0_in_json_either():
    values = newer(NEWER[-1]).values
    failed = next(each for each in values["jobs"] if each["state"]["current"] in ("FAILED", ["FAILED"]))
    failed["exit_code"] = 0
    assert job(records_of(JsonRecord(values)), str(failed["job_id"])).exit_status is None
