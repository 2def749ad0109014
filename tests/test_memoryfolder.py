"""A killed run's folder in memory goes with the next run's start; that of a living one stays."""

import os

from tests.memoryfolder import make_folder


def test_the_next_run_takes_away_what_a_killed_one_left_and_nothing_of_the_living(tmp_path):
    living, remove = make_folder(tmp_path)
    os.mkdir(f"{living}/pytest-of-root")
    for name in ("jf-run-killed", "jf-run-new", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "jf-run-new/file").unlink()  # its run has not locked it yet
    (tmp_path / "jf-run-old").mkdir()  # and this one was killed before its first test
    os.utime(tmp_path / "jf-run-old", (0, 0))
    (tmp_path / "jf-run-link").symlink_to(tmp_path / "others")
    own, remove_own = make_folder(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {os.path.basename(living), os.path.basename(own), "jf-run-new", "jf-run-link", "others"}
    assert (tmp_path / "others/file").exists()
    remove_own()
    remove()
    assert not os.path.exists(living)
