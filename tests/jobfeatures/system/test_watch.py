"""Changes are told, reading is not, and no state of the folder ends the watch."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.system import watch
from jobfeatures.system.inotify import Inotify
from jobfeatures.system.watch import (
    file_system_of,
    is_remote,
    parse_mount_id,
    parse_mount_types,
    watch_directory,
)
from tests.running import until

MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:1 / / rw,relatime shared:1 master:2 - ext4 /dev/vda1 rw
40 27 0:44 / /mnt/a\\040b rw - nfs4 server:/x rw,vers=4.2
41 27 0:45 / /home rw - fuse.sshfs host: rw
nonsense
42 27
"""


class Notes:
    """Counts notifications, and waits for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_for_more_than(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.count > count, 60)


@contextmanager
def watching(folder, check_secs: float = 60.0):
    """Watch .xml files; after 60 s of quiet at the earliest the folder itself is looked at."""
    notes = Notes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "CHECK_SECS", check_secs)
        patch.setattr(watch, "LOOK_SECS", check_secs)
        with watch_directory(str(folder), notes, is_wanted=lambda name: name.endswith(".xml")):
            yield notes


@pytest.fixture
def force_polling(monkeypatch):
    monkeypatch.setattr(watch, "file_system_of", lambda directory: "nfs4")
    monkeypatch.setattr(watch, "POLL_SECS", 0.02)


@pytest.fixture
def exhaust_inotify(monkeypatch):
    monkeypatch.setattr(Inotify, "open", lambda _: False)
    monkeypatch.setattr(watch, "POLL_SECS", 0.02)


def check_all_changes_are_seen(folder) -> None:
    path = folder / "a.xml"
    with watching(folder) as notes:
        seen = notes.count
        path.write_text("1")
        assert notes.wait_for_more_than(seen)
        seen = notes.count
        (folder / ".aside").write_text("22")
        os.rename(folder / ".aside", path)
        assert notes.wait_for_more_than(seen)
        seen = notes.count
        path.unlink()
        assert notes.wait_for_more_than(seen)


def test_a_new_a_replaced_and_a_removed_file_are_seen(tmp_path):
    check_all_changes_are_seen(tmp_path)


@pytest.mark.usefixtures("force_polling")
def test_changes_are_seen_where_inotify_does_not_reach(tmp_path):
    check_all_changes_are_seen(tmp_path)


@pytest.mark.usefixtures("exhaust_inotify")
def test_changes_are_seen_where_inotify_is_exhausted(tmp_path):
    check_all_changes_are_seen(tmp_path)


def test_changes_are_seen_through_a_link_to_the_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    check_all_changes_are_seen(tmp_path / "link")


def test_reading_and_unwanted_files_do_not_notify(tmp_path):
    """The last change is wanted and comes after all others in the same queue: what it finds is final."""
    (tmp_path / "a.xml").write_text("1")
    with watching(tmp_path) as notes:
        for _ in range(50):
            (tmp_path / "a.xml").read_text()
            os.listdir(tmp_path)
        (tmp_path / ".aside").write_text("1")
        (tmp_path / "notes.txt").write_text("1")
        (tmp_path / "folder.xml").mkdir()
        os.rename(tmp_path / ".aside", tmp_path / "b.xml")
        assert notes.wait_for_more_than(0)
    assert notes.count == 1


@pytest.mark.parametrize("reach", [None, "force_polling"])
def test_folders_that_come_and_go_are_seen_where_they_are_wanted(tmp_path, request, reach):
    if reach:
        request.getfixturevalue(reach)
    notes = Notes()
    with watch_directory(str(tmp_path), notes, directories=True):
        (tmp_path / "dir_7").mkdir()
        assert notes.wait_for_more_than(0)
        seen = notes.count
        (tmp_path / "dir_7").rmdir()
        assert notes.wait_for_more_than(seen)


def test_a_missing_folder_is_asked_about_until_it_is_there(tmp_path):
    folder = tmp_path / "later"
    with watching(folder, check_secs=0.02) as notes:
        assert notes.wait_for_more_than(2)
        folder.mkdir()
        check_becomes_quiet(notes)
        seen = notes.count
        (folder / "a.xml").write_text("1")
        assert notes.wait_for_more_than(seen)


def test_a_folder_is_found_again_at_once_where_one_takes_its_place(tmp_path):
    """No time has come to look at it."""
    for name in ("spool", "next"):
        (tmp_path / name).mkdir()
    with watching(tmp_path / "spool") as notes:
        (tmp_path / "next").rename(tmp_path / "spool")
        assert notes.wait_for_more_than(0)
        seen = notes.count
        (tmp_path / "spool/a.xml").write_text("1")
        assert notes.wait_for_more_than(seen)


def test_a_folder_that_gets_the_number_of_the_one_before_is_found_though_a_check_is_due(
    tmp_path, monkeypatch
):
    """File systems give a directory's inode to the next one; a check is due at every moment here."""
    monkeypatch.setattr(watch, "identify", lambda _: (1, 1))
    for name in ("spool", "next"):
        (tmp_path / name).mkdir()
    with watching(tmp_path / "spool", check_secs=0.0) as notes:
        (tmp_path / "next").rename(tmp_path / "spool")
        assert notes.wait_for_more_than(0)
        seen = notes.count
        (tmp_path / "spool/a.xml").write_text("1")
        assert notes.wait_for_more_than(seen)


