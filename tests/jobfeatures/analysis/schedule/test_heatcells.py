import csv
import io
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule import heatcells as cells
from jobfeatures.analysis.schedule.choosing import Filter, ScheduleError
from jobfeatures.analysis.schedule.eet import Mode
from jobfeatures.analysis.schedule.heatcells import Cells, format_heatmaps
from jobfeatures.analysis.schedule.jobarrays import from_records
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.shares import ShareRules
from jobfeatures.analysis.schedule.spooled import spool
from jobfeatures.analysis.schedule.whole import Whole
from jobfeatures.joblogs.loggedjob import JobRecord
from tests.jobfeatures.evaluated import evaluate

ONE = ShareRules(default={"cpu": 1000})


def log_of(jobs, name="log", shift_secs=0):
    """Return a log of (user, submitted, wait, runtime, processors), its times moved on."""
    records = [
        JobRecord(
            batch_system="slurm", job_id=str(number), user=user, total_cpus=cpus, queue=str(number % 2),
            submit_secs=submitted, start_secs=submitted + wait, end_secs=submitted + wait + runtime,
        )
        for number, (user, submitted, wait, runtime, cpus) in enumerate(jobs)
    ]  # fmt: skip
    log = from_records(records, name)
    return replace(log, **{each: getattr(log, each) + shift_secs for each in ("submit", "start", "end")})


def heatmap_of(log, cell_secs=60, most=100, **options):
    """Return the heatmap of a log of which so many jobs are in a chunk."""
    whole = Whole(spool(log.name, [log], Options(**options)), most=most)
    cells = Cells(whole, cell_secs)
    for chunk in whole.evaluate_chunks():
        cells.add(*chunk)
    return cells.heatmap()


def count_cell_by_cell(schedule, cell_secs):
    """As the paper tells it: cells are 0, and each violated job increments those from EET − runtime on."""
    chosen = schedule.chosen
    ends, expected = chosen.end.tolist(), schedule.expected.tolist()
    begin = math.floor(min(chosen.arrival.tolist()) / cell_secs)
    columns = max(1, math.ceil(max(ends) / cell_secs) - begin)
    rows = [[0] * columns for _ in chosen.users]
    for user, row in enumerate(rows):
        for job in range(chosen.bounds[user], chosen.bounds[user + 1]):
            tardiness = max(0, ends[job] - expected[job])
            first = math.floor((expected[job] - chosen.runtime.tolist()[job]) / cell_secs) - begin
            for cell in range(first, first + math.ceil(tardiness / cell_secs)):
                row[cell] += 1
    return rows


JOBS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cid"]), st.integers(0, 500), st.integers(0, 900), st.integers(0, 300),
        st.integers(1, 4),
    ),
    min_size=1, max_size=15,
)  # fmt: skip


@given(
    JOBS,
    st.sampled_from([1, 7, 60, 5000]),
    st.sampled_from([Mode.LITERAL, Mode.EXACT]),
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([2, 100]),
)
def test_cells_are_what_counting_them_one_by_one_gives(jobs, cell_secs, mode, shift_secs, is_filtered, most):
    log = log_of(jobs, shift_secs=shift_secs)
    options = {
        "mode": mode,
        "rules": ONE,
        "filters": (Filter("queue", frozenset("0")),) if is_filtered else (),
    }
    schedule = evaluate(log, Options(**options))
    found = heatmap_of(log, cell_secs, most, **options)
    assert found["violated_jobs"] == count_cell_by_cell(schedule, cell_secs)
    assert found["users"] == schedule.chosen.users
    assert found["start_secs"] % cell_secs == 0
    assert found["start_secs"] <= min(schedule.chosen.arrival.tolist())
    assert {type(cell) for row in found["violated_jobs"] for cell in row} == {int}


def test_a_job_late_by_two_minutes_increments_two_consecutive_cells():
    """The paper: "two consecutive horizontal cells in the data structure will be incremented by 1"."""
    log = log_of([("ann", 0, 0, 60, 1), ("bob", 0, 120, 120, 1), ("bob", 0, 120, 60, 1)], shift_secs=60)
    found = heatmap_of(log, rules=ShareRules(default={"cpu": 2000}))
    assert found == {
        "users": ["ann", "bob"],
        "start_secs": 60,
        "cell_secs": 60,
        "violated_jobs": [[0, 0, 0, 0], [2, 2, 0, 0]],
    }


def test_too_many_cells_are_refused_and_a_width_that_does_is_named(monkeypatch):
    monkeypatch.setattr(cells, "MOST_CELLS", 50)
    log = log_of([("ann", 59, 0, 60, 1), ("bob", 6000, 5, 300, 1)])
    with pytest.raises(ScheduleError, match=r"log: 2 users × 105 bins .* --heatmap (\d+)$") as told:
        heatmap_of(log)
    enough = int(str(told.value).split("--heatmap ")[1].split()[0])
    assert len(heatmap_of(log, enough)["violated_jobs"][0]) in range(20, 26)


def test_rows_of_several_logs_say_where_their_cells_begin_and_how_long_they_are():
    documents = [
        {
            "log": name,
            "heatmap": heatmap_of(log_of(jobs, name, shift_secs), rules=ONE),
        }
        for name, jobs, shift_secs in (
            ("a", [("ann, b", 0, 60, 60, 1)], 0),
            ("b", [("bob", 0, 0, 200, 1)], 130),
        )
    ]
    assert list(csv.reader(io.StringIO(format_heatmaps(documents)))) == [
        ["log", "user", "start_secs", "cell_secs", "0", "1", "2", "3"],
        ["a", "ann, b", "0", "60", "1", "0"],
        ["b", "bob", "120", "60", "0", "0", "0", "0"],
    ]
