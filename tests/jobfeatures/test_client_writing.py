"""$JOBSTATUS as the client writes it, whole or amended."""

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from jobfeatures import client
from jobfeatures.client import (
    StatusWriter,
)
from jobfeatures.status import jobstatus
from jobfeatures.status.directory import read_status
from jobfeatures.status.jobstatus import (
    STATUS_KEYS,
    StatusViolation,
    parse_job_status,
)
from tests.jobfeatures.test_client import NOW, fill


@pytest.fixture
def job(tmp_path: Path) -> Path:
    made = tmp_path / "job"
    made.mkdir()
    return made


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_names_and_ranges_are_those_of_the_reader() -> None:
    assert {
        key.name: None if key.value_type == "boolean" else (key.lowest, key.highest) for key in STATUS_KEYS
    } == client.STATUS_KEYS
    assert jobstatus.USED_CPU.name == client.USED_CPU


def test_a_set_is_written_as_the_draft_wants_it(job: Path) -> None:
    old = os.umask(0o077)
    try:
        with StatusWriter(str(job), allocated_cpu=8) as writer:
            writer.update(used_CPU=5, can_postpone_last_job=False, priority_factor=-1, last_job_start=NOW)
    finally:
        os.umask(old)
    assert content(job) == {
        "used_CPU": b"5\n",
        "can_postpone_last_job": b"False\n",
        "priority_factor": b"-1\n",
        "last_job_start": f"{NOW}\n".encode(),
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in job.iterdir()} == {0o644}


def test_later_updates_keep_what_they_do_not_name_and_the_same_used_cpu_file(job: Path) -> None:
    writer = StatusWriter(str(job))
    writer.update(used_CPU=5, first_exp_job_end=10, add_uncom_time=1000)
    inode = (job / "used_CPU").stat().st_ino
    writer.update(used_CPU=12, add_uncom_time=3)
    writer.update(first_exp_job_end=None)
    assert content(job) == {"used_CPU": b"12\n", "add_uncom_time": b"3\n"}
    assert (job / "used_CPU").stat().st_ino == inode
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.update(used_CPU=1)
    writer.close()


BAD: list[dict[str, object]] = [
    {},
    {"last_job_start": 1},
    {"used_CPU": None},
    {"used_CPU": 9},
    {"used_CPU": -1},
    {"used_CPU": 1.0},
    {"used_CPU": "1"},
    {"used_CPU": True},
    {"used_CPU": 2**63},
    {"used_CPU": 1, "used_cpu": 1},
    {"used_CPU": 1, "../x": 1},
    {"used_CPU": 1, "unknown": None},
    {"used_CPU": 1, "can_postpone_last_job": "True"},
    {"used_CPU": 1, "can_postpone_last_job": 1},
    {"used_CPU": 1, "last_job_start": NOW * 1000},
    {"used_CPU": 1, "first_exp_job_end": 2, "last_exp_job_end": 1},
]


@pytest.mark.parametrize("values", BAD, ids=str)
def test_bad_values_are_refused_before_anything_is_touched(job: Path, values: Mapping[str, object]) -> None:
    with StatusWriter(str(job), allocated_cpu=8) as writer:
        with pytest.raises(ValueError, match=r"."):
            writer.update(**values)
        assert content(job) == {}
        writer.update(used_CPU=2, last_exp_job_end=1)
        before = content(job)
        with pytest.raises(ValueError, match="first_exp_job_end"):
            writer.update(first_exp_job_end=2)
        assert content(job) == before


def test_a_directory_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StatusWriter(str(tmp_path / "nothing"))


