"""Runs that are REQUEUED: captured from Slurm 26.05.5, of scrontabs, of requeues and by RequeueExit."""

from pathlib import Path

import pytest

from jobfeatures.batch.slurm.sacct.records import ACCOUNTING_FIELDS, parse_accounting, read_records
from jobfeatures.batch.slurm.sacct.requeued import with_ends
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.records.model import JobState

CAPTURED = Path(__file__).parents[4] / "fixtures/slurm/sacct-requeued.txt"
# scrontab: exits 3, succeeds, runs into its limit, is requeued while it runs, kills itself; sbatch: is requeued and
# ends in order, asks for it itself, is requeued, exits with a code of RequeueExit
RUNS = {
    "2": (JobState.FAILED, 3, None),
    "3": (JobState.UNKNOWN, None, None),
    "5": (JobState.FAILED, None, 15),
    "6": (JobState.PREEMPTED, None, None),
    "7": (JobState.FAILED, None, 9),
    "10": (JobState.UNKNOWN, None, None),
    "11": (JobState.UNKNOWN, None, None),
    "12": (JobState.PREEMPTED, None, None),
    "13": (JobState.FAILED, 3, None),
}


def first_runs(records):
    return {
        each.job_id: each for each in reversed(records) if each.step is None and each.restarts in {0, None}
    }


def ends_of(records):
    found = first_runs(records)
    return {job: (each.state, each.exit_status, each.exit_signal) for job, each in found.items()}


@pytest.mark.parametrize("odd", ["", "x|y\n"])
def test_a_run_that_is_requeued_at_its_end_was_not_taken_from_its_node(odd):
    lines = [*CAPTURED.read_text().splitlines(keepends=True), odd]
    records = [each for each in read_records(lines, source="log", notes=Notes()) if hasattr(each, "step")]
    assert ends_of(records) == RUNS
    assert first_runs(records)["3"].state_word == "REQUEUED"
    assert first_runs(records)["3"].end_secs == 1796058742


def test_the_controller_role_is_told_the_same():
    header, *lines = CAPTURED.read_text().splitlines()
    rows = (dict(zip(header.split("|"), line.split("|"), strict=True)) for line in lines)
    text = "".join(
        "\x1f".join({**row, "JobID": row["JobIDRaw"]}.get(name, "") for name in ACCOUNTING_FIELDS) + "\n"
        for row in rows
    )
    records = parse_accounting(text, "\x1f", taken_at_secs=1.0).records
    assert {**RUNS, **ends_of(records)} == RUNS
    assert first_runs(records).keys() >= RUNS.keys()


def test_without_its_steps_a_run_with_0_is_what_slurm_says():
    lines = [
        line for line in CAPTURED.read_text().splitlines(keepends=True) if "." not in line.partition("|")[0]
    ]
    found = ends_of([*read_records(lines, source="log", notes=Notes())])
    assert found == {job: (JobState.PREEMPTED, None, None) if each[0] is JobState.UNKNOWN else each for job, each in RUNS.items()}  # fmt: skip


ROWS = [
    ("1", "RUNNING"),
    ("7", "REQUEUED"),
    ("7.extern", "COMPLETED"),
    ("7.batch", "COMPLETED"),
    ("8", "REQUEUED"),
]


@pytest.mark.parametrize("size", range(1, 6))
def test_steps_may_come_in_the_next_batch(size):
    parts = [ROWS[at : at + size] for at in range(0, len(ROWS), size)]
    batches = [(range(len(part)), list(zip(*part, strict=True))) for part in parts]
    told = [(job, state) for _, columns in with_ends([*batches, ([], [])], ["JobID", "State"]) if columns for job, state in zip(*columns, strict=True)]  # fmt: skip
    assert [job for job, _ in told] == [job for job, _ in ROWS]
    assert dict(told)["7"] == "REQUEUED UNKNOWN"
    assert dict(told)["8"] == "REQUEUED PREEMPTED"
    assert dict(told)["7.batch"] == "COMPLETED"
