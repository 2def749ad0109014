"""Sonar's jobs documents as a log of jobs."""

import copy
import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sonar import CURRENT, joblog
from jobfeatures.formats.sonar.joblog import read_records, recognise, write_records
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import UNLIMITED, JobState
from tests.jobfeatures.jobrecords import WORDS, any_records

RECORD = JobRecord(
    batch_system="slurm", job_id="12", state=JobState.TIMEOUT, name="fit", user="alice", account="physics",
    partition="batch", reservation="course", priority=7, submit_secs=1_800_000_000, start_secs=1_800_000_060,
    end_secs=1_800_003_660, suspended_secs=5, exit_status=0, nodes=("c1", "c2"), total_nodes=2, total_cpus=8,
    total_gpus=2, requested_nodes=2, requested_cpus=8, requested_gpus=2, requested_memory_bytes=2**31,
    wall_limit_secs=3600, used_cpu_secs=100, used_memory_bytes=2**20, array_job_id="10", array_task_id="2",
)  # fmt: skip


def read(text, strict=False):
    return list(
        read_records(text.splitlines(keepends=True), source="jobs.json", strict=strict, notes=Notes())
    )


def written(*records):
    lost = Counter()
    return list(write_records(records, lambda name: lost.update([name]))), lost


def test_a_record_becomes_a_valid_document_and_comes_back():
    [line], lost = written(RECORD)
    document = json.loads(line)
    assert validate_envelope(document, profile=CURRENT, strict=True) == []
    [job] = document["data"]["attributes"]["slurm_jobs"]
    assert job["requested_memory_per_node"] == 2**21  # KiB, of both nodes
    assert job["time_limit"] == 3602
    assert job["allocated_resources"] == "cpu=8,node=2,gres/gpu=2"
    assert document["data"]["attributes"]["time"] == "2027-01-15T09:01:00Z"
    assert read(line) == [RECORD]
    assert lost == {}


def test_what_has_no_place_is_told_by_name():
    lines, lost = written(
        replace(RECORD, job_id="12.head", uid=6001, queue="q", array_job_id=None, array_task_id="x",
                submit_secs=5.5, priority=-1),
        replace(RECORD, job_id="12.head", step="0"),
        replace(RECORD, state=JobState.UNKNOWN),
        replace(RECORD, nodes=(), total_nodes=None, requested_nodes=None, requested_memory_bytes=2**30),
        replace(RECORD, nodes=("two words",)),
        replace(RECORD, requested_memory_bytes=UNLIMITED),
    )  # fmt: skip
    assert lost == {
        "job_id": 2, "uid": 1, "queue": 1, "array_task_id": 1, "submit_secs: fractions": 1, "priority": 1,
        "job of unknown state": 1, "requested_memory_bytes": 1, "job on nodes without a host's name": 1,
    }  # fmt: skip
    found = read(lines[0])
    assert [(each.job_id, each.step) for each in found] == [
        ("4294967296", None), ("4294967296", "0"), ("12", None), ("12", None),
    ]  # fmt: skip


@given(st.lists(any_records(step=st.none() | WORDS), max_size=4))
def test_any_records_come_back_but_for_what_was_lost(records):
    lines, lost = written(*records)
    assert all(validate_envelope(json.loads(line), profile=CURRENT, strict=True) == [] for line in lines)
    expected = [
        replace(
            each, uid=None, gid=None, group=None, executable=None, eligible_secs=None, restarts=None,
            exit_signal=None, cpu_limit_secs=None, preceding_job_id=None, think_secs=None, queue=None,
            qos=None, is_interactive=None, energy_joules=None, workflow_id=None, **cpu_time(each),
            partition=each.partition or each.queue,
        )
        for each in records
    ]  # fmt: skip
    expected = [
        # Memory is stated in whole KiB, rounded up.
        replace(each, requested_memory_bytes=rounded(each)) for each in expected
    ]  # fmt: skip
    assert [item for line in lines for item in read(line, strict=True)] == expected
    for name in ("uid", "executable", "restarts", "exit_signal", "cpu_limit_secs"):
        assert lost[name] == sum(getattr(each, name) is not None for each in records)


def cpu_time(record):
    """Return both parts where both are known, and their sum, else the sum alone."""
    user, system = record.user_cpu_secs, record.system_cpu_secs
    if None in (user, system):
        return {"user_cpu_secs": None, "system_cpu_secs": None}
    return {"used_cpu_secs": user + system}


