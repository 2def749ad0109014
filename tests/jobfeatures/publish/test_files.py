"""What single mistakes in files.py and tree.py would change, beside the tests of the tree."""

import errno
import os
import stat

import pytest

from jobfeatures.errors import UnsafePathError
from jobfeatures.publish import files as files_module
from jobfeatures.publish.files import Owner, read_private, replace_file, write_if_changed
from jobfeatures.publish.folders import URLS
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey

KEY = JobKey("slurm", "12")
OF_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose files another user finds")


@pytest.fixture
def folders(tmp_path):
    """Descriptors of a folder and of `staging`, while the working directory is another."""
    for name in ("folder", "staging"):
        (tmp_path / name).mkdir()
    found = [os.open(tmp_path / name, os.O_RDONLY) for name in ("folder", "staging")]
    yield found
    for each in found:
        os.close(each)


@pytest.fixture
def tree(tmp_path):
    return FeatureTree(str(tmp_path / "features"))


@pytest.fixture
def as_other_user(monkeypatch):
    """What is asked who it is says: not root. The kernel knows better."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 4711)


def test_a_system_that_writes_a_byte_at_a_time_gets_all_of_them(folders, tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(files_module.os, "write", lambda file, content: real(file, content[:1]))
    replace_file(*folders, "key", b"value\n", 0o644)
    assert (tmp_path / "folder/key").read_bytes() == b"value\n"


def blocked(monkeypatch, folder, cleared_at):
    """Put a directory in the way of a key, which only the given attempt to take it away does."""
    (folder / "key").mkdir()
    attempts = []

    def evict(*_):
        attempts.append(1)
        if len(attempts) == cleared_at:
            (folder / "key").rmdir()

    monkeypatch.setattr(files_module, "_evict", evict)


def test_the_last_attempt_counts_too(folders, tmp_path, monkeypatch):
    blocked(monkeypatch, tmp_path / "folder", cleared_at=files_module._ATTEMPTS)
    replace_file(*folders, "key", b"1\n", 0o644)
    assert (tmp_path / "folder/key").read_bytes() == b"1\n"
    assert not any((tmp_path / "staging").iterdir())


def test_what_finds_a_directory_in_its_way_each_time_leaves_nothing_behind(folders, tmp_path, monkeypatch):
    blocked(monkeypatch, tmp_path / "folder", cleared_at=None)
    with pytest.raises(IsADirectoryError):
        replace_file(*folders, "key", b"1\n", 0o644)
    assert not any((tmp_path / "staging").iterdir())


@pytest.mark.parametrize("size", [3, 20_000])  # more than a value may have: some texts are longer
def test_what_has_not_changed_is_not_written_whatever_its_length(folders, tmp_path, size):
    write_if_changed(*folders, "lines", b"x" * size)
    before = (tmp_path / "folder/lines").stat()
    assert stat.S_IMODE(before.st_mode) == 0o644
    write_if_changed(*folders, "lines", b"x" * size)
    assert (tmp_path / "folder/lines").stat().st_ino == before.st_ino
    write_if_changed(*folders, "lines", b"x" * (size - 1))
    assert (tmp_path / "folder/lines").read_bytes() == b"x" * (size - 1)


@OF_ROOT
def test_another_user_s_daemon_leaves_what_root_wrote_and_takes_it_for_its_own(
    folders, tree, tmp_path, as_other_user
):
    path = tmp_path / "folder/lines"
    path.write_bytes(b"1\n")
    path.chmod(0o644)
    before = path.stat().st_ino
    write_if_changed(*folders, "lines", b"1\n")
    assert path.stat().st_ino == before
    path.chmod(0o600)
    assert read_private(folders[0], "lines") == b"1\n"


@OF_ROOT
def test_what_is_to_be_a_user_s_is_made_anew_where_it_is_root_s(folders, tmp_path):
    path = tmp_path / "folder/lines"
    path.write_bytes(b"1\n")
    path.chmod(0o400)
    write_if_changed(*folders, "lines", b"1\n", 0o400, Owner(4711, 4711))
    assert path.stat().st_uid == 4711


@OF_ROOT
def test_another_user_s_daemon_keeps_directories_and_values_of_root(tree, tmp_path, monkeypatch):
    tree.write_job(KEY, {"a": "1"})
    folder = tmp_path / "features/jobfeatures/slurm-12"
    before = folder.stat().st_ino, (folder / "a").stat().st_ino
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    tree.write_job(KEY, {"a": "1"})
    assert (folder.stat().st_ino, (folder / "a").stat().st_ino) == before


def test_who_may_not_give_away_keeps_what_he_makes(tree, tmp_path, as_other_user):
    tree.write_job(KEY, {"a": "1"}, Owner(4712, 4712))
    tree.write_lines(URLS, KEY, "lines\n", Owner(4712, 4712))
    made = (tmp_path / "features").rglob("*")
    assert {each.stat().st_uid for each in made} == {os.getuid()}


def test_a_private_text_has_two_names_at_most(folders, tmp_path):
    path = tmp_path / "folder/token"
    path.write_bytes(b"secret\n")
    path.chmod(0o600)
    os.link(path, tmp_path / "folder/second")  # as while it is made
    assert read_private(folders[0], "token") == b"secret\n"
    os.link(path, tmp_path / "folder/third")
    assert read_private(folders[0], "token") is None


def test_a_record_that_is_a_link_is_one_by_itself(tree, tmp_path):
    tree.prepare()
    (tmp_path / "features/records/slurm-12.json").symlink_to("nowhere")
    assert tree.record_version(KEY) is not None


def test_a_directory_that_goes_while_it_is_looked_at_hides_no_other(tree, tmp_path, monkeypatch):
    tree.write_job(KEY, {"a": "1"})
    tree.write_job(JobKey("slurm", "13"), {"a": "1"})
    real = os.scandir

    class Gone:
        def __init__(self, entry):
            self.name, self._entry = entry.name, entry

        def is_dir(self, **how):
            return self._entry.is_dir(**how)

        def stat(self, **how):
            if self.name == "slurm-12":
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return self._entry.stat(**how)

    class Scanned:
        def __init__(self, folder):
            self._entries = real(folder)

        def __enter__(self):
            return map(Gone, self._entries)

        def __exit__(self, *_):
            self._entries.close()

    monkeypatch.setattr("jobfeatures.publish.tree.os.scandir", Scanned)
    assert list(tree.published()) == [JobKey("slurm", "13")]


def test_a_link_to_a_directory_is_swept_away_and_what_it_names_stays(tree, tmp_path):
    tree.prepare()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("1\n")
    (tmp_path / "features/staging/link").symlink_to(tmp_path / "precious")
    assert tree.sweep()
    assert (tmp_path / "precious/file").read_text() == "1\n"


@pytest.mark.parametrize("files", [1, 2, 255, 256, 257, 300])
def test_a_sweep_takes_as_many_entries_as_it_may_and_no_more(tree, tmp_path, files):
    tree.prepare()
    left = tmp_path / "features/staging/left"
    left.mkdir()
    for number in range(files):
        (left / str(number)).touch()
    assert not tree.sweep(max_entries=files)  # the directory itself is one
    assert len(list(left.iterdir())) <= 1
    assert tree.sweep()


def test_whose_the_directory_is_that_others_can_write_is_said(tree, tmp_path):
    tree.write_job(KEY, {"a": "1"})
    folder = tmp_path / "features/jobfeatures/slurm-12"
    folder.chmod(0o777)
    with pytest.raises(UnsafePathError, match=r"features/jobfeatures/slurm-12: writable by others"):
        tree.write_job(KEY, {"a": "2"})


def test_a_token_s_place_that_others_write_is_named(tree, monkeypatch):
    monkeypatch.setattr("jobfeatures.publish.tree.parse_token", lambda _: None)
    with pytest.raises(UnsafePathError, match=r"tokens/slurm-12: another process keeps replacing it"):
        tree.make_token(KEY)


def test_one_update_takes_out_so_many_strange_names_at_most(tree, tmp_path, monkeypatch):
    tree.write_job(KEY, {"a": "1"})
    folder = tmp_path / "features/jobfeatures/slurm-12"
    for number in range(9):
        (folder / f"strange{number}").touch()
    monkeypatch.setattr(files_module, "MAX_FOREIGN", 3)
    tree.write_job(KEY, {"a": "1"})
    assert len(list(folder.iterdir())) >= 7  # of ten; the next update goes on
    monkeypatch.undo()
    tree.write_job(KEY, {"a": "1"})
    assert [each.name for each in folder.iterdir()] == ["a"]
