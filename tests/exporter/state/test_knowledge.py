"""What the daemon makes of the jobs that a look shows."""

from dataclasses import replace

import pytest

from jobfeatures.records.model import JobKey, JobState
from jobfeatures_exporter.snapshot import Accounting, JobSample
from jobfeatures_exporter.state.knowledge import Knowledge

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