@pytest.mark.parametrize("how", ["moved away", "removed", "below another"])
def test_a_replaced_folder_is_found(tmp_path, how):
    folder = tmp_path / "site/spool"
    folder.mkdir(parents=True)
    with watching(folder, check_secs=0.02) as notes:
        if how == "moved away":
            folder.rename(tmp_path / "old")
        elif how == "removed":
            shutil.rmtree(folder)
        else:
            folder.parent.rename(tmp_path / "old")
        assert notes.wait_for_more_than(1)
        folder.mkdir(parents=True)
        check_becomes_quiet(notes)
        seen = notes.count
        (folder / "a.xml").write_text("1")
        assert notes.wait_for_more_than(seen)


def test_a_folder_that_is_missing_is_looked_for_though_others_are_there(tmp_path, monkeypatch):
    with watching(tmp_path), monkeypatch.context() as patch:
        patch.setattr(watch, "CHECK_SECS", 0.02)  # those that are there are looked at once a minute
        notes = Notes()
        with watch_directory(str(tmp_path / "spool"), notes):
            assert notes.wait_for_more_than(3)


def check_becomes_quiet(notes: Notes) -> None:
    """Wait until the folder is watched again, which is when it is no longer asked about all the time."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        seen = notes.count
        time.sleep(0.3)  # fifteen times the interval of asking
        if notes.count == seen:
            return
    pytest.fail("the folder is never watched again")


def test_folders_share_a_thread(tmp_path):
    """On a node at rest each thread is memory and wakeups."""
    before = set(threading.enumerate())
    folders = [tmp_path / name for name in ("a", "b", "c")]
    with ExitStack() as stack:
        for folder in folders:
            folder.mkdir()
            stack.enter_context(watching(folder))
        added = set(threading.enumerate()) - before
        assert [each.name for each in added] == ["watch-folders"]


def test_two_who_watch_one_folder_are_told_until_each_leaves(tmp_path):
    with watching(tmp_path) as first:
        with watching(tmp_path) as second:
            (tmp_path / "a.xml").write_text("1")
            assert first.wait_for_more_than(0)
            assert second.wait_for_more_than(0)
        seen = first.count
        (tmp_path / "b.xml").write_text("1")
        assert first.wait_for_more_than(seen)


def test_no_thread_is_left_behind(tmp_path):
    before = set(threading.enumerate())
    with watching(tmp_path), watching(tmp_path / "missing"):
        pass
    deadline = time.monotonic() + 60
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) - before == set()


def test_the_type_of_a_file_system_is_found():
    assert file_system_of("/proc") == "proc"
    assert file_system_of("/does/not/exist") is None


@pytest.mark.parametrize(
    ("file_system", "remote"),
    [("ext4", False), ("xfs", False), ("tmpfs", False), ("nfs", True), ("nfs4", True), ("cifs", True),
     ("fuse.sshfs", True), ("fuseblk", True), ("overlay", True), ("9p", True), (None, True)],
)  # fmt: skip
def test_file_systems_that_others_change_are_known(file_system, remote):
    assert is_remote(file_system) is remote


def test_mounts():
    types = parse_mount_types(MOUNTINFO)
    assert types == {"22": "proc", "27": "ext4", "40": "nfs4", "41": "fuse.sshfs"}
    assert types[parse_mount_id("pos:\t0\nflags:\t0100000\nmnt_id:\t40\nino:\t5\n")] == "nfs4"
    assert parse_mount_id("pos:\t0\n") == ""


@given(st.text() | st.text("0 -:\nmnt_id", max_size=30))
def test_any_text_gives_mounts(text):
    for mount, file_system in parse_mount_types(text).items():
        assert " " not in mount + file_system
    assert parse_mount_id(text) in text


def test_a_failure_of_one_that_is_told_ends_no_other_watch(tmp_path, caplog):
    def fail():
        raise ZeroDivisionError

    (tmp_path / "other").mkdir()
    (tmp_path / "failing").mkdir()
    with watching(tmp_path / "other") as notes, watch_directory(str(tmp_path / "failing"), fail):
        (tmp_path / "failing" / "a").touch()
        until(lambda: "unexpected error in handling a change in" in caplog.text)
        seen = notes.count
        (tmp_path / "other" / "a.xml").touch()
        assert notes.wait_for_more_than(seen)
