"""Jobs of Slurm's JSON: captured from 22.05 (v0.0.37, v0.0.38), 24.11 (v0.0.42), 26.05 (v0.0.42, v0.0.45), else constructed."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.groups import checked_sluid
from jobfeatures.batch.slurm.json.jobs import parse_json_job, parse_json_jobs
from jobfeatures.batch.slurm.json.values import (
    JsonRecord,
    complaints,
    error_numbers,
    missing_field,
    parse_document,
    parse_number,
    state_word,
)
from jobfeatures.batch.slurm.record import parse_scontrol_job
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState
from tests.jobfeatures.batch.slurm.shapes import NEWER, newer_document, newer_job, number

FIXTURES = Path(__file__).parents[4] / "fixtures" / "slurm" / "json"
# Fields that are not read from scontrol's records.
BEYOND_TEXT = {
    "gres_detail",
    "min_cpus_per_node",
    "total_nodes",
    "total_gpus",
    "tasks",
    "reason",
    "eligible_secs",
    "planned_secs",
    "priority",
    "reservation",
}


def document(name: str) -> JsonRecord:
    return parse_document((FIXTURES / f"{name}.json").read_bytes(), source=name)


def jobs_of(found: JsonRecord, node_name: str | None = None) -> dict[str, Job]:
    table = parse_json_jobs(found, source="test", taken_at_secs=5.0, node_name=node_name)
    assert table.rejected == ()
    assert table.complete
    return {key.job_id: job for key, job in table.jobs.items()}


def shape(version: str) -> JsonRecord:
    """Return the captured queue in the shape of a version."""
    if version in {"v0.0.37", "v0.0.38"}:
        return document(f"jobs-{version}")
    captured = document("jobs-v0.0.38").values
    newer = [newer_job(job, version) for job in captured["jobs"]]
    return parse_document(json.dumps(newer_document(captured, "jobs", newer, version)), source=version)


def one(**changes: object) -> JsonRecord:
    values = {"job_id": 7, "job_state": "RUNNING", "name": "a", "cpus": 2, "nodes": "n1", **changes}
    return JsonRecord(values)


@pytest.mark.parametrize("version", ["v0.0.37", *NEWER])
@pytest.mark.parametrize("node_name", [None, "labE1", "labE2"])
def test_each_version_tells_the_same_of_the_same_jobs(version, node_name):
    assert jobs_of(shape(version), node_name) == jobs_of(document("jobs-v0.0.38"), node_name)


@pytest.mark.parametrize("node_name", [None, "labE1"])
def test_json_and_text_of_one_moment_tell_the_same(node_name):
    lines = (FIXTURES / "jobs.txt").read_text().split("\nJobId=")
    text = {}
    for line in lines:
        whole = line if line.startswith("JobId=") else f"JobId={line}"
        job = parse_scontrol_job(whole.rstrip("\n"), node_name=node_name, tz=UTC)
        text[job.key.job_id] = job
    found = jobs_of(document("jobs-v0.0.38"), node_name)
    assert found.keys() == text.keys()
    for job_id, job in text.items():
        for field in fields(Job):
            if field.name not in BEYOND_TEXT:
                assert getattr(found[job_id], field.name) == getattr(job, field.name), (job_id, field.name)


@pytest.mark.parametrize("preempted", [1795953968, {"set": True, "infinite": False, "number": 1795953968}])
def test_the_end_of_a_preempted_job_s_grace_is_its_deadline(preempted):
    times = {"start_time": 1795953965, "end_time": 1795954028, "time_limit": 30, "job_state": "RUNNING"}
    job = parse_json_job(one(**times, preempt_time=preempted))
    assert (job.deadline_secs, job.limits.wall_secs, job.limit_end_secs) == (1795954028, 1800, None)
    for calm in (0, None, {"set": True, "infinite": False, "number": 0}):
        job = parse_json_job(one(**times, preempt_time=calm))
        assert (job.deadline_secs, job.limit_end_secs) == (None, 1795954028)


def test_names_that_imitate_records_are_names():
    found = jobs_of(document("jobs-v0.0.38"))
    assert found["3"].name == 'two\nlines","job_id":1'
    assert found["9"].name == "JobId=1 State=RUNNING|x"
    assert found["1"].name == "plain"


def test_a_job_knows_its_share_of_a_node_its_limits_and_its_array():
    found = jobs_of(document("jobs-v0.0.38"), "labE1")
    assert (found["1"].allocated_cpus, found["1"].limits.memory_bytes) == (2, 200 * 2**20)
    assert found["1"].limits.scratch_bytes == 100 * 2**20
    assert (found["1"].limits.wall_secs, found["1"].limits.cpu_secs) == (600, 1200)
    assert found["3"].allocated_cpus is None  # of labE2
    assert found["3"].limits.wall_secs is UNLIMITED
    assert (found["9"].array_job_id, found["9"].array_task_id) == ("2", "1")
    assert (found["6"].het_job_id, found["6"].het_offset) == ("5", 1)
    assert found["4"].start_secs is None
    assert found["4"].reason == "BeginTime"


def test_generic_resources_by_node_and_the_least_of_cpus_are_slurms_own():
    found = jobs_of(document("jobs-v0.0.38"))
    assert found["1"].min_cpus_per_node == 1
    assert found["1"].gres_detail == ()
    job = parse_json_job(
        JsonRecord({"job_id": 7, "job_state": "RUNNING", "gres_detail": ["gpu:2(IDX:0-1)", "gpu:1(IDX:3)"]})
    )
    assert (job.gres_detail, job.min_cpus_per_node) == (("gpu:2(IDX:0-1)", "gpu:1(IDX:3)"), None)


def test_a_job_on_nodes_of_two_threads_a_core_is_counted_in_cpus():
    share = {
        "nodename": "n1",
        "memory_allocated": 10,
        "sockets": {"0": {"cores": {"0": "allocated", "1": "allocated"}}},
    }
    other = {**share, "nodename": "n2", "sockets": {"0": {"cores": {"0": "allocated"}}}}
    record = one(nodes="n[1-2]", cpus=6, job_resources={"nodes": "n[1-2]", "allocated_nodes": [share, other]})
    assert parse_json_job(record, node_name="n1").allocated_cpus == 4
    assert parse_json_job(record, node_name="n2").allocated_cpus == 2
    assert parse_json_job(record, node_name="n3").allocated_cpus is None


def test_cards_are_those_of_the_node_in_the_order_of_the_nodes():
    record = one(
        nodes="n[1-2]",
        gres_detail=["gpu:a100:2(IDX:0-1)", "gpu:a100:1(IDX:3)"],
        tres_alloc_str="cpu=2,gres/gpu=3",
    )
    job = parse_json_job(record, node_name="n2")
    assert (job.gpus, job.allocated_gpus, job.total_gpus) == (("3",), 1, 3)
    assert parse_json_job(one(gres_detail=["shard:1(IDX:0)"]), node_name="n1").allocated_gpus is None


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING"], JobState.RUNNING),
        (["RUNNING", "COMPLETING"], JobState.COMPLETING),
        (["CANCELLED", "COMPLETING"], JobState.COMPLETING),
        (["RUNNING", "CONFIGURING"], JobState.RUNNING),
        (["PENDING", "REQUEUE_HOLD"], JobState.PENDING),
        (["RUNNING", "POWER_UP_NODE"], JobState.RUNNING),
        (["SOMETHING_NEW"], JobState.UNKNOWN),
        ("OUT_OF_MEMORY", JobState.OUT_OF_MEMORY),
    ],
)
def test_a_state_is_a_word_or_a_list_of_a_state_and_flags(words, state):
    assert parse_json_job(one(job_state=words)).state is state


def test_the_flag_that_stands_for_a_job_is_the_one_that_commands_print():
    assert state_word(["POWER_UP_NODE"]) == ""
    assert state_word(["RUNNING", "STOPPED"]) == "STOPPED"


@pytest.mark.parametrize(
    ("tasks", "count"),
    [("1-5,9%2", 6), ("0x3E", 5), ("0x3E%1", 5), ("1,3,5-6,...", 4), ("7", 1)],
)
def test_a_pending_array_stands_for_its_tasks(tasks, count):
    job = parse_json_job(
        one(job_state="PENDING", array_job_id=7, array_task_id=None, array_task_string=tasks)
    )
    assert (job.array_task_id, job.tasks) == (tasks, count)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, None),
        (10, 10),
        (10.0, 10),
        (4294967294, None),
        (4294967295, UNLIMITED),
        (18446744073709551614, None),
        (-2, None),
        ({"set": True, "infinite": False, "number": 10}, 10),
        ({"set": False, "infinite": False, "number": 10}, None),
        ({"set": False, "infinite": True, "number": 0}, UNLIMITED),
        ({"set": True, "infinite": True, "number": 0}, UNLIMITED),
        ({}, None),
    ],
)
def test_a_number_has_three_shapes(value, said):
    assert parse_number(value, "time_limit") == said


@pytest.mark.parametrize("value", [-1, True, "10", 1.5, [1], 2**63, {"set": True, "number": "1"}])
def test_what_is_no_number_is_told(value):
    with pytest.raises(ParseError, match="time_limit"):
        parse_number(value, "time_limit")


def test_a_bad_job_costs_itself_only():
    values = document("jobs-v0.0.38").values
    values["jobs"][0]["cpus"] = "many"
    values["jobs"].append("no object")
    table = parse_json_jobs(JsonRecord(values), source="test", taken_at_secs=1.0)
    assert JobKey("slurm", "1") not in table.jobs
    assert len(table.jobs) == 9
    assert not table.complete
    assert [each.field for each in table.rejected] == ["cpus", "job_id"]
    assert "(job 1)" in table.rejected[0].reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slurm_load_jobs error: x",
        '{"jobs": [',
        "[]",
        "null",
        "[" * 100_000,
        '{"jobs": NaN}',
        "Banner\n{}",
    ],
)
def test_what_is_no_document_is_told(text):
    with pytest.raises(ParseError):
        parse_document(text, source="squeue")


def test_errors_are_told_by_text_and_number():
    found = document("job-missing-v0.0.38")
    assert complaints(found) == ("slurm_load_job: Unable to find JobId=999: Invalid job id specified",)
    assert error_numbers(found) == (2017,)
    assert error_numbers(JsonRecord({"errors": [{"error_number": True}, "x"]})) == ()


def test_a_name_that_is_no_unicode_can_be_written():
    name = parse_json_job(one(name=json.loads('"\\ud800"'))).name
    assert name is not None
    name.encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(document("jobs-v0.0.38").values["jobs"][0])), JSON)
def test_any_value_anywhere_is_read_or_refused(name, value):
    record = {**document("jobs-v0.0.38").values["jobs"][0], name: value}
    fault = None
    try:
        parse_json_job(JsonRecord(record), node_name="labE1")
    except ParseError as error:
        fault = error
    assert fault is None or fault.reason


@given(JSON)
def test_any_resources_are_read_or_refused(value):
    try:
        parse_json_job(one(job_resources=value, gres_detail=value), node_name="n1")
        parse_json_job(one(job_resources={"nodes": value, "allocated_nodes": value}), node_name="n1")
    except ParseError:
        pass


def test_numbers_of_constructed_answers_are_numbers():
    assert number(3) == {"set": True, "infinite": False, "number": 3}


def test_slurm_26_05_tells_the_same_of_its_jobs_in_each_version_but_for_the_sluid():
    old, new = jobs_of(document("jobs-26.05-v0.0.42")), jobs_of(document("jobs-26.05-v0.0.45"))
    assert len(new) == 10
    assert all(job.name and job.user and job.limits.wall_secs is not None for job in new.values())
    assert {job.sluid for job in old.values()} == {None}
    assert all(checked_sluid(job.sluid or "") for job in new.values())
    assert {job_id: replace(job, sluid=None) for job_id, job in new.items()} == old


@pytest.mark.parametrize("node_name", [None, "lab1"])
def test_slurm_24_11_tells_the_same_by_json_and_by_text(node_name):
    lines = (FIXTURES.parent / "scontrol-24.11.txt").read_text().splitlines()
    found = jobs_of(document("jobs-24.11-v0.0.42"), node_name)
    assert len(found) == 9
    assert found["15"].name == "x\nJobId=1 JobName=y UserId=root(0) JobState=FAILED"
    compared = 0
    for line in lines:
        job_id = line.partition(" ")[0].removeprefix("JobId=")
        imitates = line.startswith("JobId=1 JobName=y ")  # the second line of the name of job 15
        if job_id in found.keys() - {"15"} and not imitates:
            job = parse_scontrol_job(line, node_name=node_name, tz=UTC)
            unlike = {
                each.name
                for each in fields(Job)
                if getattr(job, each.name) != getattr(found[job_id], each.name)
            }
            assert unlike <= BEYOND_TEXT, (job_id, unlike)
            compared += 1
    assert compared == 8


@pytest.mark.parametrize("version", ["24.11-v0.0.42", "26.05-v0.0.42", "26.05-v0.0.45"])
def test_every_field_that_a_later_version_must_have_is_in_those_captured(version):
    for kind in ("jobs", "nodes", "partitions"):
        answer = document(f"{kind}-{version}")
        assert answer.get(kind)
        assert missing_field(answer) is None


def test_an_odd_sluid_is_refused_by_its_field():
    with pytest.raises(ParseError, match=r"step_id\.sluid"):
        parse_json_job(JsonRecord({"job_id": 7, "job_state": "RUNNING", "step_id": {"sluid": "../x"}}))


@pytest.mark.parametrize(
    ("tasks", "counted"),
    [
        ("10,13-14,16-17,19,37-38,40-...", 8),
        ("5,13-14,40-4...", 3),
        ("5,10,61,64,6...", 4),
        ("1-...", 1),
        ("0...", 1),
    ],
)
def test_an_array_whose_list_of_tasks_is_cut_stays_and_it_is_said(tasks, counted):
    """Slurm's library cuts such lists after 64 characters: captured from 22.05.8 as squeue and slurmrestd print them."""
    waits = one(job_state="PENDING", array_job_id=7, array_task_string=tasks, user_id=6001).values
    table = parse_json_jobs(
        JsonRecord({"jobs": [waits, {**waits, "job_id": 8, "array_task_string": "1-3"}]}),
        source="rest",
        taken_at_secs=5.0,
    )
    assert {key.job_id: job.tasks for key, job in table.jobs.items()} == {"7": counted, "8": 3}
    assert [each.field for each in table.rejected] == ["array_task_string"]
    assert f"{counted} are counted, there are more (job 7)" in table.rejected[0].reason
    assert table.complete, "no job is missing"


def test_a_waiting_job_without_priority_is_held():
    waits = one(job_state="PENDING", priority=0, user_id=6001)
    assert parse_json_job(waits).is_held
    assert not parse_json_job(one(job_state="PENDING", priority=1, user_id=6001)).is_held
    assert not parse_json_job(one(priority=0, user_id=6001)).is_held
