"""qacct's text is the log that the accounting file is, as far as it tells."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine.qacct import read_records, recognise
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.logkinds import read_log, recognise_kind
from jobfeatures.records.model import JobState
from tests.docs.pages import ROOT

FIXTURES = ROOT / "tests/fixtures/gridengine"
TEXT = (FIXTURES / "qacct").read_text()
ROUNDED = {"used_cpu_secs", "user_cpu_secs", "system_cpu_secs"}


def read(text: str, zone=UTC) -> tuple[list[JobRecord | Rejected], Notes]:
    notes = Notes()
    return list(read_records(text.splitlines(keepends=True), source="qacct", notes=notes, zone=zone)), notes


def test_it_is_recognised_and_told_from_the_file():
    assert recognise_kind(TEXT[:4096]) == "qacct"
    assert recognise_kind((FIXTURES / "qacct-accounting").read_text()) == "gridengine"


def test_each_record_is_that_of_the_accounting_file():
    """A real pair: ended in each way, an array, a parallel job, limits."""
    lines = (FIXTURES / "qacct-accounting").read_text().splitlines(keepends=True)
    of_file = list(read_log(lines, "gridengine", source="file", notes=Notes()))
    of_text, notes = read(TEXT)
    assert len(of_text) == len(of_file) == 9
    for one, other in zip(of_text, of_file, strict=True):
        for each in fields(JobRecord):
            told, known = getattr(one, each.name), getattr(other, each.name)
            if each.name == "used_memory_bytes":
                assert told is None  # 4504 bytes or 4612 KiB?
            elif each.name in ROUNDED:
                assert told == pytest.approx(known, abs=0.0006)
            else:
                assert told == known, each.name
    assert notes.not_taken["ru_maxrss"] == 9
    assert (notes.unread, notes.doubtful) == (Counter(), Counter())


def block(**changes: str | None) -> str:
    """Return one record of the fixture, with other rows; None leaves one out."""
    rows = TEXT.split("=" * 62 + "\n")[1].splitlines()
    named = dict(row.split(None, 1) if len(row.split(None, 1)) > 1 else (row, "") for row in rows)
    named |= changes
    text = "".join(f"{name:12} {value}\n" for name, value in named.items() if value is not None)
    return f"{'=' * 62}\n{text}"


def test_a_parallel_job_used_what_its_tasks_did_which_qacct_prints_like_jobs():
    times = {"start_time": "Sun Nov 29 20:50:00 2026", "end_time": "Sun Nov 29 20:55:00 2026"}
    some = {"granted_pe": "mpi", "slots": "16", "jobnumber": "77"}
    first = block(**some, hostname="n2", cpu="2000.000s", **times)
    second = block(**some, hostname="n3", cpu="2000.000s", **times)
    job = block(
        **some, hostname="n1", cpu="105.000s", end_time="Sun Nov 29 21:48:50 2026", ru_wallclock="3600s"
    )
    text = first + second + job
    for told in (text, text + text):  # as in two dumps, one behind the other
        record = read(told)[0][-1]
        assert isinstance(record, JobRecord)
        assert (record.used_cpu_secs, record.run_secs) == (4105.0, 3600.0)
        assert record.end_secs - record.start_secs == 3600
    rerun = read(job.replace("failed       0", "failed       25 : rescheduling") + job)[0]
    assert [each.used_cpu_secs for each in rerun] == [105.0, 105.0]


@pytest.mark.parametrize(
    "text",
    [
        "Sun Nov 29 20:48:50 2026",
        "11/29/2026 20:48:50.000",
        "11/29/2026 20:48:50",
        "2026-11-29 20:48:50.000000",
    ],
)
def test_times_are_read_as_each_version_prints_them(text):
    ([job], _) = read(block(start_time=text))
    assert job.start_secs == 1795985330


def test_fractions_of_seconds_stay():
    ([job], _) = read(block(start_time="11/29/2026 20:48:50.250", end_time="2026-11-29 20:48:51.000004"))
    assert (job.start_secs, job.end_secs) == (1795985330.25, 1795985331.000004)


def test_a_job_that_never_started_has_no_start():
    ([job], _) = read(block(start_time="-/-", end_time="-/-", failed="37  : qmaster enforced h_rt limit"))
    assert (job.start_secs, job.end_secs, job.exit_status) == (None, None, None)


@pytest.mark.parametrize(("secs", "start"), [("4200s", 0), ("600s", 3600)])
def test_in_the_hour_that_clocks_repeat_the_run_time_tells_which(secs, start):
    """Summer time ends on 25 October 2026 at 01:00 UTC; the job ends at 02:20 in winter time."""
    changes = {"start_time": "Sun Oct 25 02:10:00 2026", "end_time": "Sun Oct 25 02:20:00 2026"}
    ([job], notes) = read(
        block(qsub_time="Sun Oct 25 01:00:00 2026", ru_wallclock=secs, **changes), ZoneInfo("Europe/Berlin")
    )
    assert job.end_secs - job.start_secs == int(secs[:-1])
    assert notes.doubtful.total() == (1 if start else 0)  # 600 s fit both hours


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"jobnumber": "x"}, "job_number"),
        ({"start_time": "yesterday"}, "start_time"),
        ({"end_time": None}, "end_time"),
        ({"failed": "many"}, "failed"),
        ({"exit_status": None}, "exit_status"),
        ({"slots": "-1"}, "slots"),
    ],
)
def test_a_record_that_lacks_what_it_needs_is_refused_by_name(changes, field):
    ([found], _) = read(block(**changes))
    assert isinstance(found, Rejected)
    assert (found.field, found.line) == (field, 1)


def test_rows_that_a_user_adds_are_refused():
    ([found], _) = read(block() + "exit_status  0\n")
    assert isinstance(found, Rejected)
    assert found.field == "exit_status"


def test_a_run_that_is_repeated_is_counted():
    text = block(failed="25  : rescheduling") + block()
    ([first, second], _) = read(text)
    assert (first.state, first.restarts, second.restarts) == (JobState.PREEMPTED, 0, 1)


def test_what_cannot_be_read_is_named():
    ([job], notes) = read(block(cpu="much", maxrss="3.082MB", submit_cmd="qsub -b y sleep"))
    assert (job.used_cpu_secs, job.used_memory_bytes) == (None, round(3.082 * 2**20))
    assert list(notes.unread) == ["cpu, such as 'much'"]
    assert notes.not_taken["submit_cmd"] == 1


def test_a_text_that_is_cut_loses_its_last_record_by_name():
    whole, _ = read(TEXT)
    found, _ = read(TEXT[: TEXT.rindex("end_time")])
    assert found[:-1] == whole[:-1]
    assert isinstance(found[-1], Rejected)


@given(st.text() | st.text("=\n qnamejobnumber:0123", max_size=200).map(lambda text: "=" * 20 + "\n" + text))
def test_any_text_is_read(text):
    recognise(text)
    read(text)
