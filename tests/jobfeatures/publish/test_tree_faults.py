"""What the system refuses, a crash between any two steps, and a second daemon."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish import files as files_module
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey
from tests.jobfeatures.publish.owned import FOLDER, KEY, OWNER, contents, owners

pytestmark = pytest.mark.usefixtures("nowhere")


def test_a_full_disk_leaves_the_old_value_and_no_temporary(tree, root, monkeypatch):
    tree.write_job(KEY, {"a": "old"})

    def full(_file, _data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files_module.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        tree.write_job(KEY, {"a": "new"})
    with pytest.raises(OSError, match="No space"):
        tree.write_job(JobKey("slurm", "13"), {"a": "new"})
    assert contents(root / "jobfeatures/slurm-12") == {"a": "old\n"}
    assert not (root / "jobfeatures/slurm-13").exists()
    assert [path for path in (root / "staging").rglob("*") if path.is_file()] == []


def test_on_a_read_only_file_system_reading_goes_on_and_writing_says_so(tree, root, monkeypatch):
    tree.write_job(KEY, {"a": "1"})
    real = os.open

    def read_only(path, flags, *arguments, **keywords):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *arguments, **keywords)

    monkeypatch.setattr(files_module.os, "open", read_only)
    tree.write_job(KEY, {"a": "1"})  # nothing has changed: nothing is written
    with pytest.raises(OSError, match="Read-only"):
        tree.write_job(KEY, {"a": "2"})
    assert list(tree.published()) == [KEY]
    assert contents(root / FOLDER) == {"a": "1\n"}


def test_a_really_full_disk_leaves_old_values_and_no_empty_file(tmp_path):
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        tree = FeatureTree(str(disk / "features"))
        tree.write_job(KEY, {"a": "1"})
        with pytest.raises(OSError, match="No space"):
            (disk / "filler").write_bytes(b"x" * 2**20)
        with pytest.raises(OSError, match="No space"):
            tree.write_job(KEY, {"a": "2", "b": "3"})
        with pytest.raises(OSError, match="No space"):
            tree.write_job(JobKey("slurm", "13"), {"a": "1"})
        assert contents(disk / "features/jobfeatures/slurm-12") == {"a": "1\n"}
        assert list(tree.published()) == [KEY]
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("owner", [None, OWNER])
@pytest.mark.parametrize("call", ["mkdir", "open", "write", "fchmod", "rename"])
@pytest.mark.parametrize("number", range(4))
def test_after_a_crash_the_next_writer_puts_everything_right(tree, root, monkeypatch, call, number, owner):
    class Crash(BaseException):
        """What no handler catches."""

    tree.prepare()
    tree.write_job(KEY, {"a": "1"}, owner)
    real, count = getattr(os, call), iter(range(10**6))

    def dying(*arguments, **keywords):
        if next(count) >= number:
            raise Crash
        return real(*arguments, **keywords)

    for key in (KEY, JobKey("slurm", "13")):
        monkeypatch.setattr(os, call, dying)
        try:
            tree.write_job(key, {"a": "2", "b": "3"}, owner)
        except Crash:
            pass
        finally:
            monkeypatch.setattr(os, call, real)
        for path in (root / "jobfeatures").iterdir():
            assert set(contents(path).items()) <= {("a", "1\n"), ("a", "2\n"), ("b", "3\n")}
            assert owners(path) == {owner.uid if owner else os.geteuid()}
        tree.write_job(key, {"a": "2", "b": "3"}, owner)
        assert contents(root / "jobfeatures" / key.directory_name) == {"a": "2\n", "b": "3\n"}
    assert tree.sweep()


def test_a_file_of_ours_is_written_again_only_when_it_changed(tree):
    tree.write_origins(KEY, "a\tb\n")
    before = os.stat(tree.origins_path(KEY)).st_ino
    tree.write_origins(KEY, "a\tb\n")
    assert os.stat(tree.origins_path(KEY)).st_ino == before
    tree.write_origins(KEY, "a\tc\n")
    assert os.stat(tree.origins_path(KEY)).st_ino != before


DAEMON = """
import os, sys, time
from jobfeatures.publish.tree import FeatureTree
with FeatureTree(sys.argv[1]).kept_by_one_daemon():
    if sys.argv[2] == "forks" and os.fork():
        os.write(1, b"%d\\n" % os.getpid())  # in one piece: two processes write
        os._exit(0)
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)
"""


@pytest.mark.program
def test_a_second_daemon_is_refused_and_told_who_the_first_is(tree, root):
    command = [sys.executable, "-c", DAEMON, str(root), "stays"]
    with subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE, text=True) as first:
        try:
            pid = int(first.stdout.readline())
            with (
                pytest.raises(ConfigurationError, match=f"features.root: .*, process {pid}"),
                tree.kept_by_one_daemon(),
            ):
                pass
            with tree.locked(KEY):  # jobs are not affected
                pass
        finally:
            first.kill()  # as good as an end: nothing has to be removed
    with tree.kept_by_one_daemon():
        pass


@pytest.mark.program
def test_what_a_daemon_has_started_does_not_hold_its_place(tree, root):
    command = [sys.executable, "-c", DAEMON, str(root), "forks"]
    with subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE, text=True) as first:
        pids = {int(first.stdout.readline()) for _ in range(2)}
        first.wait()
        [child] = pids - {first.pid}
        try:
            with tree.kept_by_one_daemon():
                pass
        finally:
            os.kill(child, 9)


def test_where_no_lock_can_be_taken_the_daemon_starts_all_the_same(tree, root):
    root.mkdir(mode=0o755)
    (root / "locks").write_text("in the way")
    with tree.kept_by_one_daemon():
        pass
