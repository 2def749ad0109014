"""What the daemon makes of the jobs that a look shows."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from jobfeatures.batch import BatchSettings
from jobfeatures.batch.source import KeeperStatus
from jobfeatures.records.model import JobKey, JobState, Limits
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample, Snapshot
from jobfeatures_exporter.node.knowledge import Knowledge, suspension_rules_of
from jobfeatures_exporter.node.nodeboard import NodeBoard
from tests.configured import configured

LIVING, EMPTY = JobKey("lsf", "1"), JobKey("lsf", "2")


@pytest.fixture
def board(clock, tmp_path):
    return NodeBoard(configured(features_root=str(tmp_path), batch_sources=()), clock)


@pytest.fixture
def knowledge(board):
    return Knowledge(board)


def answering(table):
    """Return what stands on the board for a source that has answered."""
    return SimpleNamespace(status=KeeperStatus(table.source, table))


@pytest.fixture
def look_at(context):
    """Return a function that makes a snapshot of jobs."""

    def made(*jobs):
        return replace(context.snapshot, jobs={each.key: each for each in jobs})

    return made


def test_an_empty_control_group_is_no_job_that_lives_here(board, knowledge, look_at):
    """LSF may hide the jobs of others, so it is not believed that it does not know one that lives here."""
    snapshot = look_at(
        JobSample(key=LIVING, accounting=FigureSource.CGROUP, processes=1),
        JobSample(key=EMPTY, accounting=FigureSource.CGROUP, processes=0),
    )
    assert knowledge.seen() == (frozenset(), frozenset())
    board.samples.put(snapshot)
    assert knowledge.seen() == ({LIVING}, {EMPTY})


@pytest.mark.parametrize("in_group", [True, False])
def test_processes_in_a_group_that_counts_nothing_remain_of_an_ended_job(
    board, knowledge, look_at, make_job, make_table, clock, in_group
):
    """Where Slurm has the freezer's groups alone; processes that only a list named are looked for no more."""
    job = make_job(state=JobState.COMPLETED)
    sample = JobSample(key=job.key, accounting=FigureSource.PROCESSES, processes=1, in_group=in_group)
    table = make_table(job, taken_at_secs=clock.now_secs())
    board.keepers = [answering(table)]
    board.samples.put(look_at(sample))
    knowledge.judge()
    assert set(board.known_jobs.leftovers) == ({job.key} if in_group else set())


def test_whose_answers_never_tell_a_suspension_depends_on_who_is_asked():
    assert suspension_rules_of(BatchSettings()).silent == {"htcondor", "oar"}
    assert suspension_rules_of(configured(BatchSettings, oar_ask="controller")).silent == {"htcondor"}
    assert suspension_rules_of(BatchSettings()).waiting == {"slurm", "oar"}


def test_a_job_whose_end_is_reported_is_sampled_once_more_at_once(
    board, knowledge, make_job, make_table, clock
):
    running = make_job(state=JobState.RUNNING)
    board.keepers = [answering(make_table(running, taken_at_secs=clock.now_secs()))]
    assert knowledge.judge(), "there are directories to make"
    assert not board.samples.wanted.is_set()
    assert not knowledge.judge()
    clock.advance(10)
    ended = make_job(state=JobState.COMPLETED)
    board.keepers = [answering(make_table(ended, taken_at_secs=clock.now_secs()))]
    assert knowledge.judge()
    assert board.samples.wanted.is_set()
    knowledge.begin_sample()
    assert knowledge.on_node().keys() == {ended.key}


def test_a_rest_goes_on_while_control_groups_show_all_jobs(board, knowledge, make_job, look_at):
    board.pause_secs, board.jobs = 60.0, {LIVING: make_job(LIVING.job_id, state=JobState.RUNNING)}
    for in_group in (True, False):
        sample = JobSample(key=LIVING, accounting=FigureSource.CGROUP, processes=1, in_group=in_group)
        board.samples.put(look_at(sample))
        knowledge.request_sample_if_unseen()
        assert board.samples.wanted.is_set() is not in_group


def test_a_rest_ends_for_a_job_that_no_control_group_has_shown(board, knowledge, make_job):
    for pause_secs, jobs, is_ended in ((60.0, {}, False), (1.0, {LIVING}, False), (60.0, {LIVING}, True)):
        board.pause_secs = pause_secs
        board.jobs = {key: make_job(key.job_id, state=JobState.RUNNING) for key in jobs}
        knowledge.request_sample_if_unseen()
        assert board.samples.wanted.is_set() is is_ended


def test_a_frozen_group_suspends_its_job_at_the_next_look(board, knowledge, clock, make_job, make_table):
    job = make_job(start_secs=1, limits=Limits(wall_secs=600))
    board.keepers, key = [answering(make_table(job, taken_at_secs=clock.now_secs() - 10))], job.key
    for is_frozen, state in (
        (False, JobState.RUNNING),
        (True, JobState.SUSPENDED),
        (False, JobState.RUNNING),
    ):
        sample = JobSample(
            key=key, accounting=FigureSource.CGROUP, processes=1, in_group=True, is_frozen=is_frozen
        )
        look = Snapshot(taken_at_secs=clock.now_secs(), duration_secs=0, node=None, jobs={key: sample})
        board.samples.put(look)
        knowledge.judge()
        assert board.jobs[key].state is state
        clock.advance(10)
