"""The control groups of OAR; constructed after its scripts."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.hierarchies import match_path


@pytest.mark.parametrize(
    ("path", "job_id"),
    [("/oar/alice_10", "10"), ("/oar/a_b_7_12/child", "12"), ("/oar/bob_3_", None), ("/oar/x/alice_1", None)],
)
def test_a_path_of_oar_names_its_job(path, job_id):
    expected = None if job_id is None else Membership(batch_system="oar", job_id=job_id)
    assert match_path(path) == expected


@pytest.mark.parametrize(
    "path",
    ["/oar", "/oar/alice", "/oar/_0", "/oar/alice_0", "/oar/_10", "/oar/alice_1x", "/user.slice/oar/a_1"],
)
def test_any_other_path_is_no_job_of_oar(path):
    assert match_path(path) is None
