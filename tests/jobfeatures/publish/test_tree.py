import errno
import os
import stat
import threading
import time

import pytest

from jobfeatures.publish.files import Owner
from jobfeatures.publish.folders import EXPORTS
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey
from tests.jobfeatures.publish.owned import KEY, contents
from tests.running import until

pytestmark = pytest.mark.usefixtures("nowhere")


def test_a_job_directory_holds_its_keys_one_line_each(tree, root):
    tree.write_job(KEY, {"allocated_cpu": "4", "job_id": "12"})
    assert contents(root / "jobfeatures/slurm-12") == {"allocated_cpu": "4\n", "job_id": "12\n"}


def test_modes_let_everybody_read_and_nobody_else_write(tree, root):
    tree.prepare()
    tree.write_machine({"total_cpu": "8"})
    tree.write_job(KEY, {"job_id": "12"})
    tree.write_record(KEY, "{}\n")
    tree.write_lines(EXPORTS, KEY, "export X=1\n")
    tree.hold_prolog(KEY)
    modes = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert modes == {
        "machinefeatures": 0o755,
        "machinefeatures/total_cpu": 0o644,
        "jobfeatures": 0o755,
        "jobfeatures/slurm-12": 0o755,
        "jobfeatures/slurm-12/job_id": 0o644,
        "jobstatus": 0o755,
        "exports": 0o755,
        "exports/slurm-12": 0o644,
        "failures": 0o700,
        "intake": 0o700,
        "intake/slurm-12.asked": 0o600,
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


def test_an_answer_lets_go_on_what_was_asked_before_it_or_at_its_time(tree, root):
    asked = root / "intake/slurm-12.asked"
    for asked_at_secs, is_answered in ((1e9 - 1, True), (1e9, True), (1e9 + 1, False)):
        tree.hold_prolog(KEY)
        os.utime(asked, (asked_at_secs, asked_at_secs))
        tree.release_prolog(KEY, 1e9)
        assert asked.exists() is not is_answered
    asked.unlink()
    asked.symlink_to("nowhere")  # no question of ours, and not followed
    tree.release_prolog(KEY)
    assert not asked.is_symlink()


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


def test_a_sweep_takes_what_has_not_changed_since(tree, root):
    tree.prepare()
    staging = root / "staging"
    (staging / "file").write_text("")
    (staging / "link").symlink_to("new")  # judged by itself, not by where it leads
    (staging / "folder").mkdir()
    since_secs = max(path.lstat().st_ctime for path in staging.iterdir()) + 0.001
    until(lambda: time.time() > since_secs + 0.02)  # later by more than a tick of the kernel's clock
    (staging / "new").write_text("")
    assert not tree.sweep(before_secs=since_secs)
    assert os.listdir(staging) == ["new"]


def test_what_cannot_be_removed_does_not_keep_a_sweep_from_the_rest(tree, root, monkeypatch):
    tree.prepare()
    for name in "abc":
        (root / "staging" / name).write_text("")
    unlink = os.unlink

    def refuse(name, **folder):
        if name == "b":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), name)
        unlink(name, **folder)

    monkeypatch.setattr(os, "unlink", refuse)
    assert not tree.sweep()
    assert os.listdir(root / "staging") == ["b"]


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


def test_a_link_in_place_of_a_key_is_replaced_not_followed(tree, root, tmp_path):
    target = tmp_path / "target"
    target.write_text("keep")
    tree.write_job(KEY, {"a": "1"})
    (root / "jobfeatures/slurm-12/a").unlink()
    (root / "jobfeatures/slurm-12/a").symlink_to(target)
    tree.write_job(KEY, {"a": "2"})
    assert target.read_text() == "keep"
    assert contents(root / "jobfeatures/slurm-12") == {"a": "2\n"}


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
    assert tree.read_all_notes() == [long, "b"]
    assert (tree.read_notes(KEY), tree.read_notes(other), tree.read_notes(JobKey("slurm", "14"))) == (
        (long, "r"),
        ("b", ""),
        ("", ""),
    )
    (root / "known/slurm-13.json").write_bytes(b"\xff")
    assert tree.read_all_notes()[1] == tree.read_notes(other)[0] == "\N{REPLACEMENT CHARACTER}"
    (root / "known/slurm-12.json").chmod(0o644)  # anybody may have read it: it is not as we made it
    assert len(tree.read_all_notes()) == 1


def test_published_lists_jobs_and_passes_over_other_names(tree, root):
    assert tree.published() == {}
    tree.write_job(KEY, {"a": "1"})
    (root / "jobfeatures/other").mkdir()
    (root / "jobfeatures/slurm-13").write_text("a file")
    (root / "jobfeatures/slurm-14").symlink_to(root / "jobfeatures/slurm-12")
    assert tree.published() == {KEY: (root / "jobfeatures/slurm-12").stat().st_mtime}


def test_a_starter_s_name_leads_to_the_job_it_runs_now_and_to_nothing_when_that_has_ended(tree, root):
    job, next_job = JobKey("htcondor", "17.0@schedd"), JobKey("htcondor", "18.0@schedd")
    for key in (job, next_job):
        tree.write_job(key, {"job_id": key.job_id})
        tree.make_status(key, None)

    def led():
        found = {}
        for link in (root / "jobfeatures").glob("starter.*"):
            found[link.name] = (link / "job_id").read_text().strip()
            assert (root / "jobstatus" / link.name).samefile(root / "jobstatus" / link.readlink())
        return found

    tree.link_starters(job, {4711, 4712})
    tree.link_starters(next_job, {4713})
    assert led() == {
        "starter.4711": "17.0@schedd",
        "starter.4712": "17.0@schedd",
        "starter.4713": "18.0@schedd",
    }
    tree.link_starters(job, {4712, 4714})  # another run of it
    assert led().keys() == {"starter.4712", "starter.4713", "starter.4714"}
    tree.link_starters(next_job, {4712})  # the number is used again
    assert led() == {"starter.4712": "18.0@schedd", "starter.4714": "17.0@schedd"}
    assert set(tree.published()) == {job, next_job}
    tree.remove_job(job)
    assert led() == {"starter.4712": "18.0@schedd"}
    tree.remove_job(next_job)
    assert not led()
    assert not list((root / "jobstatus").iterdir())
