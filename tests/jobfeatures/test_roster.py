from dataclasses import replace

import pytest

from jobfeatures.jobs.evidence import Group, Presence
from jobfeatures.model import JobState
from jobfeatures.roster import Roster


class Merging(Roster):
    def merge(self, tables):
        return self.judge(tables, now_secs=1000).jobs


@pytest.fixture
def roster():
    return Merging()


def test_a_job_is_put_together_from_all_sources(roster, make_job, make_table):
    record = make_table(make_job(account="physics"), source="hooks", complete=False)
    answer = make_table(make_job(name="x", account=None))
    [job] = roster.merge([record, answer]).values()
    assert (job.account, job.name) == ("physics", "x")


def test_a_job_whose_epilog_has_run_has_ended_although_the_last_answer_calls_it_running(
    roster, make_job, make_table
):
    job = make_job()
    answer = make_table(job, taken_at_secs=100)
    assert roster.merge([make_table(job, source="hooks", taken_at_secs=101), answer])
    empty = make_table(source="hooks", taken_at_secs=110)
    [left] = roster.merge([empty, answer]).values()
    assert left.state is JobState.UNKNOWN  # how it ended nobody has told
    [left] = roster.merge([make_table(source="hooks", taken_at_secs=120), answer]).values()
    assert left.state is JobState.UNKNOWN  # how it ended nobody has told
    assert roster.has_left(job.key, 105)
    assert not roster.has_left(job.key, 115)


@pytest.mark.parametrize("gone", [True, False])  # or absent from a list of all jobs
def test_processes_of_a_job_that_nobody_knows_are_what_an_ended_job_left(make_job, make_table, gone):
    """A daemon that has been started anew never knew the job."""
    key, roster = make_job().key, Roster()

    def judge(now_secs, asked_secs):
        answer = replace(make_table(taken_at_secs=asked_secs), gone={key: asked_secs} if gone else None)
        return roster.judge([answer], now_secs=now_secs, groups={key: Group(6001)})

    assert judge(1000, 990).leftovers == {}
    assert judge(1060, 1059).leftovers == {}  # it may have started since
    assert judge(1070, 1061).leftovers == {key: 1061}
    assert judge(9000, 8990).leftovers == {key: 1061}
    assert judge(9001, 8990).presences == {key: Presence.LEFT}
    known = make_table(make_job(), taken_at_secs=9010)
    assert roster.judge([known], now_secs=9011, groups={key: Group(6001)}).leftovers == {}


def test_a_newer_answer_is_believed_again(roster, make_job, make_table):
    job = make_job()
    roster.merge([make_table(job, source="hooks", taken_at_secs=101)])
    empty = make_table(source="hooks", taken_at_secs=110)
    [back] = roster.merge([empty, make_table(job, taken_at_secs=111)]).values()
    assert back.state is JobState.RUNNING


def test_a_requeued_job_is_back_with_its_new_record(roster, make_job, make_table):
    job = make_job()
    answer = make_table(job, taken_at_secs=100)
    roster.merge([make_table(job, source="hooks", taken_at_secs=101), answer])
    roster.merge([make_table(source="hooks", taken_at_secs=110), answer])
    [back] = roster.merge([make_table(job, source="hooks", taken_at_secs=120), answer]).values()
    assert back.state is JobState.RUNNING


def test_a_job_without_a_record_is_not_doubted(roster, make_job, make_table):
    roster.merge([make_table(source="hooks", taken_at_secs=101)])
    tables = [make_table(source="hooks", taken_at_secs=110), make_table(make_job(), taken_at_secs=1)]
    assert roster.merge(tables)[make_job().key].state is JobState.RUNNING
