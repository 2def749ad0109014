"""Jobs and steps as ``sacct`` prints them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.sacct.records import ACCOUNTING_FIELDS, parse_accounting
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, JobKey, JobState

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slurm"
SEPARATOR = "\x1fzCaptured\x1f"  # of the captured output
MIB = 2**20


def captured() -> str:
    """Return the captured answer as the source decodes it."""
    return (FIXTURES / "sacct.txt").read_bytes().decode("utf-8", "replace")


def records():
    answer = parse_accounting(captured(), SEPARATOR, taken_at_secs=5.0)
    assert answer.rejected == ()
    return {(each.job_id, each.step or ""): each for each in answer.records}


def values(**changes: str) -> dict[str, str]:
    """Return the fields of a small record with some values replaced."""
    plain = {"JobIDRaw": "7", "JobID": "7", "State": "COMPLETED", "ExitCode": "0:0", "JobName": "ok"}
    return {**dict.fromkeys(ACCOUNTING_FIELDS, ""), **plain, **changes}


def parsed(**changes: str):
    """Return the record of one row."""
    row = values(**changes)
    text = SEPARATOR.join(row[each] for each in ACCOUNTING_FIELDS) + "\n"
    [record] = parse_accounting(text, SEPARATOR, taken_at_secs=0).records
    return record


def test_jobs_and_their_steps_are_records_of_their_own():
    found = records()
    assert {step for job_id, step in found if job_id == "9"} == {"", "batch", "extern", "0", "1"}
    assert found["9", "0"].state is JobState.COMPLETED
    assert found["9", ""].state is JobState.RUNNING


def test_a_job_is_read_field_by_field():
    job = records()["9", ""]
    assert (job.user, job.account, job.partition, job.name) == ("alice", "physics", "batch", "plain")
    assert (job.requested_cpus, job.requested_nodes) == (2, 1)
    assert job.requested_memory_bytes == 200 * MIB
    assert dict(job.more)["allocated_resources"] == "billing=2,cpu=2,mem=200M,node=1"
    assert (job.wall_limit_secs, job.suspended_secs, job.nodes) == (300, 0, ("lab1",))
    assert (job.exit_status, job.end_secs) == (None, None)


def test_a_name_that_imitates_records_stays_a_name():
    name = records()["10", ""].name
    assert name.startswith("nl\n7\x1fJobId=7 JobName=x UserId=root(0)\n\x1fzcaptured\x1f1|2")
    assert records()["10", ""].wall_limit_secs is UNLIMITED


def test_an_ended_job_has_its_exit_code():
    job = records()["11", ""]
    assert (job.state, job.exit_status, job.end_secs) == (JobState.FAILED, 3, 1795266084)


def test_arrays_and_heterogeneous_jobs_are_recognised_by_the_job_id():
    found = records()
    task, rest, part = found["18", ""], found["12", ""], found["14", ""]
    assert (task.array_job_id, task.array_task_id) == ("12", "1")
    assert (rest.array_job_id, rest.array_task_id) == ("12", "2-5,9%2")
    assert (part.het_job_id, part.het_offset) == ("13", 1)
    assert found["18", "batch"].array_task_id == "1"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 6001", (JobState.CANCELLED, None)),
        ("NODE_FAIL", (JobState.NODE_FAIL, None)),
        ("DEADLINE", (JobState.TIMEOUT, "DEADLINE")),
    ],
)
def test_words_behind_the_state_are_left_out_and_words_of_its_own_kept(text, state):
    record = parsed(State=text)
    assert (record.state, record.state_word) == state


@pytest.mark.parametrize(
    ("text", "cpus", "nodes", "mebibytes"),
    [
        ("4Gn", "2", "2", 8192),
        ("2000Mc", "4", "2", 8000),
        ("2000Mc", "", "2", None),
        ("0", "1", "1", None),
        ("400M", "4", "2", 400),
        ("1.5G", "1", "1", 1536),
        ("16?", "1", "1", None),  # seen in 22.05: 2**64
        ("", "1", "1", None),
    ],
)
def test_requested_memory_is_that_of_the_job(text, cpus, nodes, mebibytes):
    expected = None if mebibytes is None else mebibytes * MIB
    assert parsed(ReqMem=text, ReqCPUS=cpus, ReqNodes=nodes).requested_memory_bytes == expected


def test_a_step_of_a_step_keeps_its_name():
    assert parsed(JobIDRaw="7.0+1", JobID="7.0+1").step == "0+1"


def test_durations_have_fractions_and_days():
    record = parsed(UserCPU="1-02:03:04", SystemCPU="01:02.987", MinCPU="00:00:00")
    assert (record.user_cpu_secs, record.system_cpu_secs) == (93_784, 62.987)
    assert dict(record.more)["min_cpu_secs"] == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("JobIDRaw", "x"), ("State", ""), ("State", "lower"), ("Start", "soon")],
)  # fmt: skip
def test_a_bad_record_costs_itself_only(field, value):
    rows = [values(JobIDRaw="8"), values(**{field: value})]
    text = "".join(SEPARATOR.join(row[each] for each in ACCOUNTING_FIELDS) + "\n" for row in rows)
    answer = parse_accounting(text, SEPARATOR, taken_at_secs=0)
    assert [each.key for each in answer.records] == [JobKey("slurm", "8")]
    assert [each.field for each in answer.rejected] == [field]


def test_a_value_that_a_record_can_do_without_is_unknown_and_named():
    row = values(ReqMem="much")
    text = SEPARATOR.join(row[each] for each in ACCOUNTING_FIELDS) + "\n"
    answer = parse_accounting(text, SEPARATOR, taken_at_secs=0)
    assert [each.requested_memory_bytes for each in answer.records] == [None]
    assert [each.reason for each in answer.rejected] == ["unreadable ReqMem, such as 'much': unknown in 1"]


def test_an_answer_that_is_cut_off_is_no_answer():
    with pytest.raises(ParseError, match="cut off"):
        parse_accounting(captured()[:-60], SEPARATOR, taken_at_secs=0)
    with pytest.raises(ParseError, match="no records"):
        parse_accounting("sacct: error: nobody there\n", SEPARATOR, taken_at_secs=0)


def test_no_jobs_is_an_answer():
    assert parse_accounting("", SEPARATOR, taken_at_secs=0).records == ()


@given(st.text(max_size=300), st.integers(0, 3000))
def test_no_text_brings_the_reader_down(text, place):
    whole = captured()
    for damaged in (text, whole[:place] + text + whole[place:], whole[:place] + whole[place + len(text) :]):
        try:
            answer = parse_accounting(damaged, SEPARATOR, taken_at_secs=0)
        except ParseError:
            continue
        assert all(each.job_id.isdigit() for each in answer.records)
