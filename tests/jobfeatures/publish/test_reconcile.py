from dataclasses import replace

import pytest

from jobfeatures.jobs.evidence import Group
from jobfeatures.jobs.roster import Roster
from jobfeatures.publish.reconcile import DirectoryChanges, plan_publication
from jobfeatures.records.model import JobState


def plan(tables, published):
    """Return the plan of a daemon that has just begun, with directories that it knows nothing else of."""
    return plan_publication(Roster().judge(tables, now_secs=1000, published=published), published)


def test_a_running_job_is_written(make_job, make_table):
    found = plan([make_table(make_job())], {})
    assert [told.job.key.job_id for told in found.write] == ["12"]
    assert found.remove == ()


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.UNKNOWN, JobState.COMPLETED])
def test_a_job_that_does_not_run_is_not_written(make_job, make_table, state):
    assert plan([make_table(make_job(state=state))], {}) == DirectoryChanges((), ())


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


@pytest.mark.parametrize("sources", [{"slurm"}, ()])  # asked: what was known before is remembered
def test_living_jobs_that_the_controller_does_not_know_keep_their_directories_for_the_hold(
    make_job, make_table, sources
):
    """As with another cluster's SLURM_CONF, or a controller that has lost its state: "Invalid job id"."""
    jobs = [make_job(str(number)) for number in range(14)]
    keys = [job.key for job in jobs]
    published, living = dict.fromkeys(keys, 50.0), {key: Group(uid=1000) for key in keys[:-1]}
    roster = Roster()
    roster.judge([make_table(*jobs)], now_secs=100, groups=living, published=published)
    unknown = replace(make_table(taken_at_secs=200), gone=dict.fromkeys(keys, 200.0))
    for now_secs, removed in ((200, keys[-1:]), (3799, keys[-1:]), (3800, keys)):
        roll = roster.judge([unknown], now_secs=now_secs, groups=living, published=published, sources=sources)
        assert set(plan_publication(roll, published).remove) == set(removed)
        assert roll.leftovers == dict.fromkeys(keys[:-1], 200.0)


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


def test_of_an_answer_and_a_directory_of_the_same_instant_nobody_knows_which_came_first(make_job, make_table):
    job = make_job(state=JobState.COMPLETED)
    for table in (make_table(job, taken_at_secs=100), make_table(taken_at_secs=100)):
        assert plan([table], {job.key: 100}).remove == ()
        assert plan([table], {job.key: 99.9}).remove == (job.key,)


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
