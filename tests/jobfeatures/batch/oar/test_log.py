"""A log of OAR's answers: of any version, one behind the other; OAR 3 tells no resources and no limits."""

from __future__ import annotations

import json

import pytest

from jobfeatures.batch.oar.log import is_job, make_oar3_record, oar3_arrays_in, read_records, recognise
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.records.model import JobState
from tests.docs.pages import ROOT

FIXTURES = ROOT / "tests/fixtures/oar"


@pytest.mark.parametrize("name", ["ended.json", "ended-2.6.1.json", "ended-3.0.2.json"])
def test_each_version_is_recognised_and_read(name):
    text = (FIXTURES / name).read_text()
    assert recognise(text[:4096])
    notes = Notes()
    found = list(read_records(text.splitlines(keepends=True), source=name, notes=notes))
    assert found
    assert not [each for each in found if isinstance(each, Rejected)]


def test_answers_may_follow_one_another():
    text = "".join((FIXTURES / name).read_text() for name in ("ended-2.6.1.json", "ended-3.0.2.json"))
    found = list(read_records([text], source="x", notes=Notes()))
    assert {"1905", "1915"} < {each.job_id for each in found}
    assert len(found) > 11


def test_an_answer_that_is_cut_costs_itself():
    text = (FIXTURES / "ended-3.0.2.json").read_text()
    *whole, broken = read_records([text, text[:300]], source="x", notes=Notes())
    assert len(whole) == 11
    assert isinstance(broken, Rejected)


ANSWER = json.loads((ROOT / "tests/fixtures/oar/ended-3.0.2.json").read_text())
PLAIN = ANSWER["1905"]


def record(**changes):
    return make_oar3_record({**PLAIN, **changes}, Notes())


def test_what_is_told_is_read_and_the_rest_is_unknown():
    job = record()
    assert (job.job_id, job.user, job.account, job.queue, job.executable) == (
        *("1905", "alice", "physics"),
        *("default", "./run.sh"),
    )
    assert (job.submit_secs, job.start_secs, job.end_secs) == (1795000000, 1795000010, 1795000070)
    assert (job.total_cpus, job.total_nodes, job.nodes, job.wall_limit_secs) == (None, None, (), None)


@pytest.mark.parametrize(
    ("job_id", "state", "word", "status", "signal"),
    [
        ("1905", JobState.COMPLETED, None, 0, None),
        ("1906", JobState.FAILED, None, 3, None),
        ("1907", JobState.FAILED, None, None, 9),
        ("1910", JobState.COMPLETED, None, None, None),
        ("1911", JobState.UNKNOWN, "Error", None, None),  # deleted, overdue or failed: events would tell
        ("1913", JobState.UNKNOWN, "Terminated", None, None),
        ("1914", JobState.RUNNING, None, None, None),
        ("1915", JobState.PENDING, None, None, None),
    ],
)
def test_how_a_job_ended_is_told_or_unknown(job_id, state, word, status, signal):
    job = make_oar3_record(ANSWER[job_id], Notes())
    assert (job.state, job.state_word, job.exit_status, job.exit_signal) == (state, word, status, signal)


def test_a_job_that_never_had_resources_has_no_start():
    assert make_oar3_record(ANSWER["1912"], Notes()).start_secs is None
    assert record(start_time=1_999_999_999, assigned_moldable_job=0).start_secs is None  # a reservation


def test_tasks_of_an_array_are_known_by_the_others():
    assert oar3_arrays_in(ANSWER) == {"1908"}
    notes = Notes()
    jobs = {job.job_id: job for job in read_records([json.dumps(ANSWER)], source="x", notes=notes)}
    told = {name: (job.array_job_id, job.array_task_id) for name, job in jobs.items() if job.array_job_id}
    assert told == {"1908": ("1908", "1"), "1909": ("1908", "2")}
    assert notes.not_taken["initial_request"] == len(ANSWER)


@pytest.mark.parametrize("name", ["start_time", "stop_time", "state", "assigned_moldable_job"])
def test_a_job_without_what_it_needs_is_refused_by_name(name):
    with pytest.raises(ParseError) as caught:
        make_oar3_record({key: value for key, value in PLAIN.items() if key != name}, Notes())
    assert caught.value.field == name


def test_what_cannot_be_read_is_named():
    notes = Notes()
    job = make_oar3_record({**PLAIN, "exit_code": "much", "user": 7}, notes)
    assert (job.user, job.exit_status, job.state) == (None, None, JobState.UNKNOWN)
    assert {each.partition(",")[0] for each in notes.unread} == {"exit_code", "user"}


def test_jobs_of_both_versions_are_told_apart():
    assert is_job(PLAIN)
    assert not is_job({"Job_Id": 7, "id": 7})
    assert not is_job([])
    [found] = read_records(['{"7": {"id": 7, "state": "Waiting"}}'], source="x", notes=Notes())
    assert isinstance(found, Rejected)
    assert "-f" in found.reason
