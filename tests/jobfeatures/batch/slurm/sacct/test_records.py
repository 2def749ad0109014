"""Logs of sacct: a captured one, and constructed ones in the forms of other versions and sites."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.sacct.records import read_records
from jobfeatures.batch.slurm.sacct.requeued import SIBLING
from jobfeatures.batch.slurm.sacct.stepuse import UNTOLD
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import JobBatch, JobRecord, Notes
from jobfeatures.records.model import JobState
from tests.jobfeatures.batch.slurm.sacct.logs import COLUMNS, captured, jobs, one, records


def test_a_captured_log_is_read_whole():
    found = list(read_records(captured(), source="log", zone=UTC, notes=Notes()))
    assert not [each for each in found if isinstance(each, Rejected)]
    assert len([each for each in found if each.step is None]) == 15
    job = jobs(found)["12"]
    assert job == JobRecord(
        batch_system="slurm",
        job_id="12",
        run_secs=5,
        more=(("allocated_resources", "billing=2,cpu=2,mem=200M,node=1"),),
        state=JobState.COMPLETED,
        name="steps",
        user="alice",
        uid=6001,
        group="alice",
        account="physics",
        partition="batch",
        submit_secs=1795268193,
        eligible_secs=1795268193,
        start_secs=1795268196,
        end_secs=1795268201,
        exit_status=0,
        nodes=("labE2",),
        total_nodes=1,
        total_cpus=2,
        requested_cpus=2,
        requested_memory_bytes=200 * 2**20,
        wall_limit_secs=600,
        used_cpu_secs=5.92,
        used_memory_bytes=67008 * 1024,  # of step 0, both tasks
    )


def test_arrays_heterogeneous_jobs_and_signals():
    found = jobs(read_records(captured(), source="log", zone=UTC, notes=Notes()))
    assert (found["9"].array_job_id, found["9"].array_task_id) == ("2", "1")
    assert (found["6"].het_job_id, found["6"].het_offset) == ("5", 1)
    assert (found["11"].exit_status, found["11"].exit_signal) == (None, 9)
    assert (found["8"].exit_status, found["8"].exit_signal) == (3, None)
    assert found["1"].state is JobState.CANCELLED  # "CANCELLED by 0"


def test_who_cancelled_a_job_changes_nothing_when_slurm_forgets_it():
    """A reconfiguration within MinJobAge takes the "by 0" out of the accounting (24.11.5, 26.05.5)."""
    header, row = "JobID|State|Start|End|ElapsedRaw|AllocCPUS", "7|{}|1000|1100|100|2"
    assert one(header, row.format("CANCELLED by 0")) == one(header, row.format("CANCELLED"))


def test_a_step_that_outlives_its_job_in_kill_wait_moves_neither_its_end_nor_its_run_time():
    """26.05.5: the job's End is when the kill began, its batch step's when the last process had gone."""
    header = "JobID|State|Start|End|ElapsedRaw|AllocCPUS|TotalCPU|MaxRSS"
    rows = (
        "44|TIMEOUT|1000|1134|134|2|04:10|",
        "44.batch|CANCELLED|1000|1154|154|2|04:10|1024K",
        "44.extern|COMPLETED|1000|1154|154|2|00:00|",
    )
    job = jobs(records(header, *rows))["44"]
    assert (job.state, job.start_secs, job.end_secs, job.run_secs) == (JobState.TIMEOUT, 1000, 1134, 134)
    assert (job.used_cpu_secs, job.used_memory_bytes) == (250, 2**20)


def test_a_job_that_failed_did_not_end_with_0_though_sacct_says_so():
    """sacct 22.05.8 and 24.11.5 take 128 from exit statuses, 26.05.5 does not: a FAILED job with 0:0 had 128."""
    whole = "JobID|State|ExitCode|Start|End|ElapsedRaw|AllocCPUS|NNodes|NodeList"
    for header, more in (("JobID|State|ExitCode", ""), (whole, "|1000|1100|100|2|1|n1")):
        failed, done, killed = (
            one(header, f"7|{told}{more}") for told in ("FAILED|0:0", "COMPLETED|0:0", "FAILED|0:9")
        )
        assert (failed.exit_status, failed.exit_signal) == (None, None)
        assert (done.exit_status, killed.exit_signal) == (0, 9)


def test_each_run_of_a_requeued_job_has_a_record_and_none_counts_the_others():
    found = [
        each
        for each in read_records(captured(), source="log", zone=UTC, notes=Notes())
        if each.job_id == "14" and not each.step
    ]
    assert [(each.state, each.restarts) for each in found] == [
        (JobState.PREEMPTED, None),
        (JobState.COMPLETED, None),
    ]
    assert found[0].end_secs == 1795268205


def test_of_a_job_that_runs_end_and_cpu_time_are_not_known():
    job = jobs(read_records(captured(), source="log", zone=UTC, notes=Notes()))["2"]
    assert (job.state, job.end_secs, job.used_cpu_secs, job.exit_status) == (
        JobState.RUNNING,
        None,
        None,
        None,
    )


def test_a_job_that_was_cancelled_before_it_started_has_no_start():
    header = "JobID|State|Submit|Start|End|ElapsedRaw|AllocCPUS|NodeList"
    line = "7|CANCELLED by 1234|{0}|{1}|{1}|0|0|None assigned".format(
        "2026-11-21T07:00:00", "2026-11-21T08:00:00"
    )
    job = one(header, line)
    assert (job.state, job.start_secs, job.total_cpus, job.nodes) == (JobState.CANCELLED, None, None, ())
    assert job.end_secs == 1795248000


def test_what_a_job_can_do_without_is_unknown_and_named_where_it_cannot_be_read():
    notes = Notes()
    lines = ["JobID|State|ReqMem|Start|UserCPU\n", "7|COMPLETED|4Q?|2026-11-21T07:00:00|x\n",
             "8|COMPLETED|4G|2026-11-21T07:00:00|00:01:00\n", "9|COMPLETED|5Q?|never|00:01:00\n"]  # fmt: skip
    found = list(read_records(lines, source="log", zone=UTC, notes=notes))
    [nine] = [each for each in found if isinstance(each, Rejected)]
    seven, eight = (each for each in found if each is not nine)
    assert (seven.job_id, seven.requested_memory_bytes, seven.user_cpu_secs) == ("7", None, None)
    assert (eight.requested_memory_bytes, eight.user_cpu_secs) == (4 * 2**30, 60)
    assert (nine.line, nine.field, nine.text) == (4, "Start", "never")
    assert notes.unread == {"ReqMem, such as '4Q?'": 1, "UserCPU, such as 'x'": 1}


def test_the_part_of_a_job_before_its_size_changed_has_ended():
    job = one("JobID|State|Start|End", "7|RESIZING|2026-11-21T07:00:00|2026-11-21T08:00:00")
    assert (job.state, job.state_word, job.end_secs) == (JobState.UNKNOWN, "RESIZING", 1795248000)


def test_a_log_without_raw_numbers_has_the_ids_that_it_tells():
    header = "JobID|State"
    assert [
        (each.job_id, each.step, each.array_task_id) for each in records(header, "7_3|FAILED", "7_3.0|FAILED")
    ] == [
        ("7_3", None, "3"),
        ("7_3", "0", "3"),
    ]
    assert one(header, "7_[4-9%2]|PENDING").array_task_id == "4-9%2"


@given(st.integers(1, 2**31), st.integers(0, 2**31), st.integers(0, 10**6))
def test_what_is_written_is_read(number, start, run):
    line = f"{number}|x|COMPLETED|{start}|{start}|{start + run}|1|n1"
    job = one(COLUMNS, line)
    assert (job.job_id, job.start_secs, job.end_secs) == (str(number), start, start + run)


UNTOLD_HEADER = "JobIDRaw|State|Start|End|ElapsedRaw|AllocCPUS|TotalCPU|UserCPU|SystemCPU|TRESUsageInTot"
UNTOLD_ROWS = (  # as published of a job of 2026: TotalCPU tells of the batch script alone
    ("18396137", "00:03.744", "00:03.000", ""),
    ("18396137.batch", "00:03.744", "00:03.000", "cpu=00:00:03,energy=0,fs/disk=81960071,mem=327556K"),
    ("18396137.extern", "00:00:00", "00:00:00", "cpu=00:00:00,energy=0,fs/disk=5329,mem=0"),
    ("18396137.0", "00:00:00", "00:00:00", "cpu=00:00:17,energy=0,fs/disk=398636714,mem=491288K"),
    ("18396137.1", "00:00:00", "00:00:00", "energy=0,cpu=1-00:00:13,fs/disk=0,mem=49524K"),
)


@pytest.mark.parametrize("folds_steps", [False, True])
@pytest.mark.parametrize("before", [0, 1, 253, 254, 255, 256, 300])
def test_a_job_has_the_cpu_time_that_slurm_reports_for_its_steps_alone(folds_steps, before):
    rows = [(str(number), "01:00.000", "01:00.000", "") for number in range(1, before + 1)]
    lines = [
        f"{name}|COMPLETED|1760000010|1760090010|90000|1|{total}|{user}|00:00.744|{usage}\n"
        for name, total, user, usage in (*rows, *UNTOLD_ROWS, ("18396138", "00:05.000", "00:04.000", ""))
    ]
    notes = Notes()
    found = read_records([f"{UNTOLD_HEADER}\n", *lines], source="log", notes=notes, folds_steps=folds_steps)
    records = {(each.job_id, each.step): each for each in each_of(found) if isinstance(each, JobRecord)}
    job, other = records["18396137", None], records["18396138", None]
    assert (job.used_cpu_secs, job.user_cpu_secs, job.system_cpu_secs) == (86433.744, None, None)
    assert (other.used_cpu_secs, other.user_cpu_secs) == (5, 4)
    assert notes.repaired == {UNTOLD: 2}
    if not folds_steps:
        used = [records["18396137", step].used_cpu_secs for step in ("batch", "extern", "0", "1")]
        assert used == [3.744, 0, 17, 86413]
        assert records["18396137", "0"].user_cpu_secs is None
        assert records["18396137", "batch"].user_cpu_secs == 3


def each_of(found):
    for each in found:
        yield from each if isinstance(each, JobBatch) else [each]


@pytest.mark.parametrize("folds_steps", [False, True])
def test_a_federation_s_job_is_no_cancelled_job_of_the_clusters_that_did_not_start_it(folds_steps):
    """sacct shows the siblings with -D alone."""
    rows = [
        "Cluster|JobIDRaw|State|Submit|Start|End|AllocCPUS",
        *(f"one|{number}|REVOKED|1760000000|1760000005|1760000005|0" for number in range(67108865, 67109165)),
        "one|67109165|COMPLETED|1760000000|1760000005|1760000065|4",
        "two|67108865|COMPLETED|1760000000|1760000005|1760000065|4",
        "two|67109165|REVOKED|1760000000|1760000005|1760000005|0",
    ]
    notes = Notes()
    lines = [f"{row}\n" for row in rows]
    found = read_records(lines, source="log", notes=notes, folds_steps=folds_steps)
    jobs_found = [(each.cluster, each.job_id, each.state) for each in each_of(found)]
    assert jobs_found == [
        ("one", "67109165", JobState.COMPLETED),
        ("two", "67108865", JobState.COMPLETED),
    ]
    assert notes.folded[SIBLING] == 301
