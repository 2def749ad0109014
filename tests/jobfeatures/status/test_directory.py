import ctypes
import fcntl
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from jobfeatures.errors import LockTimeoutError, UnsafePathError
from jobfeatures.status import directory as module
from jobfeatures.status.directory import UnreadableError, has_entry, read_status
from jobfeatures.status.jobstatus import STATUS_KEYS, parse_job_status

ME = os.geteuid()
AS_ROOT = ME == 0
OTHER_UID = ME + 1
Hold = Callable[[str, Path], AbstractContextManager[None]]


def read(path: Path, owner_uid: int = ME, lock_timeout_secs: float = 0.03) -> dict[str, bytes]:
    return read_status(str(path), owner_uid=owner_uid, lock_timeout_secs=lock_timeout_secs).values


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# --- what is read ----------------------------------------------------------------


def test_known_files_are_read_and_others_are_not(directory: Path) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    (directory / "priority_factor").write_bytes(b"\xff")
    (directory / "unknown").write_bytes(b"1\n")
    assert read(directory) == {"used_CPU": b"5\n", "priority_factor": b"\xff"}


def test_an_empty_directory_gives_no_values(directory: Path) -> None:
    found = read_status(str(directory), owner_uid=ME)
    assert found.values == {}
    assert found.written_at_secs is None


def test_the_newest_file_says_when_the_job_wrote(directory: Path) -> None:
    for name, written_at in (("used_CPU", 100), ("add_uncom_time", 300), ("last_job_start", 200)):
        (directory / name).write_bytes(b"1\n")
        os.utime(directory / name, (written_at, written_at))
    assert read_status(str(directory), owner_uid=ME).written_at_secs == 300


def test_without_used_cpu_the_others_are_still_seen(directory: Path) -> None:
    (directory / "last_job_start").write_bytes(b"1\n")
    assert read(directory) == {"last_job_start": b"1\n"}


def test_whether_something_is_there_is_seen_of_any_kind(directory: Path, tmp_path: Path) -> None:
    assert not has_entry(str(directory), ME, "profiling")
    os.mkfifo(directory / "profiling")
    assert has_entry(str(directory), ME, "profiling")
    (directory / "profiling").unlink()
    (directory / "profiling").symlink_to("nowhere")
    assert has_entry(str(directory), ME, "profiling")
    assert not has_entry(str(tmp_path / "none"), ME, "profiling")
    (tmp_path / "link").symlink_to(directory)
    assert not has_entry(str(tmp_path / "link"), ME, "profiling")


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_says_nothing(directory: Path) -> None:
    (directory / "profiling").touch()
    os.chown(directory, OTHER_UID + 1, -1)
    assert not has_entry(str(directory), OTHER_UID, "profiling")


def test_a_trailing_slash_makes_no_difference(directory: Path) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    assert read_status(f"{directory}/", owner_uid=ME).values == {"used_CPU": b"5\n"}


def test_an_absent_directory_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing" / "status")


def test_the_directory_is_never_listed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("listed")

    (directory / "used_CPU").write_bytes(b"5\n")
    for name in ("listdir", "scandir", "walk"):
        monkeypatch.setattr(os, name, refuse)
    assert read(directory) == {"used_CPU": b"5\n"}


# --- what is refused ---------------------------------------------------------------


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def make_device_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nothing")


def make_socket(path: Path) -> None:
    descriptor = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{descriptor}/{path.name}")  # short enough for an address
    os.close(descriptor)


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 2**30)


def make_long(path: Path) -> None:
    path.write_bytes(b"1" * 65)


def make_hard_link(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"1\n")
    os.link(other, path)


@pytest.mark.parametrize("name", ["used_CPU", "can_postpone_last_job"])
@pytest.mark.parametrize(
    "make",
    [
        make_link,
        make_device_link,
        make_dangling_link,
        os.mkfifo,
        Path.mkdir,
        make_socket,
        make_sparse,
        make_long,
        make_hard_link,
    ],
)
def test_what_is_not_a_small_regular_file_is_refused_by_name(
    directory: Path, make: Callable[[Path], None], name: str
) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    (directory / name).unlink(missing_ok=True)
    make(directory / name)
    before = open_descriptors()
    with pytest.raises(UnsafePathError, match=name):
        read(directory)
    assert open_descriptors() == before


