"""The control groups of Torque; constructed after its manuals and sources."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.hierarchies import match_path


@pytest.mark.parametrize(
    ("path", "job_id"),
    [
        ("/torque/1182958.batch.host", "1182958"),
        ("/torque/123[4].server", "123[4]"),
        ("/torque/123-4.server", "123-4"),
        ("/torque/123/R0.t0", "123"),
    ],
)
def test_a_path_of_torque_names_its_job(path, job_id):
    assert match_path(path) == Membership(batch_system="torque", job_id=job_id)


@pytest.mark.parametrize("path", ["/torque", "/torque/x.server", "/torque/0.server", "/torque/12x.server"])
def test_any_other_path_is_no_job_of_torque(path):
    assert match_path(path) is None
