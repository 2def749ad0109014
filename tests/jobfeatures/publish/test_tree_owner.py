"""Directories that belong to the user of their job, who may put anything there at any time."""

import os
import stat
import subprocess
import sys

import pytest

from jobfeatures.publish import files as files_module
from jobfeatures.publish.files import Owner
from jobfeatures.records.model import JobKey
from tests.jobfeatures.publish.owned import FOLDER, KEY, OWNER, contents, owners

pytestmark = pytest.mark.usefixtures("nowhere")


def test_a_job_s_files_belong_to_its_user_where_they_are_given_away(tree, root):
    tree.write_job(KEY, {"a": "1", "b": "2"}, OWNER)
    tree.write_job(KEY, {"a": "1", "b": "3", "c": "4"}, OWNER)
    assert owners(root / FOLDER) == {OWNER.uid}
    assert contents(root / FOLDER) == {"a": "1\n", "b": "3\n", "c": "4\n"}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (root / FOLDER).iterdir()}
    assert (modes, stat.S_IMODE((root / FOLDER).stat().st_mode)) == ({0o644}, 0o755)


def test_a_group_is_given_too(tree, root):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    tree.write_job(KEY, {"a": "1"}, Owner(12345, 54321))
    assert {(root / FOLDER).stat().st_gid, (root / FOLDER / "a").stat().st_gid} == {54321}


def test_a_status_directory_of_an_unknown_user_stays_ours(tree, root):
    tree.make_status(KEY, None)
    assert (root / "jobstatus/slurm-12").stat().st_uid == os.geteuid()


def test_a_change_of_profile_makes_the_directory_anew(tree, root):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    for owner in (None, OWNER, None):
        tree.write_job(KEY, {"a": "1"}, owner)
        assert owners(root / FOLDER) == {owner.uid if owner else 0}
        assert contents(root / FOLDER) == {"a": "1\n"}
    assert tree.sweep()


def test_only_what_changed_is_written_again_for_a_user_too(tree, root):
    tree.write_job(KEY, {"a": "1", "b": "2"}, OWNER)
    before = {path.name: path.stat().st_ino for path in (root / FOLDER).iterdir()}
    tree.write_job(KEY, {"a": "1", "b": "9"}, OWNER)
    after = {path.name: path.stat().st_ino for path in (root / FOLDER).iterdir()}
    assert (after["a"] == before["a"], after["b"] == before["b"]) == (True, False)


def put_link(path, precious):
    path.symlink_to(precious / "file")


def put_dangling_link(path, precious):
    path.symlink_to(precious / "new")


def put_hard_link(path, precious):
    os.link(precious / "file", path)


def put_fifo(path, _precious):
    os.mkfifo(path)


def put_directory(path, _precious):
    (path / "deep/deeper").mkdir(parents=True)
    (path / "file").write_text("x")


def put_link_to_directory(path, precious):
    path.symlink_to(precious)


def put_sparse_file(path, _precious):
    with path.open("wb") as file:
        file.truncate(10 * 2**30)


def put_unreadable_file(path, _precious):
    path.write_text("1\n")
    path.chmod(0)


def put_device(path, _precious):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero: reading it has no end
    except PermissionError:
        pytest.skip("devices cannot be made here")


def put_bytes(path, _precious):
    path.write_bytes(b"\xff\xfe\0")


SWAPS = [
    put_link,
    put_dangling_link,
    put_hard_link,
    put_fifo,
    put_directory,
    put_link_to_directory,
    put_sparse_file,
    put_unreadable_file,
    put_device,
    put_bytes,
]


@pytest.mark.parametrize("name", ["a", "foreign"])
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("owner", [None, OWNER])
def test_whatever_a_user_puts_there_is_replaced_and_leads_nowhere(tree, root, precious, swap, name, owner):
    tree.write_job(KEY, {"a": "1"}, owner)
    (root / FOLDER / name).unlink(missing_ok=True)
    swap(root / FOLDER / name, precious)
    tree.write_job(KEY, {"a": "1"}, owner)
    assert contents(root / FOLDER) == {"a": "1\n"}
    assert owners(root / FOLDER) == {owner.uid if owner else os.geteuid()}
    assert (root / FOLDER / "a").stat().st_nlink == 1
    assert contents(precious) == {"file": "1\n"}
    assert tree.sweep()