@pytest.mark.skipif(not AS_ROOT, reason="only root makes devices")
def test_a_device_is_refused(directory: Path) -> None:
    try:
        os.mknod(directory / "used_CPU", 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this root may not make devices")
    with pytest.raises(UnsafePathError, match="used_CPU"):
        read(directory)


def test_a_file_that_grows_while_it_is_read_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    monkeypatch.setattr(os, "pread", lambda _file, size, _offset: b"1" * size)
    with pytest.raises(UnsafePathError, match="larger than 64 bytes"):
        read(directory)


def test_a_file_of_somebody_else_is_refused(directory: Path) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    with pytest.raises(UnsafePathError, match=f"used_CPU: belongs to uid {ME}"):
        read(directory, owner_uid=OTHER_UID)


def test_a_directory_of_somebody_else_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if AS_ROOT:
        os.chown(directory, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER_UID)
    with pytest.raises(UnsafePathError, match="status: belongs to uid"):
        read(directory, owner_uid=54321)


def test_our_own_directory_without_files_is_fine_for_any_owner(directory: Path) -> None:
    assert read(directory, owner_uid=OTHER_UID) == {}


def test_a_link_in_place_of_the_directory_is_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory)
    with pytest.raises(UnsafePathError, match="link"):
        read(tmp_path / "link")


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnsafePathError, match="must be a directory"):
        read(tmp_path / "file")


def test_a_directory_swapped_for_a_link_after_it_was_opened_does_no_harm(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "used_CPU").write_bytes(b"secret\n")
    real = module.open_inside

    def swap_after_open(folder: int, name: str, flags: int) -> int:
        opened = real(folder, name, flags)
        if name == directory.name:
            directory.rename(tmp_path / "moved")
            directory.symlink_to(elsewhere)
        return opened

    monkeypatch.setattr(module, "open_inside", swap_after_open)
    assert read(directory) == {"used_CPU": b"5\n"}
    with pytest.raises(UnsafePathError):
        read(directory)


@pytest.mark.skipif(AS_ROOT, reason="root reads everything; a simulated refusal follows")
def test_a_file_without_read_permission_is_unreadable(directory: Path) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    (directory / "used_CPU").chmod(0)
    with pytest.raises(UnreadableError, match="used_CPU"):
        read(directory)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "I/O error")])
