"""The control groups of LSF; constructed after its manuals and sources."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.layout.hierarchies import match_path


@pytest.mark.parametrize(
    ("path", "job_id"),
    [
        ("/lsf/cluster1/job.1234.5678.1700000000", "1234"),
        ("/lsf/cluster1/job.1234[5].5678.1700000000/leaf", "1234[5]"),
    ],
)
def test_a_path_of_lsf_names_its_job(path, job_id):
    assert match_path(path) == Membership(batch_system="lsf", job_id=job_id)


@pytest.mark.parametrize(
    "path", ["/lsf/cluster1", "/lsf/job.1.2.3", "/lsf/c/job.1.2", "/lsf/c/job.0.2.3", "/lsf/a/b/job.1.2.3"]
)
def test_any_other_path_is_no_job_of_lsf(path):
    assert match_path(path) is None
