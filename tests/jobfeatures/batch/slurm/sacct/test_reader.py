"""Steps of jobs: behind their job, or folded into it, also across batches of lines."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.sacct.lines import BATCH
from jobfeatures.batch.slurm.sacct.records import read_records
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.loggedjob import Notes
from tests.jobfeatures.batch.slurm.sacct.logs import captured, records


def test_steps_come_behind_their_job_where_they_are_wanted():
    found = [
        each
        for each in read_records(captured(), source="log", zone=UTC, notes=Notes())
        if each.job_id == "12"
    ]
    assert [each.step for each in found] == [None, "batch", "extern", "0", "1"]
    assert found[3].used_memory_bytes == 67008 * 1024


def test_the_memory_of_steps_is_folded_into_their_job_also_across_batches():
    fold = {
        row.job_id: row.used_memory_bytes
        for row in read_records(captured(), source="log", zone=UTC, notes=Notes())
        if row.step is None
    }
    assert fold["12"] == 67008 * 1024
    header = "JobID|State|MaxRSS"
    lines = [header]
    for number in range(1, BATCH):  # at each position of a batch
        lines += [f"{number}|COMPLETED|", f"{number}.batch|COMPLETED|{number}K", f"{number}.0|COMPLETED|1K"]
    rows = list(read_records([f"{line}\n" for line in lines], source="log", zone=UTC, notes=Notes()))
    assert [(row.job_id, row.step, row.used_memory_bytes) for row in rows if row.step is None] == [
        (str(number), None, number * 1024) for number in range(1, BATCH)
    ]


def test_a_step_whose_job_is_not_there_stays_a_step():
    lines = ["JobID|State|MaxRSS\n", "3.0|FAILED|5K\n", "4|FAILED|\n", "5.0|FAILED|6K\n", "5.1|FAILED|\n"]
    rows = list(read_records(lines, source="log", notes=Notes()))
    assert [(row.job_id, row.step) for row in rows] == [("3", "0"), ("4", None), ("5", "0"), ("5", "1")]
    assert rows[1].used_memory_bytes is None


@pytest.mark.parametrize("nodes", ["c1", "c[1-", "c[2-4]"])
def test_steps_that_are_only_folded_leave_the_same_jobs_and_the_same_rejected(nodes):
    lines = [
        "JobID|State|Submit|Start|End|AllocCPUS|NodeList|MaxRSS\n",
        "7|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:00:20|4|c1|\n",
        f"7.batch|COMPLETED|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:20|4|{nodes}|5K\n",
        "7.0|FAILED|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:20|4|c1|9K\n",
        "8.0|COMPLETED|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:20|4|c1|1K\n",
    ]
    found = []
    for folds_steps in (False, True):
        notes = Notes()
        records = notes.accepted_with_passages(
            read_records(lines, source="x", notes=notes, folds_steps=folds_steps)
        )
        found.append((list(fold_jobs(records, notes.count_folded)), notes.folded, notes.read, notes.shown))
    assert found[0] == found[1]
    assert found[0][0][0].used_memory_bytes == 9 * 1024
    assert found[0][1]["step"] == (1 if nodes == "c[1-" else 2)


LOG_LINES = st.builds(
    "|".join,
    st.tuples(
        st.sampled_from(
            ["7", "7.0", "7.batch", "8", "8.0", "12_3", "12_3.0", "0", "0.1", "x", "07.0", "9.", "", ".1"]
        ),
        st.sampled_from(["7", "7.0", "8_1", "8_1.0", "0.0", "x"]),
        st.sampled_from(["COMPLETED", "RUNNING", "PREEMPTED", "done"]),
        st.sampled_from(["2026-03-29T01:59:59", "2026-03-29T03:00:00", "1790000000", "Unknown", "soon"]),
        st.sampled_from(["00:00:05", "1-02:03:04.5", "00:75:00", "", "never"]),
        st.sampled_from(["5", "", "1K", "x"]),
        st.sampled_from(["c1", "c[1-2]", "c[1-", "None assigned", ""]),
        st.sampled_from(["5K", "9K", "0", "1M", "", "K"]),
        st.sampled_from(["a", ""]),
    ),
)


@given(st.lists(st.lists(LOG_LINES, max_size=6), max_size=3), st.integers(1, 4))
def test_any_log_has_the_same_jobs_and_rejected_lines_whether_steps_are_only_folded(parts, at_once):
    lines = [f"{line}\n" for part in parts for line in part]
    header = "JobIDRaw|JobID|State|Start|TotalCPU|ElapsedRaw|NodeList|MaxRSS|Cluster\n"
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jobfeatures.batch.slurm.sacct.lines.BATCH", at_once)
        for folds_steps in (False, True):
            notes = Notes()
            records = read_records(
                [header, *lines],
                source="x",
                zone=ZoneInfo("Europe/Berlin"),
                notes=notes,
                folds_steps=folds_steps,
            )
            jobs = list(fold_jobs(notes.accepted_with_passages(records), notes.count_folded))
            found.append((jobs, notes))
    assert found[0] == found[1]


@pytest.mark.parametrize("folds_steps", [False, True])
@pytest.mark.parametrize("at_once", [1, 9])
def test_the_memory_of_another_cluster_s_step_is_not_the_job_s(monkeypatch, folds_steps, at_once):
    """sacct --allclusters tells jobs of one number of several clusters one behind the other."""
    monkeypatch.setattr("jobfeatures.batch.slurm.sacct.lines.BATCH", at_once)
    lines = [
        "JobID|State|MaxRSS|Cluster\n",
        "7|COMPLETED||a\n",
        "7.0|COMPLETED|5K|a\n",
        "7.1|COMPLETED|9K|b\n",
    ]
    notes = Notes()
    records = read_records(lines, source="x", notes=notes, folds_steps=folds_steps)
    jobs = [*fold_jobs(notes.accepted_with_passages(records), notes.count_folded)]
    assert {each.cluster: each.used_memory_bytes for each in jobs}["a"] == 5 * 1024


@pytest.mark.parametrize(
    ("tasks", "known"),
    [
        ("1,3,5,7,64,67,111,6...%3", "1,3,5,7,64,67,111"),
        ("1,3,5-6,8-...", "1,3,5-6"),
        ("0...%3", None),
        ("%3", None),
        ("4-9%2", "4-9%2"),
    ],
)
def test_an_array_whose_list_of_tasks_sacct_has_cut_is_a_job(tasks, known):
    """After 64 characters, unless SLURM_BITSTR_LEN is set."""
    log = [
        "JobID|JobIDRaw|State|MaxRSS",
        f"10609_[{tasks}]|10609|CANCELLED by 0|",
        "10610|10610|COMPLETED|",
        "10610.batch|10610.batch|COMPLETED|5K",
    ]
    found = [(each.job_id, each.step, each.array_job_id, each.array_task_id) for each in records(*log)]
    assert found == [
        ("10609", None, "10609", known),
        ("10610", None, None, None),
        ("10610", "batch", None, None),
    ]
