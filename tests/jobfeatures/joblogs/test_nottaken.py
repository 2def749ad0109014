"""Of every kind of log: what a job can do without and cannot be read is unknown, counted and named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobfeatures.batch.gridengine.colonlines import FIELDS
from jobfeatures.errors import ParseError
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.logkinds import read_log

FIXTURES = Path(__file__).parents[2] / "fixtures"
SLURM_JOB = {"job_id": 5, "state": {"current": ["COMPLETED"]}, "association": {"user": "alice"}}
SLURM_TIMES = {"submission": 1795246400, "start": 1795246410, "end": 1795246470, "elapsed": 60}


def changed(folder: str, name: str, old: str, new: str) -> str:
    """Return the line of a fixture in which `old` stands, changed."""
    lines = (FIXTURES / folder / name).read_text().splitlines(keepends=True)
    return next(line for line in lines if old in line).replace(old, new, 1)


def gridengine(**values: str) -> str:
    line = (FIXTURES / "gridengine" / "accounting").read_text().splitlines()[-1]
    fields = dict(zip(FIELDS, line.split(":"), strict=True))
    return ":".join({**fields, "owner": "alice", **values}.values())


def oar(**values: object) -> str:
    jobs = json.loads((FIXTURES / "oar" / "ended.json").read_text())
    return json.dumps({"94": {**jobs["94"], **values}})


def sonar(**values: object) -> str:
    job = {"job_id": 5, "job_state": "COMPLETED", "user_name": "alice", **values}
    attributes = {"time": "2026-11-20T10:00:00Z", "cluster": "c", "slurm_jobs": [job]}
    return json.dumps(
        {
            "meta": {"producer": "sonar", "version": "0.14.0"},
            "data": {"type": "jobs", "attributes": attributes},
        }
    )


# Each log has one job of alice; then what is named, and the field of the record that is unknown.
LOGS = {
    "sacct": ("JobID|User|State|ReqMem\n5|alice|COMPLETED|4Q?\n", "ReqMem, such as '4Q?'", "requested_memory_bytes"),
    "slurmjson": (
        json.dumps({"jobs": [{**SLURM_JOB, "time": {**SLURM_TIMES, "suspended": "long"}}]}),
        "time.suspended, such as 'long'",
        "suspended_secs",
    ),
    "slurmjson, of the queue": (
        json.dumps({"jobs": [{"job_id": 5, "job_state": "RUNNING", "user_name": "alice", "priority": "high"}]}),
        "priority, such as 'high'",
        "priority",
    ),
    "pbs": (
        "11/21/2026 10:00:00;E;1.s;user=alice start=5 end=9 Exit_status=0 Resource_List.walltime=soon\n",
        "Resource_List.walltime, such as 'soon'",
        "wall_limit_secs",
    ),
    "gridengine": (gridengine(cpu="much"), "cpu, such as 'much'", "used_cpu_secs"),
    "gridengine, a request": (gridengine(category="-l h_rt=soon"), "-l h_rt, such as 'soon'", "wall_limit_secs"),
    "lsf": (changed("lsf", "lsb.acct", "500.250000", "fast"), "ru_utime, such as 'fast'", "user_cpu_secs"),
    "oar": (oar(owner="alice", walltime="long"), "walltime, such as 'long'", "wall_limit_secs"),
    "htcondor": (
        'ClusterId = 5\nProcId = 0\nJobStatus = 4\nOwner = "alice"\nRequestMemory = "much"\n*** x\n',
        "RequestMemory, such as 'much'",
        "requested_memory_bytes",
    ),
    "sonar": (
        sonar(sacct={"MaxRSS": "much"}),
        "sacct.MaxRSS, such as 'much'",
        "used_memory_bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", LOGS)
def test_what_a_job_can_do_without_is_unknown_and_named_where_it_cannot_be_read(kind):
    text, named, field = LOGS[kind]
    notes = Notes()
    found = list(read_log(text.splitlines(keepends=True), kind.partition(",")[0], source="log", notes=notes))
    [job] = [each for each in found if isinstance(each, JobRecord)]
    assert found == [job]
    assert getattr(job, field) is None
    assert job.user == "alice"
    assert named in notes.unread
    assert f"unreadable: {named} (1)" in [*notes.lines(in_full=True)]


@pytest.mark.parametrize("kind", LOGS)
def test_a_strict_reader_stops_there(kind):
    lines = LOGS[kind][0].splitlines(keepends=True)
    with pytest.raises(ParseError, match=r"^log"):
        list(read_log(lines, kind.partition(",")[0], source="log", strict=True))
