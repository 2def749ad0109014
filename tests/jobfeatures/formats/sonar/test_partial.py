"""Sonar tells a job bit by bit: each document has what is new, and may repeat what is known. Constructed."""

import copy
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.joblogs import disksort, folding
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.logkinds import read_log, write_log

ZERO = 1_772_359_200
ALWAYS = {"job_id": 5, "job_step": "", "job_name": "fit"}


def stamp(secs):
    return datetime.fromtimestamp(ZERO + secs, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def document(secs, *jobs, version="0.18.0"):
    data = {"type": "job", "attributes": {"time": stamp(secs), "cluster": "c", "slurm_jobs": list(jobs)}}
    return json.dumps({"meta": {"producer": "jobfeatures-exporter", "version": version}, "data": data}) + "\n"


def converted(lines, to_kind="records"):
    notes = Notes()
    records = notes.accepted_with_passages(read_log(lines, "sonar", source="log", notes=notes))
    found = list(write_log(records, to_kind, notes))
    assert notes.shown == []
    return found, notes


def jobs_of(lines):
    found, _ = converted(lines)
    return [json.loads(line) for line in found]


def told(state, **fields):
    return {**ALWAYS, "job_state": state, **fields}


WAITS = told("PENDING", user_name="ann", submit_time=stamp(0), time_limit=7202, priority=11)
RUNS = told("RUNNING", nodes=["n1"], start_time=stamp(3600), allocated_resources="cpu=4,node=1")
DONE = told("COMPLETED", end_time=stamp(7600), exit_code=0)


@pytest.mark.parametrize(
    "lines",
    [
        [document(1, WAITS), document(4000, RUNS), document(8000, DONE)],
        [document(8000, DONE), document(1, WAITS), document(4000, RUNS)],
        [document(1, WAITS), document(4000, WAITS | RUNS), document(8000, WAITS | RUNS | DONE)],
        [document(4000, WAITS | RUNS), document(8000, DONE)],
        [document(8000, WAITS | RUNS | DONE)],
        [document(1, WAITS), document(2, told("PENDING", priority=13)), document(4000, RUNS), document(3, WAITS),
         document(8000, DONE), document(8000, DONE)],
    ],
)  # fmt: skip
def test_what_is_told_bit_by_bit_is_one_job_that_ran_once(lines):
    swf, notes = converted(lines, "swf")
    assert swf[-1].split()[:9] == ["5", "0", "3600", "4000", "4", "-1", "-1", "-1", "7200"]
    assert set(notes.folded) <= {"repeated report of a run"}
    [job] = jobs_of(lines)
    assert (job["state"], job["exit_status"], job["priority"]) == ("COMPLETED", 0, 9)
    assert "restarts" not in job


def test_of_two_samples_the_later_counts():
    def sample(secs, limit):
        used = {"ElapsedRaw": secs - 3600, "UserCPU": secs, "SystemCPU": 0}
        return document(secs, {**WAITS, **RUNS, "time_limit": limit, "sacct": used})

    for lines in ([sample(5000, 3602), sample(6000, 7202)], [sample(6000, 7202), sample(5000, 3602)]):
        [job] = jobs_of(lines)
        assert (job["wall_limit_secs"], job["run_secs"], job["used_cpu_secs"]) == (7200, 2400, 6000)


def test_a_state_that_is_corrected_takes_its_exit_code_along():
    [job] = jobs_of([document(8000, WAITS | RUNS | DONE), document(9000, told("FAILED", exit_code=3))])
    assert (job["state"], job["exit_status"]) == ("FAILED", 3)


def test_a_job_that_waits_again_begins_a_run_that_keeps_what_was_told_of_the_job_alone():
    lines = [
        document(1, WAITS), document(4000, RUNS), document(5000, told("PENDING", submit_time=stamp(4500))),
        document(6000, told("CANCELLED", end_time=stamp(5900))),
    ]  # fmt: skip
    first, second = jobs_of(lines)
    assert (first["state"], first["start_secs"]) == ("RUNNING", ZERO + 3600)
    assert second == {
        "batch_system": "slurm", "job_id": "5", "cluster": "c", "state": "CANCELLED", "name": "fit", "user": "ann",
        "priority": 9, "submit_secs": ZERO + 4500, "end_secs": ZERO + 5900, "restarts": 1, "wall_limit_secs": 7200,
    }  # fmt: skip


def test_units_of_two_versions_are_not_mixed():
    minutes = document(1, WAITS | {"time_limit": 122, "sacct": {"AveDiskRead": 1000}}, version="0.13.0")
    [job] = jobs_of([minutes, document(4000, RUNS)])
    assert (job["wall_limit_secs"], job["more"]["average_read_bytes"]) == (7200, 1000)


def test_a_planned_start_is_none():
    [job] = jobs_of([document(1, WAITS | {"start_time": stamp(9000)})])
    assert "start_secs" not in job


def test_steps_are_told_bit_by_bit_too():
    step = {**ALWAYS, "job_step": "0", "job_state": "RUNNING", "sacct": {"MaxRSS": 900}}
    late = {**step, "job_state": "COMPLETED", "end_time": stamp(7000), "sacct": {"MaxRSS": 500, "UserCPU": 1}}
    lines = [document(4100, step), document(4000, WAITS | RUNS), document(8000, DONE), document(7001, late)]
    job, found = jobs_of(lines)
    assert (job["job_id"], found["step"], found["used_memory_bytes"]) == ("5", "0", 500 * 1024)
    assert found["end_secs"] == ZERO + 7000
    assert converted(lines, "swf")[0][-1].split()[6] == "125"  # KiB, of 4 CPUs
    [alone] = jobs_of([document(4100, step), document(7001, late)])
    assert alone == found


SECS = st.integers(1, 500)
JOB_FIELDS = st.fixed_dictionaries(
    {"user_name": st.just("ann")},
    optional={
        "account": st.just("acc"), "time_limit": st.integers(1, 10**5), "partition": st.just("batch"),
        "priority": st.integers(1, 99), "requested_cpus": st.integers(1, 9), "array_job_id": st.just(4),
        "array_task_id": st.integers(0, 3), "requested_memory_per_node": st.integers(1, 10**6),
        "requested_node_count": st.integers(1, 3), "requested_resources": st.just("cpu=2,gres/gpu=1"),
    },
)  # fmt: skip
NODES = st.sampled_from([["n1"], ["n[1-3]"], ["a", "b"]])
USED = st.dictionaries(
    st.sampled_from(["UserCPU", "SystemCPU", "ElapsedRaw", "MaxRSS", "AveDiskRead"]), st.integers(0, 10**6)
)


@st.composite
def lives(draw):
    """Return the pieces of a job's life, each a time, a state and fields told then or later; and its last record."""
    now, pieces, whole = 0, [], dict(draw(JOB_FIELDS))
    runs = draw(st.integers(1, 3))
    first = dict(whole)
    for number in range(runs):
        whole = {name: value for name, value in whole.items() if name in JOB_NAMES}
        submit = {"submit_time": stamp(now)}
        waits_from, now = now, now + draw(SECS)
        pieces.append((waits_from, now, "PENDING", {**submit, **first}))
        first = {}
        start = {"start_time": stamp(now), "nodes": draw(NODES), "allocated_resources": "cpu=4,node=2"}
        runs_from, now = now, now + draw(SECS)
        pieces.append((runs_from, now, "RUNNING", start))
        whole |= submit | start
        if number == runs - 1 or draw(st.booleans()):  # else the end of the run was not seen
            state = draw(st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT"]))
            end = {"end_time": stamp(now), "exit_code": draw(st.integers(0, 2)), "sacct": draw(USED)}
            pieces.append((now, now + draw(SECS), state, end))
            whole |= end | {"job_state": state}
        now += 500
    return pieces, {**ALWAYS, **whole}, runs - 1, now


JOB_NAMES = {
    *("user_name", "account", "time_limit", "partition", "priority", "requested_cpus", "array_job_id"),
    *("array_task_id", "requested_memory_per_node", "requested_node_count", "requested_resources"),
}


@given(lives(), st.data())
def test_however_a_life_is_told_it_is_the_job_that_one_full_record_tells(life, data):
    pieces, whole, restarts, now = life
    documents = []
    for since, until, state, fields in pieces:
        parts = [(name, value) for name, value in fields.items() if name != "sacct"]
        parts += [("sacct", {name: value}) for name, value in fields.get("sacct", {}).items()]
        chosen = data.draw(st.lists(st.integers(0, 2), min_size=len(parts), max_size=len(parts)))
        for place in range(3):
            mine = [part for part, where in zip(parts, chosen, strict=True) if where == place]
            again = data.draw(st.lists(st.sampled_from(mine), max_size=2)) if mine else []
            at = since + place * (until - since) / 4
            for some in (mine, again):
                job = told(state)
                for name, value in some:
                    job[name] = {**job.get(name, {}), **value} if name == "sacct" else copy.copy(value)
                documents.append(document(int(at), job))
    expected = jobs_of([document(now, whole)])[0]
    found = jobs_of(data.draw(st.permutations(documents)))
    assert found[-1].pop("restarts", 0) == restarts == len(found) - 1
    assert found[-1] == expected
    for kind in ("swf", "sss"):
        lines, _ = converted(documents, kind)
        one, _ = converted([document(now, whole)], kind)
        assert len(lines) == len(one)
        assert (lines == one) or restarts


def test_what_does_not_fit_into_memory_is_merged_on_disk(monkeypatch):
    monkeypatch.setattr(folding, "MOST", 0)
    monkeypatch.setattr(disksort, "MOST", 1)
    lines = [document(8000, DONE), document(1, WAITS), document(4000, RUNS)]
    notes = Notes()
    with DiskSorter() as sort:
        found = notes.accepted(read_log(lines, "sonar", source="log", notes=notes))
        [job] = folding.fold_jobs(found, notes.count_folded, sort=sort)
    assert (job.state.value, job.start_secs, job.end_secs) == ("COMPLETED", ZERO + 3600, ZERO + 7600)
