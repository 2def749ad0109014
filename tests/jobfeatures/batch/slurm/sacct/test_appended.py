"""Dumps of sacct appended day by day, and jobs that were resized: constructed after rows of Slurm 26.05."""

import re

import pytest

from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.logkinds import read_log, write_log

HEADER = "JobID|State|Submit|Start|End|ElapsedRaw|NCPUS|NNodes|TotalCPU|MaxRSS|TimelimitRaw|ExitCode\n"


def converted(rows, to_kind="swf"):
    notes = Notes()
    found = read_log([HEADER, *rows], "sacct", source="log", notes=notes, folds_steps=to_kind == "swf")
    lines = list(write_log(notes.accepted_with_passages(found), to_kind, notes))
    assert notes.shown == []
    return [line for line in lines if not line.startswith(";")], dict(notes.folded)


def row(job, state, submit, start, end, ran, cpus=4, used="00:00:00", memory="", limit=60):
    times = "|".join("Unknown" if secs is None else str(secs) for secs in (submit, start, end))
    return f"{job}|{state}|{times}|{ran}|{cpus}|1|{used}|{memory}|{limit}|0:0\n"


WAITS = row("5", "PENDING", 1000, None, None, 0, limit=60)
RUNS = row("5", "RUNNING", 1000, 1100, None, 50, limit=60)
LATER = row("5", "RUNNING", 1000, 1100, None, 80, limit=120)
DONE = row("5", "COMPLETED", 1000, 1100, 1400, 300, limit=120)
STEP = row("5.0", "COMPLETED", 1100, 1100, 1400, 300, memory="800K", limit="")


@pytest.mark.parametrize(
    "rows", [[WAITS, DONE], [DONE, WAITS], [RUNS, DONE], [WAITS, RUNS, LATER, DONE], [DONE, DONE]]
)
def test_a_job_of_several_dumps_ran_once(rows):
    [line], folded = converted([HEADER, *rows, STEP])
    assert line.split()[:9] == ["5", "0", "100", "300", "4", "0", "200", "-1", "7200"]
    assert folded == {"repeated report of a run": len(rows) - 1, "step": 1}


def test_of_two_samples_of_a_running_job_the_longer_one_is_the_later():
    for rows in ([RUNS, LATER], [LATER, RUNS]):
        [line], _ = converted(rows)
        assert line.split()[8] == "7200"


def test_a_requeue_in_two_dumps_is_one_restart():
    requeued, again = row("5", "REQUEUED", 1000, 1100, 1200, 100), row("5", "RUNNING", 1200, 1300, None, 10)
    done = row("5", "COMPLETED", 1200, 1300, 1400, 100)
    lines, folded = converted([requeued, again, requeued, done], "sss")
    assert re.findall(r"StartCount>(\d)", "".join(lines)) == ["2"]
    assert folded == {"earlier run": 1, "repeated report of a run": 2}


PARTS = [
    row("130", "RESIZING", 1000, 1001, 1008, 7, cpus=4, used="00:00.151"),
    row("130.batch", "CANCELLED", 1001, 1001, 1128, 127, used="00:00.151", memory="800K", limit=""),
    row("130", "CANCELLED by 1000", 1008, 1008, 1127, 119, cpus=3),
]  # fmt: skip


@pytest.mark.parametrize("rows", [PARTS, PARTS[::-1], PARTS * 2])
def test_a_resized_job_is_one_that_ran_from_its_start_and_used_what_its_parts_did(rows):
    [line], folded = converted(rows)
    assert line.split()[:7] == ["130", "0", "1", "126", "3", "0.050333", "267"]
    assert folded["part of a resized job"] == 1
    assert "<StartCount>" not in "".join(converted(rows, "sss")[0])


def test_a_job_cancelled_while_it_waited_has_no_cpus_although_sacct_counts_those_asked_for():
    header = HEADER.replace("|NNodes", "|NNodes|NodeList")
    waited = "9|CANCELLED by 1000|1000|1004|1004|0|1|1|None assigned|00:00:00||60|0:0\n"
    found = list(read_log([header, waited], "sacct", source="log", notes=Notes()))
    assert [(each.total_cpus, each.total_nodes, each.run_secs, each.start_secs) for each in found] == [
        (None,) * 4
    ]