def rounded(record):
    size = record.requested_memory_bytes
    return size and -(-size // 1024) * 1024


def test_long_logs_become_several_documents(monkeypatch):
    monkeypatch.setattr(joblog, "RECORDS_PER_DOCUMENT", 100)
    lines, _ = written(*(replace(RECORD, job_id=str(number)) for number in range(1, 252)))
    assert [len(json.loads(line)["data"]["attributes"]["slurm_jobs"]) for line in lines] == [100, 100, 51]
    assert len(read("\n".join(lines))) == 251


@pytest.mark.parametrize(
    "layout",
    [
        lambda documents: "\n".join(map(json.dumps, documents)),
        lambda documents: "\n".join(json.dumps(each, indent=2) for each in documents),
        json.dumps,
        lambda documents: "[\n" + ",\n".join(map(json.dumps, documents)) + "\n]\n",
    ],
)
def test_documents_may_be_laid_out_in_any_way(make, layout):
    text = layout([make("job"), make("job")])
    assert recognise(text[:4096])
    assert [each.job_id for each in read(text)] == ["12", "12"]


@pytest.mark.parametrize(
    ("word", "state"),
    [("RESIZING", JobState.UNKNOWN), ("REQUEUED", JobState.PREEMPTED), ("ODD", JobState.UNKNOWN)],
)
def test_a_part_of_a_job_that_has_ended_has_its_end(make, word, state):
    document = make("job")
    document["data"]["attributes"]["slurm_jobs"][0] |= {"job_state": word, "end_time": "2026-11-20T10:00:00Z"}
    [job] = read(json.dumps(document))
    assert (job.state, job.state_word, job.end_secs) == (state, word, 1795168800)


@pytest.mark.parametrize(("code", "end"), [(0, (JobState.PREEMPTED, None)), (3, (JobState.FAILED, 3))])
def test_a_run_that_is_requeued_with_an_exit_code_has_ended_by_itself(make, code, end):
    document = make("job")
    told = {"job_state": "REQUEUED", "end_time": "2026-11-20T10:00:00Z", "exit_code": code}
    document["data"]["attributes"]["slurm_jobs"][0] |= told
    [job] = read(json.dumps(document))
    assert (job.state, job.exit_status) == end


def test_amounts_that_are_no_numbers_are_named(make):
    document = make("job")
    document["data"]["attributes"]["slurm_jobs"][0]["allocated_resources"] = "cpu=many,node=1"
    notes = Notes()
    [job] = read_records([json.dumps(document)], source="log", notes=notes)
    assert job.total_cpus is None
    assert notes.unread == {"allocated_resources cpu, such as 'many'": 1}


def test_what_is_wrong_costs_itself_and_names_its_line(make):
    bad = make("job")
    bad["data"]["attributes"]["slurm_jobs"].append({"job_id": -1})
    text = "\n".join(["{", json.dumps(bad), json.dumps(make("cluster")), "", json.dumps(make("job"))])
    found = read(text)
    assert [(type(each), getattr(each, "line", 0)) for each in found] == [
        (Rejected, 1), (JobRecord, 0), (Rejected, 2), (Rejected, 3), (JobRecord, 0),
    ]  # fmt: skip
    assert "data.attributes.slurm_jobs[1].job_id" in str(found[2])
    assert "not a document of jobs" in str(found[3])
    with pytest.raises(ParseError, match=r"jobs\.json:1"):
        read(text, strict=True)
    with pytest.raises(ParseError, match=r"jobs\.json:1:data\.attributes\.slurm_jobs\[1\]"):
        read(json.dumps(bad), strict=True)


@given(st.text(), st.integers(0, 200))
def test_no_text_breaks_the_reader(text, cut):
    [line], _ = written(RECORD)
    for broken in (text, line[:cut], text + line, "[" + line):
        assert all(isinstance(each, JobRecord | Rejected) for each in read(broken))


def test_only_jobs_documents_are_recognised(make, errors):
    job = make("job")
    assert recognise(json.dumps(job))
    assert recognise(json.dumps([job]))
    renamed = copy.deepcopy(job)
    renamed["data"]["type"] = "jobs"
    assert recognise(json.dumps(renamed))
    for other in (make("cluster"), make("sample"), errors, {"jobs": [], "meta": {"plugin": {"type": "x"}}}):
        assert not recognise(json.dumps(other))


@pytest.mark.parametrize("word", ["CANCELLED by 1001", "cancelled BY 10"])
def test_a_job_that_somebody_cancelled_comes_back(word):
    [line], _ = written(RECORD)
    [cancelled] = read(line.replace('"TIMEOUT"', json.dumps(word)))
    assert (cancelled.state, cancelled.state_word) == (JobState.CANCELLED, None)
    [again], lost = written(replace(cancelled, state_word=word.upper()))
    assert json.loads(again)["data"]["attributes"]["slurm_jobs"][0]["job_state"] == "CANCELLED"
    assert not lost


def test_memory_is_of_the_whole_job_as_sacct_and_sonar_write_it():
    """Sonar 0.18.1 writes ReqMem 384G of a job of two nodes as 402653184 KiB."""
    [line], _ = written(replace(RECORD, requested_nodes=2, requested_memory_bytes=384 * 2**30))
    assert json.loads(line)["data"]["attributes"]["slurm_jobs"][0]["requested_memory_per_node"] == 402653184
    assert read(line)[0].requested_memory_bytes == 384 * 2**30


@pytest.mark.parametrize(
    ("step", "sacct", "is_said"),
    [
        ("0", {"AveCPU": 17}, True),
        ("0", {"AveCPU": 17, "UserCPU": 0, "SystemCPU": 0}, True),
        ("0", {"AveCPU": 17, "UserCPU": 16, "SystemCPU": 1}, False),
        ("extern", {"UserCPU": 0, "SystemCPU": 0}, False),
        ("", {"AveCPU": 17}, False),
    ],
)
def test_a_job_whose_step_has_no_cpu_time_of_its_own_is_doubtful(make, step, sacct, is_said):
    """As Slurm 25.05 tells of steps of srun, and Sonar after it."""
    document = make("job")
    document["data"]["attributes"]["slurm_jobs"][0] |= {"job_step": step, "sacct": sacct}
    notes = Notes()
    list(read_records([json.dumps(document)], source="log", notes=notes))
    assert notes.doubtful == ({joblog.UNTOLD: 1} if is_said else {})
