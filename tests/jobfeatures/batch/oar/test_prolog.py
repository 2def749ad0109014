"""What OAR's prologue hands over."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.oar.prolog import job_from_prolog
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobKey, JobState, Limits

PROLOGUE = {
    "OAR_JOB_ID": "10",
    "OAR_USER": "alice",
    "OAR_HOOK_UID": "6001",
    "OAR_JOB_NAME": "fit",
    "OAR_PROJECT_NAME": "physics",
    "OAR_JOB_WALLTIME_SECONDS": "240",
    "OAR_HOOK_START": "1795336598",
    "OAR_HOOK_NODES": "oar1 oar1 oar2",
}


def test_a_job_is_told() -> None:
    job = job_from_prolog(PROLOGUE, node_name="oar1")
    assert job == Job(
        key=JobKey("oar", "10"),
        state=JobState.RUNNING,
        name="fit",
        user="alice",
        uid=6001,
        account="physics",
        start_secs=1795336598,
        nodes=("oar1", "oar2"),
        total_cpus=3,
        allocated_cpus=2,
        limits=Limits(wall_secs=240, cpu_secs=720),
    )


def test_a_bad_value_is_told_and_stays_unknown() -> None:
    told: list[Rejected] = []
    job = job_from_prolog({**PROLOGUE, "OAR_JOB_WALLTIME_SECONDS": "soon"}, node_name=None, note=told.append)
    assert (job.limits.wall_secs, job.allocated_cpus) == (None, None)
    assert [each.field for each in told] == ["OAR_JOB_WALLTIME_SECONDS"]


@pytest.mark.parametrize("job_id", ["", "0", "10.1", "x"])
def test_without_a_job_id_there_is_no_job(job_id: str) -> None:
    with pytest.raises(ParseError, match="not a job id"):
        job_from_prolog({**PROLOGUE, "OAR_JOB_ID": job_id}, node_name="oar1")


@given(st.dictionaries(st.sampled_from(sorted(PROLOGUE)), st.text(max_size=20)))
def test_any_environment_is_a_job_or_refused(environ: dict[str, str]) -> None:
    with contextlib.suppress(ParseError):
        job_from_prolog(environ, node_name="n1")
    assert job_from_prolog({**environ, "OAR_JOB_ID": "1"}, node_name="n1").key.job_id == "1"
