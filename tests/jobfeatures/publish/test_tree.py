import errno
import os
import shutil
import stat
import subprocess
import sys
import threading

import pytest

from jobfeatures.errors import ConfigurationError, UnsafePathError
from jobfeatures.publish import files as files_module
from jobfeatures.publish.files import Owner
from jobfeatures.publish.folders import EXPORTS
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey

KEY = JobKey("slurm", "12")


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """Stand in a directory that is gone: what is looked up by a name alone, not in a folder of ours, fails."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()


@pytest.fixture
def root(tmp_path):
    return tmp_path / "features"


@pytest.fixture
def tree(root):
    return FeatureTree(str(root))


def contents(path):
    return {each.name: each.read_text() for each in path.iterdir()}


def test_a_job_directory_holds_its_keys_one_line_each(tree, root):
    tree.write_job(KEY, {"allocated_cpu": "4", "job_id": "12"})
    assert contents(root / "jobfeatures/slurm-12") == {"allocated_cpu": "4\n", "job_id": "12\n"}


def test_modes_let_everybody_read_and_nobody_else_write(tree, root):
    tree.prepare()
    tree.write_machine({"total_cpu": "8"})
    tree.write_job(KEY, {"job_id": "12"})
    tree.write_record(KEY, "{}\n")
    modes = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert modes == {
        "machinefeatures": 0o755,
        "machinefeatures/total_cpu": 0o644,
        "jobfeatures": 0o755,
        "jobfeatures/slurm-12": 0o755,
        "jobfeatures/slurm-12/job_id": 0o644,
        "jobstatus": 0o755,
        "exports": 0o755,
        "failures": 0o700,
        "intake": 0o700,
        "drains": 0o700,
        "known": 0o700,
        "locks": 0o700,
        "origins": 0o755,
        "records": 0o700,
        "records/slurm-12.json": 0o600,
        "staging": 0o700,
        "tokens": 0o700,
        "urls": 0o755,
    }


def test_the_caller_s_umask_does_not_matter(tree, root):
    old = os.umask(0o077)
    try:
        tree.write_job(KEY, {"job_id": "12"})
    finally:
        os.umask(old)
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "jobfeatures/slurm-12").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "jobfeatures/slurm-12/job_id").stat().st_mode) == 0o644


def test_only_what_changed_is_written_again(tree, root):
    tree.write_job(KEY, {"a": "1", "b": "2", "c": "3"})
    before = {name: (root / "jobfeatures/slurm-12" / name).stat().st_ino for name in "abc"}
    tree.write_job(KEY, {"a": "1", "b": "9"})
    after = {path.name: path.stat().st_ino for path in (root / "jobfeatures/slurm-12").iterdir()}
    assert after.keys() == {"a", "b"}
    assert after["a"] == before["a"]
    assert after["b"] != before["b"]


def test_a_reader_never_meets_an_empty_or_half_written_value(tree, root):
    values = ["1" * 10, "2" * 2000]
    tree.write_job(KEY, {"key": values[0]})
    path, stop, seen = root / "jobfeatures/slurm-12/key", threading.Event(), set()

    def read():
        while not stop.is_set():
            seen.add(path.read_text())
            seen.update(() if os.listdir(path.parent) == ["key"] else {str(os.listdir(path.parent))})

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(400):
        tree.write_job(KEY, {"key": values[number % 2]})
    stop.set()
    reader.join()
    assert seen <= {value + "\n" for value in values}


def test_a_new_directory_appears_with_all_its_keys(tree, root):
    wanted = {f"key{number}": "x" for number in range(50)}
    counts, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            try:
                counts.add(len(os.listdir(root / "jobfeatures/slurm-12")))
            except FileNotFoundError:
                pass

    tree.prepare()
    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        tree.write_job(KEY, wanted)
        tree.remove_job(KEY)
    tree.write_job(KEY, wanted)
    while 50 not in counts:
        pass
    stop.set()
    reader.join()
    assert counts == {50}


def test_removal_takes_everything_and_says_whether_there_was_something(tree, root):
    tree.write_job(KEY, {"job_id": "12"})
    tree.make_status(KEY, os.getuid())
    tree.write_lines(EXPORTS, KEY, "export X=1\n")
    tree.write_record(KEY, "{}")
    assert tree.remove_job(KEY)
    assert tree.sweep()
    assert [path for path in root.rglob("*") if "12" in path.name] == []
    assert not tree.remove_job(KEY)


def test_what_a_user_put_into_jobstatus_is_removed_however_deep_and_leads_nowhere(tree, root, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    tree.make_status(KEY, os.getuid())
    status = root / "jobstatus/slurm-12"
    (status / "link").symlink_to(precious)
    os.mkfifo(status / "fifo")
    folder = os.open(status, os.O_RDONLY)
    for _ in range(1500):  # deeper than a path name or a recursion reaches
        os.mkdir("deep", dir_fd=folder)
        below = os.open("deep", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    tree.remove_job(KEY)
    assert tree.sweep()
    assert (precious / "file").read_text() == "keep"


def test_a_sweep_ends_after_so_many_deletions_and_the_next_goes_on(tree, root):
    tree.make_status(KEY, os.getuid())
    for number in range(500):
        (root / f"jobstatus/slurm-12/{number}").write_text("")
    tree.remove_job(KEY)
    assert not tree.sweep(max_entries=100)
    assert not tree.sweep(max_entries=100)
    assert tree.sweep(max_entries=1000)


def test_a_sweep_spares_what_is_being_made_now(tree, root):
    tree.prepare()
    (root / "staging/new").write_text("")
    assert not tree.sweep(before_secs=(root / "staging/new").stat().st_ctime - 1)
    assert (root / "staging/new").exists()


def test_a_value_is_put_beside_others_and_taken_away_again(tree, root):
    tree.write_job(KEY, {"a": "1", "b": "2"})
    tree.write_machine({"a": "1", "b": "2"})
    for name in ("b", "c"):
        tree.put_job_value(KEY, name, "3")
        tree.put_machine_value(name, "3")
    for folder in ("jobfeatures/slurm-12", "machinefeatures"):
        assert contents(root / folder) == {"a": "1\n", "b": "3\n", "c": "3\n"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in (root / folder).iterdir()} == {0o644}
    for _ in range(2):  # what is not there any more is no error
        tree.put_job_value(KEY, "b", None)
        tree.put_machine_value("b", None)
    for folder in ("jobfeatures/slurm-12", "machinefeatures"):
        assert contents(root / folder) == {"a": "1\n", "c": "3\n"}


def test_a_value_that_is_put_belongs_to_whom_its_directory_was_given(tree, root):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    tree.write_job(KEY, {"a": "1"}, Owner(12345, 54321))
    tree.put_job_value(KEY, "b", "2")
    found = (root / "jobfeatures/slurm-12/b").stat()
    assert (found.st_uid, found.st_gid) == (12345, 54321)


def test_no_value_is_put_for_a_job_without_a_directory(tree, root):
    with pytest.raises(FileNotFoundError):
        tree.put_job_value(KEY, "a", "1")
    assert list((root / "jobfeatures").iterdir()) == []


def test_jobstatus_belongs_to_the_job_s_user(tree, root):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    tree.make_status(KEY, 12345, 54321)
    found = (root / "jobstatus/slurm-12").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 54321, 0o755)


def test_jobstatus_that_exists_is_left_alone(tree, root):
    tree.make_status(KEY, os.getuid())
    (root / "jobstatus/slurm-12/used_CPU").write_text("3\n")
    for uid in (os.getuid(), None):
        tree.make_status(KEY, uid)
        assert (root / "jobstatus/slurm-12/used_CPU").read_text() == "3\n"


def test_jobstatus_of_another_user_goes_with_the_secret_that_he_may_know(tree, root):
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    tree.make_status(KEY, 12345)
    (root / "jobstatus/slurm-12/used_CPU").write_text("3\n")
    secret = tree.make_token(KEY)
    tree.make_status(KEY, 54321)
    assert (root / "jobstatus/slurm-12").stat().st_uid == 54321
    assert contents(root / "jobstatus/slurm-12") == {}
    assert tree.make_token(KEY) != secret
    assert tree.sweep()


def test_a_writer_that_another_was_faster_than_takes_what_is_there(tree, root, monkeypatch):
    rename = os.rename

    def too_late(source, name, **folders):
        monkeypatch.setattr(os, "rename", rename)
        FeatureTree(str(root)).write_job(KEY, {"a": "1", "b": "2"})
        rename(source, name, **folders)

    tree.prepare()
    monkeypatch.setattr(os, "rename", too_late)
    tree.write_job(KEY, {"a": "1", "b": "3"})
    assert contents(root / "jobfeatures/slurm-12") == {"a": "1\n", "b": "3\n"}


def test_a_directory_that_cannot_be_put_in_its_place_is_an_error(tree, root, monkeypatch):
    def refuse(*_names, **_folders):
        raise OSError(errno.EIO, "Input/output error")

    tree.prepare()
    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="Input/output"):
        tree.write_job(KEY, {"a": "1"})


def test_a_prolog_s_record_stays_where_it_is_to_be_kept(tree, root):
    tree.write_job(KEY, {"a": "1"})
    tree.write_record(KEY, "{}")
    assert tree.remove_job(KEY, keep_record=True)
    assert [path.name for path in (root / "records").iterdir()] == ["slurm-12.json"]


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


def test_a_link_in_place_of_a_key_is_replaced_not_followed(tree, root, tmp_path):
    target = tmp_path / "target"
    target.write_text("keep")
    tree.write_job(KEY, {"a": "1"})
    (root / "jobfeatures/slurm-12/a").unlink()
    (root / "jobfeatures/slurm-12/a").symlink_to(target)
    tree.write_job(KEY, {"a": "2"})
    assert target.read_text() == "keep"
    assert contents(root / "jobfeatures/slurm-12") == {"a": "2\n"}


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


def test_two_writers_of_one_job_do_not_disturb_each_other(tree, root):
    def write():
        for _ in range(50):
            FeatureTree(str(root)).write_job(KEY, {"a": "1", "b": "2"})

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert contents(root / "jobfeatures/slurm-12") == {"a": "1\n", "b": "2\n"}


def test_what_is_known_of_jobs_is_read_again_whatever_it_holds(tree, root):
    other, long = JobKey("slurm", "13"), "x" * 20_000
    tree.write_known(KEY, long)
    tree.write_known(other, "b")
    tree.write_record(KEY, "r")
    (root / "known/other").write_text("of nobody")
    assert tree.known() == [long, "b"]
    assert (tree.notes(KEY), tree.notes(other), tree.notes(JobKey("slurm", "14"))) == ([long, "r"], ["b"], [])
    (root / "known/slurm-13.json").write_bytes(b"\xff")
    assert tree.known()[1] == tree.notes(other)[0] == "\N{REPLACEMENT CHARACTER}"
    (root / "known/slurm-12.json").chmod(0o644)  # anybody may have read it: it is not as we made it
    assert len(tree.known()) == 1


def test_published_lists_jobs_and_passes_over_other_names(tree, root):
    assert tree.published() == {}
    tree.write_job(KEY, {"a": "1"})
    (root / "jobfeatures/other").mkdir()
    (root / "jobfeatures/slurm-13").write_text("a file")
    (root / "jobfeatures/slurm-14").symlink_to(root / "jobfeatures/slurm-12")
    assert tree.published() == {KEY: (root / "jobfeatures/slurm-12").stat().st_mtime}


# --- a job's directory that belongs to its user (the profile of 2014) ------------

OWNER = Owner(os.geteuid() or 12345)
FOLDER = "jobfeatures/slurm-12"


def owners(path):
    return {each.lstat().st_uid for each in (path, *path.iterdir())}


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


@pytest.fixture
def precious(tmp_path):
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "file").write_text("1\n")
    return folder


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


# --- what the system refuses ------------------------------------------------------


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


# --- a crash between any two steps ------------------------------------------------


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
