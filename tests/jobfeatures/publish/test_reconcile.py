import pytest

from jobfeatures.model import JobState
from jobfeatures.publish.reconcile import plan_publication
from jobfeatures.roster import Roster


def plan(tables, published):
    """Return the plan of a daemon that has just begun, with directories that it knows nothing else of."""
    return plan_publication(Roster().judge(tables, now_secs=1000, published=published), published)


def test_a_running_job_is_written(make_job, make_table):
    found = plan([make_table(make_job())], {})
    assert [told.job.key.job_id for told in found.write] == ["12"]
    assert found.remove == ()


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.UNKNOWN, JobState.COMPLETED])
def test_a_job_that_does_not_run_is_not_written(make_job, make_table, state):
    assert plan([make_table(make_job(state=state))], {}).write == ()


@pytest.mark.parametrize(
    ("state", "removed"),
    [
        (JobState.COMPLETED, True),
        (JobState.CANCELLED, True),
        (JobState.TIMEOUT, True),
        (JobState.PENDING, True),
        (JobState.RUNNING, False),
        (JobState.SUSPENDED, False),
        (JobState.COMPLETING, False),
        (JobState.UNKNOWN, False),
    ],
)
def test_only_a_state_that_proves_the_end_removes(make_job, make_table, state, removed):
    job = make_job(state=state)
    found = plan([make_table(job, taken_at_secs=100)], {job.key: 50})
    assert found.remove == ((job.key,) if removed else ())


def test_absence_from_a_complete_table_removes_and_from_an_incomplete_one_does_not(make_job, make_table):
    key = make_job().key
    assert plan([make_table(complete=True)], {key: 50}).remove == (key,)
    assert plan([make_table(complete=False)], {key: 50}).remove == ()


def test_no_table_at_all_removes_nothing(make_job):
    assert plan([], {make_job().key: 50}).remove == ()


def test_another_batch_system_s_silence_proves_nothing(make_job, make_table):
    key = make_job(batch_system="spool").key
    assert plan([make_table(source="slurm")], {key: 50}).remove == ()


def test_an_answer_older_than_the_directory_proves_nothing(make_job, make_table):
    """A requeued job is published again by its prolog while the last answer still calls its first run over."""
    record = make_table(make_job(), source="hooks", complete=False, taken_at_secs=101)
    job = make_job(state=JobState.COMPLETED)
    assert plan([record, make_table(job, taken_at_secs=100)], {job.key: 101}).remove == ()
    assert plan([record, make_table(taken_at_secs=100)], {job.key: 101}).remove == ()
    assert plan([make_table(job, taken_at_secs=100)], {job.key: 101}).remove == ()
    assert plan([make_table(taken_at_secs=100)], {job.key: 101}).remove == ()


def test_a_prolog_s_record_does_not_outlive_the_controller_s_proof(make_job, make_table):
    record = make_table(make_job(), source="hooks", complete=False, taken_at_secs=140)
    answer = make_table(make_job(state=JobState.FAILED), taken_at_secs=150)
    key = make_job().key
    found = plan([record, answer], {key: 50})
    assert found.remove == (key,)
    assert found.write == ()


def test_a_completing_job_keeps_its_directory_and_gets_no_new_one(make_job, make_table):
    job = make_job(state=JobState.COMPLETING)
    assert plan([make_table(job)], {}).write == ()
    assert [told.job for told in plan([make_table(job)], {job.key: 200}).write] == [job]
