"""Folders of the tree: whose they may be, and who may write to them."""

import os

import pytest

from jobfeatures.errors import UnsafePathError
from tests.jobfeatures.publish.owned import KEY, contents

pytestmark = pytest.mark.usefixtures("nowhere")


@pytest.mark.parametrize("name", ["jobfeatures", "staging", "machinefeatures"])
def test_a_link_in_place_of_a_folder_is_refused(tree, root, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.mkdir()
    (root / name).symlink_to(elsewhere)
    with pytest.raises(UnsafePathError):
        tree.prepare()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
@pytest.mark.parametrize("name", ["", "jobfeatures"])
def test_a_folder_that_a_group_or_others_may_write_to_is_refused(tree, root, name, mode):
    tree.prepare()
    (root / name).chmod(mode)
    with pytest.raises(UnsafePathError, match=rf"writable by others \(mode {mode:o}\)"):
        tree.write_job(KEY, {"job_id": "12"})


def test_a_folder_in_which_everybody_may_remove_only_what_is_his_is_taken(tree, root):
    tree.prepare()
    root.chmod(0o1777)
    tree.write_job(KEY, {"job_id": "12"})
    assert contents(root / "jobfeatures/slurm-12") == {"job_id": "12\n"}


def test_a_root_of_another_user_is_refused(tree, root):
    if os.geteuid() != 0:
        pytest.skip("only root can make a directory of another user")
    root.mkdir()
    os.chown(root, 12345, -1)
    with pytest.raises(UnsafePathError, match="12345"):
        tree.prepare()
