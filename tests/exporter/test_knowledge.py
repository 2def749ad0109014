"""What the daemon tells batch sources of the jobs that a look shows."""

from dataclasses import replace

import pytest

from jobfeatures.model import JobKey
from jobfeatures_exporter.knowledge import Knowledge
from jobfeatures_exporter.snapshot import Accounting, JobSample

LIVING, EMPTY = JobKey("lsf", "1"), JobKey("lsf", "2")


@pytest.fixture
def snapshot(context):
    jobs = {
        LIVING: JobSample(key=LIVING, accounting=Accounting.CGROUP, processes=1),
        EMPTY: JobSample(key=EMPTY, accounting=Accounting.CGROUP, processes=0),
    }
    return replace(context.snapshot, jobs=jobs)


def test_an_empty_control_group_is_no_job_that_lives_here(clock, snapshot):
    """LSF may hide the jobs of others, so it is not believed that it does not know one that lives here."""
    knowledge = Knowledge(clock, hold_secs=3600)
    assert knowledge.seen(snapshot) == ({LIVING}, {EMPTY})
    assert knowledge.seen(None) == (frozenset(), frozenset())
