"""The control groups of OAR; constructed after its scripts."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.layout.hierarchies import match_path
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies, list_job_directories


@pytest.mark.parametrize(
    ("path", "job_id"),
    [("/oar/alice_10", "10"), ("/oar/a_b_7_12/child", "12"), ("/oar/bob_3_", None), ("/oar/x/alice_1", None)],
)
def test_a_path_of_oar_names_its_job(path, job_id):
    expected = None if job_id is None else Membership(batch_system="oar", job_id=job_id)
    assert match_path(path) == expected


JOB_OF_SYSTEMD = "/oar.slice/oar-u6001.slice/oar-u6001-j10.slice"


@pytest.mark.parametrize(
    "below", ["", "/oar-u6001-j10-p123.scope", "/oar-u6001-j10-t7.slice/oar-u6001-j10-t7-p9.scope"]
)
def test_a_slice_of_oar_2_6_names_its_job_and_user(below):
    assert match_path(JOB_OF_SYSTEMD + below) == Membership(batch_system="oar", job_id="10", uid=6001)


def test_a_job_s_slice_of_oar_2_6_is_found_below_its_user_s(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    for path in (
        JOB_OF_SYSTEMD,
        "/oar.slice/oar-u6001.slice/oar-u6002-j11.slice",
        "/oar.slice/oar-u6001-j12.slice",
    ):
        (tmp_path / path.lstrip("/") / "oar-u6001-j10-p123.scope").mkdir(parents=True)
    found, complete = list_job_directories(find_hierarchies(str(tmp_path)), Unreadable())
    assert complete
    assert [each.path for each in found] == [JOB_OF_SYSTEMD]


@pytest.mark.parametrize(
    "path",
    [
        "/oar",
        "/oar/alice",
        "/oar/_0",
        "/oar/alice_0",
        "/oar/_10",
        "/oar/alice_1x",
        "/user.slice/oar/a_1",
        "/oar.slice",
        "/oar.slice/oar-u6001.slice",
        "/oar.slice/oar-u6001-j10.slice",
        "/oar.slice/oar-u6002.slice/oar-u6001-j10.slice",
        "/oar.slice/oar-u6001.slice/oar-u6001-j0.slice",
        "/user.slice/oar.slice/oar-u1.slice/oar-u1-j1.slice",
    ],
)
def test_any_other_path_is_no_job_of_oar(path):
    assert match_path(path) is None
