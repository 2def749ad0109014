"""Slurm's JSON as a log: captured from 22.05, later versions constructed."""

from __future__ import annotations

import copy
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
from jobfeatures.joblogs.folding import fold_jobs
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


def test_each_run_of_a_requeued_job_has_a_record_and_folding_counts_them():
    runs = [each for each in read(text("accounting-v0.0.38")) if each.job_id == "14"]
    states = [each.state for each in runs if each.step is None]
    assert states == [JobState.PREEMPTED, JobState.COMPLETED]
    for log in (runs, runs * 2):
        [job] = fold_jobs(log, lambda _: None)
        assert (job.state, job.restarts, job.start_secs) == (states[1], 1, runs[3].start_secs)


def test_documents_one_behind_the_other_are_read_and_a_bad_one_costs_itself():
    one, other = text("accounting-v0.0.38"), text("jobs-v0.0.37")
    lines = f"{one}\n{{broken\n{other}".splitlines(keepends=True)
    both = list(read_records(lines, source="log", notes=Notes()))
    rejected = [each for each in both if isinstance(each, Rejected)]
    assert [each for each in both if isinstance(each, JobRecord)] == [*read(one), *read(other)]
    assert [each.line for each in rejected] == [one.count("\n") + 2]


def resized(**changes):
    document = json.loads(text("accounting-v0.0.38"))
    [job] = [each for each in document["jobs"] if each["job_id"] == 12]
    job.update(copy.deepcopy(changes))
    return job


def test_parts_of_a_resized_job_are_one_run():
    """Constructed: the states and times of Slurm 26.05's answer in a captured one of 22.05."""
    times = {"elapsed": 7, "submission": 1000, "eligible": 1000, "start": 1001, "end": 1008}
    used = {"total": {"seconds": 1, "microseconds": 0}, "user": {"seconds": 1, "microseconds": 0}}
    none = {"total": {"seconds": 0, "microseconds": 0}, "user": {"seconds": 0, "microseconds": 0}}
    part = resized(state={"current": ["PENDING", "RESIZING"]}, time=times | used)
    again = {"submission": 1008, "start": 1008, "end": 1127, "elapsed": 119}
    rest = resized(state={"current": ["CANCELLED"]}, time=times | again | none, steps=[])
    for jobs in ([part, rest], [rest, part]):
        log = read(json.dumps({"meta": {"plugin": {"data_parser": "data_parser/v0.0.43"}}, "jobs": jobs}))
        [job] = fold_jobs(log, lambda _: None)
        assert (job.submit_secs, job.start_secs, job.end_secs, job.run_secs) == (1000, 1001, 1127, 126)
        assert (job.state, job.used_cpu_secs, job.restarts) == (JobState.CANCELLED, 1, None)


def test_a_total_s_microseconds_may_be_those_of_both_halves():
    """As Slurm 26.05.5 told them, in a captured answer of 22.05; no other number above a million is believed."""
    halves = {
        "user": {"seconds": 17, "microseconds": 266415},
        "system": {"seconds": 18, "microseconds": 791544},
    }
    for total, used in (
        ({"seconds": 35, "microseconds": 1057959}, 36.057959),
        (halves["user"] | {"microseconds": 1266415}, None),
    ):
        job = resized(state={"current": ["COMPLETED"]}, steps=[])
        job["time"] |= {"total": total} | halves
        document = {"meta": {"plugin": {"data_parser": "data_parser/v0.0.43"}}, "jobs": [job]}
        [found] = read_records([json.dumps(document)], source="log", notes=Notes())
        assert found.used_cpu_secs == used


@pytest.mark.parametrize(("micros", "used"), [(5, 1.000005), (10**6, None)])
def test_a_job_does_not_have_the_cpu_time_of_those_steps_alone_that_can_be_read(micros, used):
    """Constructed in a captured answer of 22.05: no time of its own, of two steps one is damaged."""
    none = {each: {"seconds": 0, "microseconds": 0} for each in ("total", "user", "system")}
    job = resized(state={"current": ["COMPLETED"]})
    job["time"] |= copy.deepcopy(none)
    [step, *_] = job["steps"]
    steps = [copy.deepcopy(step), copy.deepcopy(step)]
    for each, secs, more in ((steps[0], 1, 0), (steps[1], 0, micros)):
        each["time"] |= copy.deepcopy(none)
        each["time"]["user"] = {"seconds": secs, "microseconds": 0}
        each["time"]["total"] = {"seconds": secs, "microseconds": more}
    job["steps"] = steps
    document = {"meta": {"plugin": {"data_parser": "data_parser/v0.0.43"}}, "jobs": [job]}
    found = list(read_records([json.dumps(document)], source="log", notes=Notes()))
    [told] = [each for each in found if isinstance(each, JobRecord) and each.step is None]
    assert told.used_cpu_secs == used


@pytest.mark.parametrize("told", [3, 0])
def test_a_job_has_the_cpu_time_that_slurm_reports_for_its_steps_alone(told):
    """Constructed in a captured answer of 22.05: of a step of srun time.total is 0, its usage 17.25 s."""
    job = resized(state={"current": ["COMPLETED"]})
    clock = {name: {"seconds": 0, "microseconds": 0} for name in ("total", "user", "system")}
    job["time"] |= copy.deepcopy(clock) | {"total": {"seconds": told, "microseconds": 0}}
    batch, srun = copy.deepcopy(job["steps"][0]), copy.deepcopy(job["steps"][2])
    batch["time"] |= copy.deepcopy(clock) | {
        name: {"seconds": 3, "microseconds": 0} for name in ("total", "user")
    }
    srun["time"] |= copy.deepcopy(clock)
    srun["tres"]["requested"]["total"] = [{"type": "cpu", "name": "", "id": 1, "count": 17250}]
    job["steps"] = [batch, srun]
    document = {"meta": {"plugin": {"data_parser": "data_parser/v0.0.43"}}, "jobs": [job]}
    whole, *steps = read_records([json.dumps(document)], source="log", notes=Notes())
    assert (whole.used_cpu_secs, whole.user_cpu_secs, whole.system_cpu_secs) == (20.25, None, None)
    assert [(each.used_cpu_secs, each.user_cpu_secs) for each in steps] == [(3, 3), (17.25, None)]


@pytest.mark.parametrize("current", ["REVOKED", ["REVOKED"]])
def test_a_federation_s_job_is_no_cancelled_job_of_the_clusters_that_did_not_start_it(current):
    notes = Notes()
    document = {"jobs": [resized(state={"current": current}), resized(state={"current": ["COMPLETED"]})]}
    found = read_records([json.dumps(document)], source="log", notes=notes)
    assert [each.state for each in found if each.step is None] == [JobState.COMPLETED]
    assert sum(notes.folded.values()) == 1


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
