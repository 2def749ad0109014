"""What the daemon makes of the jobs that a look shows."""

from dataclasses import replace

import pytest

from jobfeatures.config import Config
from jobfeatures.records.model import JobKey, JobState, Limits
from jobfeatures_exporter.model.snapshot import Accounting, JobSample, Snapshot
from jobfeatures_exporter.state.knowledge import Knowledge, manners_of

LIVING, EMPTY = JobKey("lsf", "1"), JobKey("lsf", "2")


@pytest.fixture
def knowledge(clock):
    return Knowledge(clock)


@pytest.fixture
def look_at(context):
    """Return a function that makes a snapshot of jobs."""

    def made(*jobs):
        return replace(context.snapshot, jobs={each.key: each for each in jobs})

    return made


def test_an_empty_control_group_is_no_job_that_lives_here(knowledge, look_at):
    """LSF may hide the jobs of others, so it is not believed that it does not know one that lives here."""
    snapshot = look_at(
        JobSample(key=LIVING, accounting=Accounting.CGROUP, processes=1),
        JobSample(key=EMPTY, accounting=Accounting.CGROUP, processes=0),
    )
    assert knowledge.seen(snapshot) == ({LIVING}, {EMPTY})
    assert knowledge.seen(None) == (frozenset(), frozenset())


@pytest.mark.parametrize("in_group", [True, False])
def test_processes_in_a_group_that_counts_nothing_remain_of_an_ended_job(
    knowledge, look_at, make_job, make_table, clock, in_group
):
    """Where Slurm has the freezer's groups alone; processes that only a list named are looked for no more."""
    job = make_job(state=JobState.COMPLETED)
    sample = JobSample(key=job.key, accounting=Accounting.PROCESSES, processes=1, in_group=in_group)
    table = make_table(job, taken_at_secs=clock.now_secs())
    knowledge.judge(lambda: [table], lambda: look_at(sample), ["slurm"])
    assert set(knowledge.roll.leftovers) == ({job.key} if in_group else set())


def test_whose_answers_never_tell_a_suspension_depends_on_who_is_asked():
    assert manners_of(Config()).silent == {"htcondor", "oar"}
    assert manners_of(Config(oar_ask="controller")).silent == {"htcondor"}
    assert manners_of(Config()).waiting == {"slurm", "oar"}


def test_a_frozen_group_suspends_its_job_at_the_next_look(clock, make_job, make_table):
    job = make_job(start_secs=1, limits=Limits(wall_secs=600))
    tables, key = [make_table(job, taken_at_secs=clock.now_secs() - 10)], job.key
    known = Knowledge(clock, manners_of(Config()))
    for is_frozen, state in (
        (False, JobState.RUNNING),
        (True, JobState.SUSPENDED),
        (False, JobState.RUNNING),
    ):
        sample = JobSample(
            key=key, accounting=Accounting.CGROUP, processes=1, in_group=True, is_frozen=is_frozen
        )
        look = Snapshot(taken_at_secs=clock.now_secs(), duration_secs=0, node=None, jobs={key: sample})
        known.judge(lambda: tables, lambda look=look: look, ())
        assert known.jobs[key].state is state
        clock.advance(10)
