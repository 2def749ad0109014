"""The control groups and node lists of Torque; constructed after its manuals and sources."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures.batch.pbs.torque import read_nodefile
from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.layout.hierarchies import match_path


@pytest.mark.parametrize(
    ("path", "job_id"),
    [
        ("/torque/1182958.batch.host", "1182958"),
        ("/torque/123[4].server", "123[4]"),
        ("/torque/123-4.server", "123-4"),
        ("/torque/123/R0.t0", "123"),
        ("/torque/0.server", "0"),  # the first of each fresh server
    ],
)
def test_a_path_of_torque_names_its_job(path, job_id):
    assert match_path(path) == Membership(batch_system="torque", job_id=job_id)


@pytest.mark.parametrize("path", ["/torque", "/torque/x.server", "/torque/01.server", "/torque/12x.server"])
def test_any_other_path_is_no_job_of_torque(path):
    assert match_path(path) is None


def test_a_node_list_has_a_line_for_each_slot(tmp_path) -> None:
    path = tmp_path / "123.head"
    path.write_text("n1\nn1\nn2\n")
    assert read_nodefile(str(path)) == {"n1": 2, "n2": 1}
    path.write_text("n1\nn 2\n")
    with pytest.raises(ParseError, match=r"123\.head:2: not a host name: 'n 2'"):
        read_nodefile(str(path))
    path.write_text("")
    assert read_nodefile(str(path)) == {}
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        read_nodefile(str(link))