@pytest.mark.parametrize("at_once", [True, False])
def test_what_a_user_takes_away_at_the_same_moment_is_no_error(tree, root, monkeypatch, at_once):
    """Before its name is unlinked, or when it turned out to be a directory and is to be moved."""
    tree.write_job(KEY, {"a": "1"}, OWNER)
    foreign = root / FOLDER / "foreign"
    foreign.mkdir()
    real = os.unlink

    def unlink(name, **keywords):
        if name == "foreign":
            foreign.rmdir()
            if not at_once:
                raise IsADirectoryError
        real(name, **keywords)

    monkeypatch.setattr(os, "unlink", unlink)
    tree.write_job(KEY, {"a": "1"}, OWNER)
    assert contents(root / FOLDER) == {"a": "1\n"}


def test_a_user_s_million_files_cost_one_update_no_more_than_its_share(tree, root, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_FOREIGN", 10)
    tree.write_job(KEY, {"a": "1"}, OWNER)
    for number in range(25):
        (root / FOLDER / f"x{number}").write_text("")
    for most in (16, 7, 1):
        tree.write_job(KEY, {"a": "2"}, OWNER)
        assert 1 <= len(os.listdir(root / FOLDER)) <= most + 1
    assert (root / FOLDER / "a").read_text() == "2\n"


SWAPPER = """
import itertools, os, sys
folder, precious, uid = sys.argv[1:]
os.chdir(folder)
if int(uid):
    os.setgid(int(uid))
    os.setuid(int(uid))
print("ready", flush=True)
for number in itertools.count():
    for name in ("a", "b", "other"):
        try:
            os.rename(name, f"x{number % 100}")  # else most of the time goes into removing them
        except OSError:
            pass
        try:
            match number % 5:
                case 0: os.symlink(precious + "/file", name)
                case 1: os.symlink(precious + "/new", name)
                case 2: os.mkfifo(name)
                case 3:  # made aside: by name it might be made behind a link of our own
                    os.makedirs(f"y{number % 100}/deep", exist_ok=True)
                    os.rename(f"y{number % 100}", name)
                case 4: os.symlink(precious, name)
        except OSError:
            pass
"""


@pytest.mark.program
def test_a_user_who_swaps_without_end_neither_reaches_out_nor_stops_the_others(tree, root, precious):
    tree.write_job(KEY, {"a": "1", "b": "2"}, OWNER)
    precious.chmod(0o777)
    (precious / "file").chmod(0o666)
    uid = str(OWNER.uid if os.geteuid() == 0 else 0)
    with subprocess.Popen(
        [sys.executable, "-S", "-c", SWAPPER, str(root / FOLDER), str(precious), uid], stdout=subprocess.PIPE
    ) as swapper:
        try:
            assert swapper.stdout.readline() == b"ready\n"
            for number in range(80):
                try:
                    tree.write_job(KEY, {"a": str(number), "b": "x" * number}, OWNER)
                except OSError:
                    pass  # a directory was in the way at every attempt: told, and tried again later
                tree.write_job(JobKey("slurm", "13"), {"a": str(number)}, OWNER)
                tree.sweep(max_entries=1000)
            assert swapper.poll() is None
        finally:
            swapper.kill()
    assert contents(precious) == {"file": "1\n"}
    assert contents(root / "jobfeatures/slurm-13") == {"a": "79\n"}
    tree.write_job(KEY, {"a": "1", "b": "2"}, OWNER)
    assert (root / FOLDER / "a").read_text() == "1\n"
    tree.remove_job(KEY)
    while not tree.sweep():
        pass
    assert contents(precious) == {"file": "1\n"}
