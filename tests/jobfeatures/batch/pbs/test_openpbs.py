"""The control groups of PBS; constructed after its manuals and sources."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.layout.hierarchies import match_path


@pytest.mark.parametrize(
    ("path", "job_id"),
    [
        ("/pbs_jobs.service/jobid/1234.pbs01", "1234"),
        ("/pbs_jobs.service/jobid/1234[5].pbs01.example.org", "1234[5]"),
        ("/pbs_jobs.service/jobs/1234.pbs01/leaf", "1234"),
        ("/pbs_jobs.service/jobs/1234", "1234"),
        ("/pbs.slice/pbs_jobs.service/jobs/7.s", "7"),
        ("/system.slice/pbs_jobs.service/jobs/7.s", "7"),
        (r"/pbs_jobs.service/jobs/1234\x5b5\x5d.pbs01", "1234[5]"),
        ("/pbs_jobs.service/jobid/0.pbs01", "0"),  # the first of each fresh server
    ],
)
def test_a_path_of_pbs_names_its_job(path, job_id):
    assert match_path(path) == Membership(batch_system="pbs", job_id=job_id)


@pytest.mark.parametrize(
    "path",
    [
        "/pbs_jobs.service",
        "/pbs_jobs.service/jobid",
        "/pbs_jobs.service/1234.pbs01",
        "/pbs_jobs.service/jobid/x.pbs01",
        "/pbs_jobs.service/jobid/01.pbs01",
        "/pbs_jobs.service/jobid/1234[].pbs01",
        "/pbs_jobs.service/jobid/1234x",
        "/user.slice/pbs_jobs.service/jobs/7.s",
        "/a.slice/b.slice/pbs_jobs.service/jobs/7.s",
    ],
)
def test_any_other_path_is_no_job_of_pbs(path):
    assert match_path(path) is None
