"""Slurm's JSON as a log: captured from 22.05, later versions constructed."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.json.log import read_records, recognise
from jobfeatures.batch.slurm.sacct import records as sacct
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import UNLIMITED, JobState
from tests.jobfeatures.batch.slurm.shapes import NEWER, newer_db_job, newer_document, newer_job

FIXTURES = Path(__file__).parents[4] / "fixtures" / "slurm" / "json"
# Fields that sacct was not asked to print, that its text rounds, or that the old JSON has wrong.
APART = {"uid", "gid", "priority", "suspended_secs", "requested_nodes", "used_cpu_secs", "exit_status"} | {
    *("cluster", "qos", "user_cpu_secs", "system_cpu_secs", "more")
}


def text(name: str) -> str:
    return (FIXTURES / f"{name}.json").read_text()


def read(content: str) -> list[JobRecord]:
    found = list(read_records(content.splitlines(keepends=True), source="log", notes=Notes()))
    assert not [each for each in found if isinstance(each, Rejected)]
    return found


def newer_accounting(version: str) -> str:
    captured = json.loads(text("accounting-v0.0.38"))
    jobs = [newer_db_job(job, version) for job in captured["jobs"]]
    return json.dumps(newer_document(captured, "jobs", jobs, version))


def by_run(found) -> dict[tuple[object, ...], JobRecord]:
    return {(each.job_id, each.step, each.submit_secs): each for each in found}


@pytest.mark.parametrize("name", ["jobs-v0.0.37", "jobs-v0.0.38", "accounting-v0.0.37", "accounting-v0.0.38"])
def test_captured_logs_are_recognised(name):
    assert recognise(text(name)[:4096])
    assert not sacct.recognise(text(name)[:4096])


@pytest.mark.parametrize("version", NEWER)
def test_later_versions_begin_with_a_job(version):
    assert recognise(newer_accounting(version)[:4096])
    assert recognise(json.dumps(newer_document({}, "jobs", [], version)))


@pytest.mark.parametrize(
    "head", ["", "{}", '{"meta": {"producer": "x"}}', '{"jobs": [1]}', "[]", "JobID|State"]
)
def test_what_is_not_slurms_json_is_not_taken_for_it(head):
    assert not recognise(head)


def test_json_and_text_of_one_moment_have_the_same_jobs():
    lines = (FIXTURES / "accounting.txt").read_text().splitlines(keepends=True)
    told = by_run(sacct.read_records(lines, source="log", zone=UTC, notes=Notes()))
    found = by_run(read(text("accounting-v0.0.38")))
    compared = 0
    for key, job in told.items():
        if key[1] is not None or job.state is JobState.RUNNING:
            continue
        for field in fields(JobRecord):
            mine, theirs = getattr(found[key], field.name), getattr(job, field.name)
            if field.name in APART or (field.name == "wall_limit_secs" and theirs is UNLIMITED):
                continue
            assert mine == theirs, (key, field.name)
        assert found[key].used_cpu_secs == pytest.approx(job.used_cpu_secs, abs=0.001)
        compared += 1
    assert compared == 14


def test_the_first_version_has_the_times_of_the_second():
    old, oldest = by_run(read(text("accounting-v0.0.38"))), by_run(read(text("accounting-v0.0.37")))
    assert {key: each.start_secs for key, each in oldest.items()} == {
        key: each.start_secs for key, each in old.items()
    }


@pytest.mark.parametrize("version", NEWER)
def test_later_versions_have_what_old_ones_lack(version):
    found = by_run(read(newer_accounting(version)))
    old = by_run(read(text("accounting-v0.0.38")))
    assert found.keys() == old.keys()
    for key, job in found.items():
        assert (job.state, job.name, job.nodes, job.total_cpus, job.used_memory_bytes) == (
            old[key].state,
            old[key].name,
            old[key].nodes,
            old[key].total_cpus,
            old[key].used_memory_bytes,
        )
    whole = {key[0]: job for key, job in found.items() if key[1] is None}
    assert whole["3"].wall_limit_secs is UNLIMITED
    assert (whole["11"].exit_status, whole["11"].exit_signal) == (None, 9)
    assert whole["12"].used_cpu_secs == 5


def test_a_queue_is_a_log_as_well():
    found = {each.job_id: each for each in read(text("jobs-v0.0.38"))}
    assert (found["1"].state, found["1"].total_cpus, found["1"].requested_memory_bytes) == (
        JobState.RUNNING,
        2,
        200 * 2**20,
    )
    assert (found["4"].total_cpus, found["4"].requested_cpus, found["4"].start_secs) == (None, 6, None)
    assert (found["1"].group, found["1"].gid) == ("alice", 6001)
    captured = json.loads(text("jobs-v0.0.38"))
    newer = newer_document(
        captured, "jobs", [newer_job(each, "v0.0.43") for each in captured["jobs"]], "v0.0.43"
    )
    assert read(json.dumps(newer)) == list(found.values())


@pytest.mark.parametrize(
    ("code", "status", "signal"),
    [(768, 3, None), (9, None, 9), (0, 0, None), ({"return_code": {"set": True, "number": 2}}, 2, None)],
)
def test_an_exit_code_is_a_wait_status_or_an_object(code, status, signal):
    job = {"job_id": 1, "job_state": "FAILED", "exit_code": code}
    (found,) = read(json.dumps({"jobs": [job]}))
    assert (found.exit_status, found.exit_signal) == (status, signal)


def test_a_requeued_job_counts_its_runs():
    runs = [each for each in read(text("accounting-v0.0.38")) if each.job_id == "14" and each.step is None]
    assert [(each.state, each.restarts) for each in runs] == [
        (JobState.PREEMPTED, None),
        (JobState.COMPLETED, 1),
    ]


def test_steps_count_the_runs_before_their_own():
    found = [each.restarts for each in read(text("accounting-v0.0.38")) if each.job_id == "14"]
    assert found == [None, None, None, 1, 1, 1]


def test_a_bad_job_costs_itself_only():
    document = json.loads(text("accounting-v0.0.38"))
    document["jobs"][0]["time"]["start"] = "now"
    document["jobs"].insert(1, 7)
    lines = [json.dumps(document)]
    found = list(read_records(lines, source="log", notes=Notes()))
    bad = [each.field for each in found if isinstance(each, Rejected)]
    assert bad == ["jobs[0].time.start", "jobs[1].job_id"]
    assert len(found) > 30


@pytest.mark.parametrize("content", ["", "{", '{"jobs": 1}', "{}", "\x00", "[" * 50_000])
def test_what_is_no_document_is_rejected(content):
    (found,) = read_records([content], source="log", notes=Notes())
    assert isinstance(found, Rejected)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(json.loads(text("accounting-v0.0.38"))["jobs"][0])), JSON)
def test_any_value_anywhere_is_read_or_rejected(name, value):
    job = {**json.loads(text("accounting-v0.0.38"))["jobs"][0], name: value}
    found = list(read_records([json.dumps({"jobs": [job]})], source="log", notes=Notes()))
    assert all(isinstance(each, JobRecord | Rejected) for each in found)
    assert found