def test_a_file_that_the_kernel_refuses_is_unreadable(
    directory: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    (directory / "last_job_start").write_bytes(b"5\n")
    real = module.open_inside

    def refuse(folder: int, name: str, flags: int) -> int:
        if name == "last_job_start":
            raise error
        return real(folder, name, flags)

    monkeypatch.setattr(module, "open_inside", refuse)
    before = open_descriptors()
    with pytest.raises(UnreadableError, match="last_job_start"):
        read(directory)
    assert open_descriptors() == before


def test_old_kernels_without_openat2_are_served(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_implemented(*_arguments: object) -> int:
        ctypes.set_errno(38)
        return -1

    monkeypatch.setattr(module, "_syscall", not_implemented)
    (directory / "used_CPU").write_bytes(b"5\n")
    assert read(directory) == {"used_CPU": b"5\n"}
    (directory / "last_job_start").symlink_to("used_CPU")
    with pytest.raises(UnsafePathError, match="last_job_start: a symbolic link"):
        read(directory)


MOUNTED = """
import os, subprocess, sys
from jobfeatures.errors import UnsafePathError
from jobfeatures.status.directory import read_status
path, mountpoint = sys.argv[1:]
if subprocess.call(["mount", "--bind", mountpoint, mountpoint]) != 0:
    sys.exit(77)
try:
    print(read_status(path, owner_uid=os.geteuid()).values)
except UnsafePathError as error:
    sys.exit("on another file system" not in str(error))
sys.exit("was read")
"""


@pytest.mark.skipif(not AS_ROOT or shutil.which("unshare") is None, reason="only root mounts, with unshare")
@pytest.mark.parametrize("below", ["", "used_CPU", "last_job_start"])
def test_a_mount_point_is_not_entered(directory: Path, below: str) -> None:
    for name in ("used_CPU", "last_job_start"):
        (directory / name).write_bytes(b"5\n")
    script = [sys.executable, "-c", MOUNTED, str(directory), str(directory / below)]
    done = subprocess.run(["unshare", "-m", *script], capture_output=True, text=True, check=False, timeout=30)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("this root may not mount")
    assert done.returncode == 0, done.stderr


# --- locks ----------------------------------------------------------------------------


@pytest.mark.program
@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_a_lock_of_either_kind_held_for_ever_is_given_up(directory: Path, held: Hold, kind: str) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    before = open_descriptors()
    with held(kind, directory / "used_CPU"), pytest.raises(LockTimeoutError, match="used_CPU"):
        read(directory)
    assert open_descriptors() == before
    assert read(directory) == {"used_CPU": b"5\n"}


@pytest.mark.program
@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_no_waiting_at_all_is_allowed(directory: Path, held: Hold, kind: str) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    assert read(directory, lock_timeout_secs=0) == {"used_CPU": b"5\n"}
    with held(kind, directory / "used_CPU"), pytest.raises(LockTimeoutError):
        read(directory, lock_timeout_secs=0)


def test_a_lock_that_is_released_in_time_is_waited_for(directory: Path) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    with (directory / "used_CPU").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        timer = threading.Timer(0.05, lambda: fcntl.flock(file, fcntl.LOCK_UN))
        timer.start()
        assert read(directory, lock_timeout_secs=20) == {"used_CPU": b"5\n"}
        timer.join()


def test_readers_do_not_shut_each_other_out(directory: Path) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    with (directory / "used_CPU").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert read(directory) == {"used_CPU": b"5\n"}


LOCK_PROBE = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    taken = 0
    for kind in (fcntl.flock, fcntl.lockf):
        try:
            kind(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            taken += 1
    print(taken)
"""


@pytest.mark.program
def test_both_locks_are_held_while_any_file_is_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in STATUS_KEYS[:3]:
        (directory / key.name).write_bytes(b"5\n")
    probe = [sys.executable, "-c", LOCK_PROBE, str(directory / "used_CPU")]
    seen: list[str] = []
    real = os.pread

    def read_and_look(file: int, size: int, offset: int) -> bytes:
        seen.append(subprocess.run(probe, capture_output=True, text=True, check=True).stdout.strip())
        return real(file, size, offset)

    monkeypatch.setattr(os, "pread", read_and_look)
    read(directory)
    assert seen == ["2", "2", "2"]


def test_a_writer_that_renames_used_cpu_is_locked_anew(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    real, calls = fcntl.flock, []

    def replace_once(file: int, operation: int) -> None:
        real(file, operation)
        if not calls:
            (directory / "new").write_bytes(b"6\n")
            (directory / "new").rename(directory / "used_CPU")
        calls.append(file)

    monkeypatch.setattr(fcntl, "flock", replace_once)
    assert read(directory, lock_timeout_secs=20) == {"used_CPU": b"6\n"}
    assert len(calls) == 2


def test_a_used_cpu_that_appears_while_the_others_are_read_is_locked(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "last_job_start").write_bytes(b"1\n")
    real = os.pread

    def create(file: int, size: int, offset: int) -> bytes:
        (directory / "used_CPU").write_bytes(b"5\n")
        return real(file, size, offset)

    monkeypatch.setattr(os, "pread", create)
    assert read(directory, lock_timeout_secs=20) == {"used_CPU": b"5\n", "last_job_start": b"1\n"}


def test_a_used_cpu_that_keeps_changing_is_given_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "used_CPU").write_bytes(b"5\n")
    monkeypatch.setattr(module, "is_still", lambda *_arguments: False)
    with pytest.raises(LockTimeoutError):
        read(directory)


@pytest.mark.program
def test_a_lease_does_not_make_us_wait(directory: Path) -> None:
    script = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""
    path = directory / "used_CPU"
    path.write_bytes(b"5\n")
    argv = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"held\n":
            pytest.skip("this file system grants no leases")
        with pytest.raises(LockTimeoutError):
            read(directory)
        assert holder.poll() is None
        holder.kill()


# --- against the client's writer ----------------------------------------------------------

WRITER = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("client", sys.argv[1])
client = importlib.util.module_from_spec(spec)
spec.loader.exec_module(client)
with client.StatusWriter(sys.argv[2]) as writer:
    for number in range(1, 1_000_000):
        values = dict(used_CPU=number, last_job_start=number, last_exp_job_end=number, add_uncom_time=number)
        values["first_exp_job_end"] = number if number % 2 else None
        values["can_postpone_last_job"] = bool(number % 3)
        writer.update(priority_factor=-number, **values)
        if number == 1:
            print("started", flush=True)
        time.sleep(0.001)
"""


@pytest.mark.program
def test_a_reader_never_sees_a_mixed_set(directory: Path) -> None:
    client = importlib.util.find_spec("jobfeatures.client")
    assert client is not None
    assert client.origin is not None
    argv = [sys.executable, "-c", WRITER, client.origin, str(directory)]
    numbers: list[int] = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"started\n"
        try:
            while len(set(numbers)) < 50:
                status = parse_job_status(read(directory, lock_timeout_secs=20), allocated_cpus=None)
                number = status.used_cpu
                numbers.append(number)
                assert status.last_job_start == status.last_exp_job_end == status.add_uncom_time == number
                assert status.first_exp_job_end == (number if number % 2 else None)
                assert status.can_postpone_last_job is bool(number % 3)
                assert status.priority_factor == -number
                assert status.last_max_job_end is None
        finally:
            writer.kill()
    assert numbers == sorted(numbers)
