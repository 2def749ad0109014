import pytest

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
    assert left.state is JobState.COMPLETED
    [left] = roster.merge([make_table(source="hooks", taken_at_secs=120), answer]).values()
    assert left.state is JobState.COMPLETED
    assert roster.has_left(job.key, 105)
    assert not roster.has_left(job.key, 115)


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