HOLDER = """
import fcntl, sys
file = open(sys.argv[2], "r+")
getattr(fcntl, sys.argv[1])(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.program
@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_a_lock_of_either_kind_keeps_the_writer_out(job: Path, kind: str) -> None:
    writer = StatusWriter(str(job), lock_timeout_secs=0.03)
    writer.update(used_CPU=1)
    argv = [sys.executable, "-c", HOLDER, kind, str(job / "used_CPU")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(TimeoutError, match="used_CPU"):
            writer.update(used_CPU=2, last_job_start=5)
        assert content(job) == {"used_CPU": b"1\n"}
        holder.kill()
    writer.update(used_CPU=2)
    assert content(job) == {"used_CPU": b"2\n"}
    writer.close()


@pytest.mark.parametrize("fails_at", range(4))
def test_a_write_that_breaks_off_leaves_a_set_that_readers_refuse(
    job: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    old = {"used_CPU": 4, "last_job_start": 1, "last_exp_job_end": 5, "priority_factor": 1}
    new = {"used_CPU": 5, "last_job_start": 2, "last_exp_job_end": 6, "priority_factor": 2}
    real, calls = os.write, []

    def fail(file: int, text: bytes) -> int:
        calls.append(text)
        if len(calls) > fails_at:
            raise OSError(28, "No space left on device")
        return real(file, text)

    with StatusWriter(str(job)) as writer:
        writer.update(**old)
        monkeypatch.setattr(os, "write", fail)
        with pytest.raises(OSError, match="No space"):
            writer.update(**new)
        with pytest.raises(StatusViolation):
            parse_job_status(read_status(str(job), owner_uid=os.geteuid()).values, allocated_cpus=None)
        monkeypatch.undo()
        writer.update(used_CPU=6)
        values = read_status(str(job), owner_uid=os.geteuid()).values
        assert values == {name: f"{value}\n".encode() for name, value in {**old, "used_CPU": 6}.items()}


def test_a_cut_write_is_an_error(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _file, text: len(text) - 1)
    with StatusWriter(str(job)) as writer, pytest.raises(OSError, match="space"):
        writer.update(used_CPU=5)


def test_threads_of_one_job_may_share_a_writer(job: Path) -> None:
    writer = StatusWriter(str(job))

    def work(number: int) -> None:
        for _ in range(20):
            writer.update(used_CPU=number, last_job_start=number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = content(job)
    assert values["used_CPU"] == values["last_job_start"]
    writer.close()


# --- amending ------------------------------------------------------------------------


def test_an_amendment_keeps_what_another_writer_wrote(job: Path) -> None:
    with StatusWriter(str(job)) as first:
        first.update(used_CPU=5, last_job_start=NOW, can_postpone_last_job=True, priority_factor=-3)
    with StatusWriter(str(job), allocated_cpu=8) as second:
        second.amend(used_CPU=6, can_postpone_last_job=None)
        assert content(job) == {
            "used_CPU": b"6\n",
            "last_job_start": f"{NOW}\n".encode(),
            "priority_factor": b"-3\n",
        }
        second.update(last_job_start=None)
    assert content(job) == {"used_CPU": b"6\n", "priority_factor": b"-3\n"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("used_CPU", ""),
        ("priority_factor", "many"),
        ("priority_factor", "--1"),
        ("last_job_start", "-1"),
        ("add_uncom_time", "9" * 30),
        ("can_postpone_last_job", "true"),
    ],
)
def test_an_amendment_replaces_a_broken_set_whole(job: Path, name: str, text: str) -> None:
    fill(job, **{"used_CPU": 5, "last_exp_job_end": NOW, name: text})
    with StatusWriter(str(job)) as writer:
        writer.amend(used_CPU=2)
    assert content(job) == {"used_CPU": b"2\n"}


@pytest.mark.parametrize("values", BAD, ids=str)
def test_a_bad_amendment_is_refused_before_anything_is_touched(
    job: Path, values: Mapping[str, object]
) -> None:
    with StatusWriter(str(job), allocated_cpu=8) as writer, pytest.raises(ValueError, match=r"."):
        writer.amend(**values)
    assert content(job) == {}


def test_an_amendment_that_contradicts_what_is_there_changes_nothing(job: Path) -> None:
    fill(job, used_CPU=5, last_exp_job_end=NOW)
    before = content(job)
    with StatusWriter(str(job)) as writer, pytest.raises(ValueError, match="first_exp_job_end"):
        writer.amend(first_exp_job_end=NOW + 1)
    assert content(job) == before


AMENDER = """
import sys
from jobfeatures.client import StatusWriter
for _ in range(30):
    with StatusWriter(sys.argv[1]) as writer:
        writer.amend(**{sys.argv[2]: 7, "used_CPU": 1})
        writer.amend(**{sys.argv[2]: None})
        writer.amend(**{sys.argv[2]: 8})
"""


@pytest.mark.program
def test_amendments_of_several_processes_are_not_lost(job: Path) -> None:
    names = ["last_job_start", "add_uncom_time", "priority_factor"]
    processes = [subprocess.Popen([sys.executable, "-c", AMENDER, str(job), name]) for name in names]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert content(job) == {"used_CPU": b"1\n", **dict.fromkeys(names, b"8\n")}
