"""The queue as ``squeue`` prints it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.fields import count_tasks, reason_word, split_closed, split_open
from jobfeatures.batch.slurm.queue import QUEUE_FIELDS, parse_queue, parse_queued_job, queue_format
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, JobKey, JobState
from jobfeatures.records.waiting import cause_of

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slurm"
SEPARATOR = "\x1fzCaptured\x1f"  # of the captured output

VALUES = {
    "JobID": "7",
    "ArrayJobID": "7",
    "ArrayTaskID": "N/A",
    "HetJobID": "N/A",
    "HetJobOffset": "N/A",
    "UserName": "alice",
    "UserID": "6001",
    "Account": "physics",
    "Partition": "batch",
    "State": "RUNNING",
    "Reason": "None",
    "TimeLimit": "1-02:00:00",
    "NumCPUs": "4",
    "NumNodes": "2",
    "NodeList": "n[1-2]",
    "StartTime": "1795266083",
    "EndTime": "1795266383",
    "SubmitTime": "1795266080",
    "EligibleTime": "1795266081",
    "PriorityLong": "4294901752",
    "tres-alloc": "cpu=4,mem=200M,node=2,billing=2,gres/gpu=2",
    "RestartCnt": "1",
    "Reservation": "(null)",
    "Name": "ok",
}


def captured(name: str) -> str:
    """Return a captured answer as the source decodes it."""
    return (FIXTURES / name).read_bytes().decode("utf-8", "replace")


def answer(*records: dict[str, str]) -> str:
    """Return an answer of squeue, constructed."""
    lines = ("".join(f"{record[field]}{SEPARATOR}" for field in QUEUE_FIELDS) for record in records)
    return "".join(f"{line}\n" for line in lines)


def queue():
    return parse_queue(captured("squeue.txt"), SEPARATOR, taken_at_secs=5.0)


def test_every_job_of_the_captured_queue_is_read():
    table = queue()
    assert table.rejected == ()
    assert table.complete
    states = {key.job_id: job.state for key, job in table.jobs.items()}
    assert states == {
        **dict.fromkeys(("4", "5", "6", "7", "17", "3", "8"), JobState.CANCELLED),
        **dict.fromkeys(("12", "13", "14", "15", "16"), JobState.PENDING),
        **dict.fromkeys(("9", "10", "18"), JobState.RUNNING),
        "11": JobState.FAILED,
    }


def test_a_name_that_imitates_records_stays_a_name():
    job = queue().jobs[JobKey("slurm", "10")]
    assert job.name == (
        'nl\n7\x1fJobId=7 JobName=x UserId=root(0)\n\x1fzcaptured\x1f1|2\t"q" \\ \N{REPLACEMENT CHARACTER}'
    )
    assert job.user == "alice"
    assert job.limits.wall_secs is UNLIMITED
    assert job.nodes == ("lab2",)


def test_a_pending_array_stands_for_its_tasks_and_a_split_off_task_for_itself():
    jobs = queue().jobs
    waiting, running = jobs[JobKey("slurm", "12")], jobs[JobKey("slurm", "18")]
    assert (waiting.tasks, waiting.array_task_id, waiting.partition) == (5, "2-5,9%2", "batch,long")
    assert (running.tasks, running.array_job_id, running.array_task_id) == (1, "12", "1")


def test_parts_of_a_heterogeneous_job_have_ids_of_their_own():
    jobs = queue().jobs
    assert [(jobs[JobKey("slurm", each)].het_job_id, jobs[JobKey("slurm", each)].het_offset) for each in ("13", "14")] == [
        ("13", 0),
        ("13", 1),
    ]  # fmt: skip


def test_future_times_are_left_out():
    pending = queue().jobs[JobKey("slurm", "13")]
    assert (pending.start_secs, pending.end_secs) == (None, None)
    assert pending.submit_secs == 1795266089
    held = queue().jobs[JobKey("slurm", "15")]
    assert (held.eligible_secs, held.reason, held.priority) == (None, "JobHeldUser", 0)


def test_a_job_is_read_field_by_field():
    job = parse_queued_job(VALUES)
    assert (job.total_cpus, job.total_nodes, job.total_gpus, job.restarts) == (4, 2, 2, 1)
    assert (job.limits.wall_secs, job.limits.cpu_secs) == (93_600, 374_400)
    assert (job.start_secs, job.end_secs, job.eligible_secs) == (1795266083, None, 1795266081)
    assert job.reservation is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("JobID", "7_1"),
        ("JobID", "0"),
        ("UserID", "-1"),
        ("NumCPUs", "many"),
        ("NodeList", "n[2-1]"),
        ("TimeLimit", "soon"),
        ("ArrayTaskID", "1-"),
    ],
)
def test_a_bad_record_costs_itself_and_the_promise_of_completeness(field, value):
    bad = {**VALUES, "State": "PENDING", field: value}
    table = parse_queue(answer({**VALUES, "JobID": "8"}, bad), SEPARATOR, taken_at_secs=0)
    assert set(table.jobs) == {JobKey("slurm", "8")}
    assert [(each.source, each.field, each.text) for each in table.rejected] == [("squeue", field, value)]
    assert not table.complete


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_an_answer_that_is_cut_off_is_no_answer(cut):
    with pytest.raises(ParseError, match="cut off"):
        parse_queue(captured("squeue.txt")[: -len(SEPARATOR) - cut], SEPARATOR, taken_at_secs=0)


def test_an_empty_queue_is_an_answer():
    assert parse_queue("", SEPARATOR, taken_at_secs=0).jobs == {}


def test_the_format_puts_the_separator_behind_each_field():
    assert queue_format("|").startswith("JobID:|,ArrayJobID:|,")
    assert queue_format("|").endswith(",Name:|")


@pytest.mark.parametrize(
    ("text", "count"), [("3", 1), ("1-5,9%2", 6), ("[0-100:4]", 26), ("[2-5%2]", 4), ("0,2,4", 3)]
)
def test_tasks_are_counted(text, count):
    assert count_tasks(text) == count


@pytest.mark.parametrize("text", ["", "1-", "5-1", "a", "1,,2", "1...9", "1-5:0", "%2"])
def test_what_is_no_list_of_tasks_is_refused(text):
    with pytest.raises(ParseError):
        count_tasks(text)


names = st.text(st.characters(codec="utf-8", exclude_characters="z"), max_size=30)


@given(st.lists(names, max_size=5))
def test_no_name_without_the_separator_moves_a_field(found):
    records = [{**VALUES, "JobID": str(number + 1), "Name": name} for number, name in enumerate(found)]
    jobs = parse_queue(answer(*records), SEPARATOR, taken_at_secs=0).jobs
    assert [(key.job_id, job.name, job.user) for key, job in jobs.items()] == [
        (str(number + 1), name, "alice") for number, name in enumerate(found)
    ]


@given(st.text(max_size=300), st.integers(0, 2000))
def test_no_text_brings_the_reader_down(text, place):
    whole = captured("squeue.txt")
    for damaged in (text, whole[:place] + text + whole[place:], whole[:place] + whole[place + len(text) :]):
        try:
            table = parse_queue(damaged, SEPARATOR, taken_at_secs=0)
        except ParseError:
            continue
        assert all(key.job_id.isdigit() for key in table.jobs)


@given(st.lists(st.lists(names, min_size=3, max_size=3), min_size=1, max_size=4))
def test_records_come_back_as_they_were_put_together(rows):
    fields = ("a", "b", "c")
    rows = [["x" + row[0].lstrip("\n"), row[1], "end"] for row in rows]
    closed = "".join("".join(f"{cell}{SEPARATOR}" for cell in row) + "\n" for row in rows)
    opened = "".join(SEPARATOR.join(row) + "\n" for row in rows)
    for text, split in ((closed, split_closed), (opened, split_open)):
        assert [list(each.values()) for each in split(text, SEPARATOR, fields, source="test")] == rows


@pytest.mark.parametrize(
    ("state", "start", "planned", "started"),
    [
        ("PENDING", "1795266083", 1795266083, None),
        ("PENDING", "N/A", None, None),
        ("RUNNING", "1795266083", None, 1795266083),
        ("COMPLETED", "1795266083", None, 1795266083),
    ],
)
def test_the_start_of_a_pending_job_is_a_plan_and_of_others_a_fact(state, start, planned, started):
    job = parse_queued_job({**VALUES, "State": state, "StartTime": start})
    assert (job.planned_secs, job.start_secs) == (planned, started)


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "Resources",
        ),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            "Resources",
        ),
        ("Priority", "Priority"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "ReqNodeNotAvail, UnavailableNodes:n1"),
    ],
)
def test_the_sentence_of_a_full_cluster_is_the_word_that_json_has_for_it(printed, reason):
    assert reason_word(printed) == reason


@pytest.mark.parametrize(
    ("text", "uid"),
    [
        ("6001", 6001),
        ("-448690528", 3846276768),
        ("-2147483648", 2147483648),
        ("-1", None),
        ("3846276768", 3846276768),
        ("-2147483649", None),
        ("-x", None),
    ],
)
def test_user_ids_that_squeue_prints_as_negative_are_those_from_two_to_the_31_on(text, uid):
    table = parse_queue(answer({**VALUES, "UserID": text}), SEPARATOR, taken_at_secs=5.0)
    assert [job.uid for job in table.jobs.values()] == ([] if uid is None else [uid])
    assert table.complete == (uid is not None)


@pytest.mark.parametrize(
    ("reason", "priority", "cause"),
    [
        ("job_requeued_in_held_state", "0", "held"),
        ("launch_failed_requeued_held", "5", "held"),
        ("launch failure limit exceeded requeued held", "5", "held"),
        ("JobHoldMaxRequeue", "5", "held"),
        ("BadConstraints", "5", "held"),
        ("Resources", "0", "held"),
        ("Dependency", "0", "dependent"),
        ("Resources", "1", None),
        ("ReqNodeNotAvail, UnavailableNodes:was-requeued-held", "1", None),
    ],
)
def test_a_job_that_is_held_is_known_by_slurm_s_sentences_and_by_its_priority(reason, priority, cause):
    values = {**VALUES, "State": "PENDING", "Reason": reason, "PriorityLong": priority}
    job = parse_queued_job(values)
    assert cause_of(job.reason, is_held=job.is_held) == cause


def test_a_running_job_is_not_held_whatever_its_priority():
    assert not parse_queued_job({**VALUES, "PriorityLong": "0"}).is_held
