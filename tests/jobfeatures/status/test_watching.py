"""One descriptor tells which of many directories have changed, once each."""

import errno
import os
import shutil

import pytest

from jobfeatures.status import keeper
from jobfeatures.status.keeper import DirectoryWatch
from jobfeatures.system import inotify
from tests.running import NO_INOTIFY, Exhausted


@pytest.fixture
def watch():
    made = DirectoryWatch()
    yield made
    made.close()


@pytest.fixture
def folders(tmp_path):
    """Two directories as `watch` takes them."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return [(str(tmp_path / name), os.getuid()) for name in ("one", "two")]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "new").write_text("1"),
        lambda folder: (folder / "used_CPU").write_text("7"),
        lambda folder: os.truncate(folder / "used_CPU", 0),
        lambda folder: (folder / "used_CPU").unlink(),
        lambda folder: os.rename(folder / "used_CPU", folder / "away"),
        lambda folder: (folder / "used_CPU").chmod(0o600),
        lambda folder: (folder / "link").symlink_to("/etc/passwd"),
        shutil.rmtree,
    ],
)
def test_each_kind_of_change_is_told_of_its_directory(watch, folders, tmp_path, change):
    (tmp_path / "one/used_CPU").write_text("5")
    watch.watch(folders)
    change(tmp_path / "one")
    assert watch.wait(20) == {folders[0][0]}


def test_reading_and_locking_is_no_change(watch, folders, tmp_path):
    (tmp_path / "one/used_CPU").write_text("5")
    watch.watch(folders)
    (tmp_path / "one/used_CPU").read_text()
    os.listdir(tmp_path / "one")
    assert watch.wait(0) == frozenset()


def test_a_directory_is_told_once_until_it_is_watched_again(watch, folders, tmp_path):
    """A job that writes in a loop costs nothing between two looks."""
    watch.watch(folders)
    for number in range(100):
        (tmp_path / "one" / str(number)).write_text("1")
    assert watch.wait(0) == {folders[0][0]}
    (tmp_path / "one/more").write_text("1")
    assert watch.wait(0) == frozenset()
    assert watch.watched == {folders[1][0]}
    watch.watch(folders)
    (tmp_path / "one/more").write_text("2")
    assert watch.wait(0) == {folders[0][0]}


def test_what_happens_below_a_directory_s_directories_is_not_watched(watch, folders, tmp_path):
    (tmp_path / "one/deep").mkdir()
    watch.watch(folders)
    (tmp_path / "one/deep/file").write_text("1")
    assert watch.wait(0) == frozenset()


def test_a_directory_that_is_not_given_any_more_is_not_watched(watch, folders, tmp_path):
    watch.watch(folders)
    watch.watch(folders[1:])
    (tmp_path / "one/file").write_text("1")
    assert watch.wait(0) == frozenset()
    assert watch.watched == {folders[1][0]}


def test_a_directory_replaced_under_its_name_is_found(watch, folders, tmp_path):
    watch.watch(folders)
    os.rename(tmp_path / "one", tmp_path / "old")
    (tmp_path / "one").mkdir()
    watch.watch(folders, anew=True)
    (tmp_path / "old/file").write_text("1")
    assert watch.wait(0) == frozenset()
    (tmp_path / "one/file").write_text("1")
    assert watch.wait(0) == {folders[0][0]}


def test_links_files_and_nothing_are_passed_over(watch, folders, tmp_path):
    (tmp_path / "link").symlink_to("one")
    (tmp_path / "file").write_text("")
    odd = [(str(tmp_path / name), os.getuid()) for name in ("link", "file", "missing")]
    watch.watch([*odd, *folders])
    assert watch.watched == {path for path, _ in folders}


def test_a_limit_leaves_the_rest_unwatched(folders, caplog, monkeypatch):
    monkeypatch.setattr(keeper, "MAX_WATCHES", 1)
    watch = DirectoryWatch()
    watch.watch(folders)
    watch.watch(folders)
    assert watch.watched == {folders[0][0]}
    assert len(caplog.records) == 1
    watch.close()


@pytest.mark.parametrize(
    "kernel",
    [NO_INOTIFY, Exhausted(inotify_add_watch=errno.ENOSPC)],
    ids=["no instance", "no watch"],
)
def test_without_inotify_nothing_is_watched_and_waiting_still_ends(monkeypatch, folders, caplog, kernel):
    monkeypatch.setattr(inotify, "_libc", kernel)
    watch = DirectoryWatch()
    watch.watch(folders)
    assert watch.watched == frozenset()
    assert watch.wait(0.01) == frozenset()
    watch.wake()
    assert watch.wait(20) == frozenset()
    assert len(caplog.records) == 1
    watch.close()


def test_waking_after_the_end_touches_nobody_else_s_descriptor(watch):
    watch.close()
    reader, writer = os.pipe2(os.O_NONBLOCK)
    watch.wake()
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)


def test_no_descriptor_is_left(folders):
    before = set(os.listdir("/proc/self/fd"))
    watch = DirectoryWatch()
    watch.watch(folders)
    watch.close()
    assert set(os.listdir("/proc/self/fd")) == before
