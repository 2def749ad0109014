"""Jobs as bjobs tells them."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.basics import is_elsewhere
from jobfeatures.batch.lsf.answers import parse_records
from jobfeatures.batch.lsf.jobs import (
    FURTHER_FIELDS,
    PLAIN_FIELDS,
    QueryContext,
    key_of,
    parse_gpus,
    parse_job,
    parse_jobs,
)
from jobfeatures.batch.lsf.limits import LimitRules, parse_queues
from jobfeatures.errors import ParseError
from jobfeatures.records.model import Job, JobKey, JobState, JobTable
from jobfeatures_exporter.cluster.sums import compute_queue_sums
from jobfeatures_exporter.sampling.layout.hierarchies import match_path

FIXTURES = Path(__file__).parents[3] / "fixtures" / "lsf"
CONTEXT = QueryContext(
    now_secs=datetime(2026, 11, 21, 13, 0, tzinfo=UTC).timestamp(),
    node_name="n1",
    rules=LimitRules(
        node_name="n1",
        absolute=False,
        factors={"n1": Fraction("2.5"), "n2": Fraction(5)},
        queues=parse_queues((FIXTURES / "bqueues-l.txt").read_text()),
    ),
    tz=UTC,
)
RECORD = parse_records((FIXTURES / "bjobs-node.json").read_text(), source="bjobs")[0]


def job(job_id: str) -> Job:
    records = parse_records((FIXTURES / "bjobs-node.json").read_text(), source="bjobs")
    jobs, rejected = parse_jobs(records, CONTEXT)
    assert rejected == []
    return jobs[JobKey("lsf", job_id)]


def epoch(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp())


def test_a_running_job_is_told_whole() -> None:
    found = job("101")
    assert found.state is JobState.RUNNING
    assert (found.user, found.account, found.partition, found.name) == (
        *("alice", "physics", "normal"),
        'fit "a\\b" /x',
    )
    assert (found.submit_secs, found.start_secs, found.end_secs) == (
        epoch(2026, 11, 21, 12, 29),
        epoch(2026, 11, 21, 12, 31),
        None,
    )
    assert (found.allocated_cpus, found.total_cpus, found.nodes) == (4, 4, ("n1",))
    assert found.limits.wall_secs == 34560
    assert found.limits.cpu_secs == 17280
    assert found.limits.memory_bytes == 8 * 2**30
    assert found.limits.swap_bytes is None
    assert found.array_job_id is None


def test_of_an_array_s_job_id_and_index_are_told_and_the_queue_s_limits_hold() -> None:
    found = job("102[7]")
    assert (found.array_job_id, found.array_task_id) == ("102", "7")
    assert (found.allocated_cpus, found.total_cpus, found.total_nodes) == (2, 3, 2)
    assert found.limits.wall_secs == 1800
    assert found.limits.cpu_secs == 14400
    assert found.limits.memory_bytes == 2 * 2**20
    assert (found.gpus, found.allocated_gpus) == (("0", "1"), 2)
    assert found.start_secs == epoch(2026, 11, 21, 12, 0, 5)


def test_a_suspended_job_keeps_its_host_and_its_start_of_last_year() -> None:
    found = job("103")
    assert found.state is JobState.SUSPENDED
    assert found.start_secs == epoch(2025, 12, 31, 23, 59)
    assert found.limits.wall_secs == 28800


def test_a_job_on_a_host_out_of_reach_is_neither_running_nor_over() -> None:
    assert job("104").state is JobState.UNKNOWN


def test_a_pending_job_has_no_start_and_asks_for_slots() -> None:
    found = job("105")
    assert found.state is JobState.PENDING
    assert (found.start_secs, found.total_cpus, found.allocated_cpus) == (None, 16, None)
    assert found.reason == "PEND"


@pytest.mark.parametrize(("stat", "waiting"), [("PEND", 1), ("PSUSP", 0)])
def test_a_held_job_does_not_count_as_waiting(stat: str, waiting: int) -> None:
    pending = {**RECORD, "STAT": stat, "ALLOC_SLOT": "", "EXEC_HOST": "", "START_TIME": ""}
    jobs, _ = parse_jobs([pending], CONTEXT)
    table = JobTable(source="lsf", jobs=jobs, taken_at_secs=CONTEXT.now_secs, complete=True)
    sums = compute_queue_sums(table)
    assert sums.jobs["normal", "PENDING"] == 1
    assert sum(each.jobs for each in sums.waiting.values()) == waiting


def test_a_finished_job_has_its_end() -> None:
    found = parse_job({**RECORD, "STAT": "DONE", "FINISH_TIME": "Nov 21 12:40 L"}, CONTEXT)
    assert found.end_secs == epoch(2026, 11, 21, 12, 40)


@pytest.mark.parametrize(
    "path",
    [
        "/lsf/cluster1/job.123.4567.1795264260",
        "/lsf/cluster1/job.123[4].4567.1795264260",
        "/lsf/cluster1/job.123[4].4567.1795264260/task",
    ],
)
def test_the_job_is_the_one_that_its_control_group_names(path: str) -> None:
    membership = match_path(path)
    assert membership is not None
    index = "4" if "[4]" in path else "0"
    key = key_of({"JOBID": "123", "JOBINDEX": index})
    assert key == JobKey(membership.batch_system, membership.job_id)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("START_TIME", "yesterday"),
        ("RUNTIMELIMIT", "soon"),
        ("MEMLIMIT", "much"),
        ("ALLOC_SLOT", "n1 n2"),
        ("NREQ_SLOT", "-4"),
    ],
)
def test_a_bad_record_costs_itself_and_its_job_is_not_forgotten(field: str, value: str) -> None:
    bad = {**RECORD, field: value}
    if field == "NREQ_SLOT":
        bad |= {"ALLOC_SLOT": "", "EXEC_HOST": ""}
    jobs, (rejected,) = parse_jobs([bad, {**RECORD, "JOBID": "9"}], CONTEXT)
    assert jobs[JobKey("lsf", "101")] == Job(key=JobKey("lsf", "101"))
    assert jobs[JobKey("lsf", "9")].state is JobState.RUNNING
    assert (rejected.field, "job 101" in rejected.reason) == (field, True)


def test_a_record_without_an_id_is_told() -> None:
    jobs, rejected = parse_jobs([{**RECORD, "JOBID": "x"}], CONTEXT)
    assert jobs == {}
    assert [each.reason for each in rejected] == ["not a job id"]


def test_a_job_on_other_hosts_is_elsewhere() -> None:
    assert is_elsewhere(parse_job({**RECORD, "ALLOC_SLOT": "4*n2"}, CONTEXT), "n1")
    assert not is_elsewhere(parse_job(RECORD, CONTEXT), "n1")
    assert not is_elsewhere(parse_job({**RECORD, "ALLOC_SLOT": "", "EXEC_HOST": ""}, CONTEXT), "n1")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("n1:1:1/0,3:1/0", ("1:1/0", "3:1/0")),
        ("n1:1:1/0,1:1/0;n2:2:3/0", ("1:1/0",)),
        ("n1:0,1:2/0", ("0", "1:2/0")),
    ],
)
def test_instances_of_cards_are_named_by_card_and_instance(text: str, gpus: tuple[str, ...]) -> None:
    assert parse_gpus(text, "n1") == gpus


@pytest.mark.parametrize(
    "text",
    ["", "-", "n2:0,1", "garbage", "n1:", "n1:a,b", "n1=0", "n1:1:1", "n1:1/0", "n1:1:1/0/2", "n1:0,1:"],
)
def test_cards_of_other_hosts_or_in_another_form_are_none(text: str) -> None:
    assert parse_gpus(text, "n1") == ()


def test_what_users_write_is_asked_for_apart() -> None:
    assert {"job_name", "proj_name"} <= set(FURTHER_FIELDS)
    assert not {"job_name", "proj_name", "command", "job_description"} & set(PLAIN_FIELDS)


@given(
    st.dictionaries(st.sampled_from([each.upper() for each in (*PLAIN_FIELDS, *FURTHER_FIELDS)]), st.text())
)
def test_any_record_is_a_job_or_a_parse_error(record: dict[str, str]) -> None:
    try:
        parse_job({**RECORD, **record}, CONTEXT)
    except ParseError:
        return


@pytest.mark.parametrize(
    ("stat", "run_time", "left"),
    [
        ("USUSP", "3600 second(s)", 7200),
        ("SSUSP", "3600 second(s)", 7200),
        ("RUN", "3600 second(s)", 7200 - 600),  # ten hours after its start: the night counts not
        ("RUN", "35900 second(s)", 10800 - 36000),
        ("RUN", "-", 10800 - 36000),
        ("USUSP", "", 10800 - 36000),
    ],
)
def test_time_for_which_a_job_was_suspended_is_not_of_its_run_limit(
    stat: str, run_time: str, left: int
) -> None:
    """Jobs are killed that "are in the RUN state for longer" than RUNLIMIT, says lsb.queues(5)."""
    record = {
        "JOBID": "7", "JOBINDEX": "0", "STAT": stat, "USER": "alice", "QUEUE": "none",
        "START_TIME": "Nov 21 03:00", "RUNTIMELIMIT": "180.0/n1", "RUN_TIME": run_time,
    }  # fmt: skip
    found = parse_job(record, CONTEXT)
    end_secs = found.end_limit_at(CONTEXT.now_secs)
    assert end_secs is not None
    assert end_secs - CONTEXT.now_secs == left
