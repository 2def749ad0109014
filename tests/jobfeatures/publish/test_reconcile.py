import pytest

from jobfeatures.model import JobState
from jobfeatures.publish.reconcile import plan_publication


def test_a_running_job_is_written(make_job, make_table):
    plan = plan_publication([make_table(make_job())], {}, {})
    assert [job.key.job_id for job in plan.write] == ["12"]
    assert plan.remove == ()


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.UNKNOWN, JobState.COMPLETED])
def test_a_job_that_does_not_run_is_not_written(make_job, make_table, state):
    assert plan_publication([make_table(make_job(state=state))], {}, {}).write == ()


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
    plan = plan_publication([make_table(job, taken_at_secs=100)], {job.key: 50}, {})
    assert plan.remove == ((job.key,) if removed else ())


def test_absence_from_a_complete_table_removes_and_from_an_incomplete_one_does_not(make_job, make_table):
    key = make_job().key
    assert plan_publication([make_table(complete=True)], {key: 50}, {}).remove == (key,)
    assert plan_publication([make_table(complete=False)], {key: 50}, {}).remove == ()


def test_no_table_at_all_removes_nothing(make_job):
    assert plan_publication([], {make_job().key: 50}, {}).remove == ()


def test_another_batch_system_s_silence_proves_nothing(make_job, make_table):
    key = make_job(batch_system="spool").key
    assert plan_publication([make_table(source="slurm")], {key: 50}, {}).remove == ()


def test_an_answer_older_than_the_directory_proves_nothing(make_job, make_table):
    """A requeued job is published again by its prolog while the last answer still calls its first run over."""
    job = make_job(state=JobState.COMPLETED)
    assert plan_publication([make_table(job, taken_at_secs=100)], {job.key: 101}, {}).remove == ()
    assert plan_publication([make_table(taken_at_secs=100)], {job.key: 101}, {}).remove == ()


def test_a_prolog_s_record_does_not_outlive_the_controller_s_proof(make_job, make_table):
    record = make_table(make_job(), source="hooks", complete=False, taken_at_secs=200)
    answer = make_table(make_job(state=JobState.FAILED), taken_at_secs=150)
    key = make_job().key
    plan = plan_publication([record, answer], {key: 50}, {})
    assert plan.remove == (key,)
    assert plan.write == ()


def test_a_directory_that_an_epilog_removed_is_not_brought_back_by_an_older_answer(make_job, make_table):
    job = make_job()
    old, new = make_table(job, taken_at_secs=100), make_table(job, taken_at_secs=300)
    assert plan_publication([old], {}, {job.key: 200}).write == ()
    assert plan_publication([new], {}, {job.key: 200}).write == (job,)
