"""Reads $JOBSTATUS, a directory that an untrusted user owns, from a daemon that may be root.

Only the nine known names are opened, relative to the directory's descriptor, without following links,
crossing mount points or blocking; the directory is never listed. Anything but a small regular file of the
job's user is refused.

Locks: the draft requires that used_CPU is locked first, but does not say how. flock(2) and fcntl(2) locks are
independent on local file systems. So both are taken, shared, flock first, on one descriptor: closing any
descriptor of a file drops all fcntl locks that this process holds on it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from jobfeatures.errors import LockTimeoutError, UnsafePathError
from jobfeatures.status.jobstatus import STATUS_KEYS, USED_CPU
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.privatefile import READ_UNFOLLOWED, closing, opened

LOCK_TIMEOUT_SECS = 0.2
MAX_VALUE_BYTES = 64  # a 64-bit number has 20 characters
_ATTEMPT_INTERVAL_SECS = 0.005
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_CLOCK = SystemClock()  # timeouts of locks are in real time, whatever clock the caller uses


class UnreadableError(UnsafePathError):
    """Raised when a file or the directory of $JOBSTATUS cannot be opened or read."""


class StatusFiles(NamedTuple):
    """The files of a status directory, read under its lock: their contents by file name.

    `written_at_secs` is the latest modification time of the files, in epoch seconds.
    """

    values: dict[str, bytes]
    written_at_secs: float | None = None  # None without files; the job can set it to any value


def read_status(path: str, *, owner_uid: int, lock_timeout_secs: float = LOCK_TIMEOUT_SECS) -> StatusFiles:
    """Read the files of a job's status directory while no writer holds the lock of the file used_CPU.

    All but the last component of `path` must belong to the user of this process. The directory may belong to
    `owner_uid`, to root or to that user, the files to `owner_uid` only. Without used_CPU there is nothing to
    lock; the other files are read all the same, so that the caller sees them.

    Raises FileNotFoundError if there is no directory. Raises UnsafePathError, naming the file, for a link,
    another kind of file, a foreign owner, a second hard link, a mount point or more than `MAX_VALUE_BYTES`,
    and its subclass UnreadableError if opening or reading fails. Raises LockTimeoutError if a lock was held
    for longer than `lock_timeout_secs`, which may be 0.
    """
    deadline = _CLOCK.monotonic_secs() + lock_timeout_secs
    reader = _Reader(path, owner_uid, deadline)
    with opened_directory(path, owner_uid) as directory:
        while True:
            files = reader.read_once(directory)
            if files is not None:
                return files
            reader.wait()


@dataclass
class _Reader:
    path: str
    owner_uid: int
    deadline: float

    def read_once(self, directory: int) -> StatusFiles | None:
        """Return the set, or None if used_CPU was created or replaced meanwhile and must be locked again."""
        with contextlib.ExitStack() as stack:
            used_cpu = self._open(directory, USED_CPU.name, stack)
            if used_cpu is not None:
                self._lock(used_cpu)
                # A lock on a file that no longer has this name protects nothing.
                if not is_still(used_cpu, directory, USED_CPU.name):
                    return None
            values: dict[str, bytes] = {}
            times: list[float] = []
            for key in STATUS_KEYS:
                file = used_cpu if key is USED_CPU else self._open(directory, key.name, stack)
                if file is not None:
                    values[key.name], written_at_secs = self._read(file, key.name)
                    times.append(written_at_secs)
            if used_cpu is None and values and _stat(directory, USED_CPU.name) is not None:
                return None
            return StatusFiles(values, max(times, default=None))

    def wait(self) -> None:
        """Wait a moment before the next attempt. Raises LockTimeoutError after the deadline."""
        left = self.deadline - _CLOCK.monotonic_secs()
        if left <= 0:
            raise LockTimeoutError(f"{self.path}/{USED_CPU.name}: locked by another process")
        time.sleep(min(_ATTEMPT_INTERVAL_SECS, left))

    def _lock(self, file: int) -> None:
        for lock in (fcntl.flock, fcntl.lockf):
            while True:
                try:
                    lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    break
                except (BlockingIOError, PermissionError):  # fcntl(2): EAGAIN or EACCES
                    self.wait()
                except OSError as error:
                    raise self._unreadable(USED_CPU.name, error) from error

    def _open(self, directory: int, name: str, stack: contextlib.ExitStack) -> int | None:
        """Return a descriptor of a file that is safe to read, None if there is none; `stack` closes it."""
        while True:
            try:
                file = open_inside(directory, name, READ_UNFOLLOWED)
                break
            except FileNotFoundError:
                return None
            except BlockingIOError:  # the owner holds a lease on it
                self.wait()
            except OSError as error:
                refusal = _REFUSALS.get(error.errno or 0)
                if refusal is not None:
                    raise UnsafePathError(f"{self.path}/{name}: {refusal}") from error
                raise self._unreadable(name, error) from error
        stack.callback(os.close, file)
        found = os.fstat(file)
        problem = ""
        if not stat.S_ISREG(found.st_mode):
            problem = "not a regular file"
        elif found.st_uid != self.owner_uid:
            problem = f"belongs to uid {found.st_uid}, not to {self.owner_uid}"
        elif found.st_nlink > 1:  # closing used_CPU under a second name would drop its lock
            problem = f"has {found.st_nlink} hard links"
        elif found.st_size > MAX_VALUE_BYTES:
            problem = f"has {found.st_size} bytes, more than {MAX_VALUE_BYTES}"
        if problem:
            raise UnsafePathError(f"{self.path}/{name}: {problem}")
        return file if found.st_nlink else None  # removed since it was opened

    def _read(self, file: int, name: str) -> tuple[bytes, float]:
        try:
            content = os.pread(file, MAX_VALUE_BYTES + 1, 0)
            written_at_secs = os.fstat(file).st_mtime
        except OSError as error:
            raise self._unreadable(name, error) from error
        if len(content) > MAX_VALUE_BYTES:  # it has grown since the check
            raise UnsafePathError(f"{self.path}/{name}: larger than {MAX_VALUE_BYTES} bytes")
        return content, written_at_secs

    def _unreadable(self, name: str, error: OSError) -> UnreadableError:
        return UnreadableError(f"{self.path}/{name}: {error.strerror}")


_REFUSALS = {
    errno.ELOOP: "a symbolic link",
    errno.EXDEV: "on another file system",
    errno.ENXIO: "not a regular file",  # a socket
}


@contextlib.contextmanager
def opened_directory(path: str, owner_uid: int) -> Iterator[int]:
    """Open a job's status directory in a `with` block; checks and exceptions are those of `read_status`.

    Yields the descriptor.
    """
    parent_path, name = os.path.split(path.rstrip("/"))
    try:
        with opened(parent_path or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) as parent:
            directory = open_inside(parent, name, _DIRECTORY)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise UnsafePathError(f"{path}: must be a directory, not a link or file") from error
        if error.errno == errno.EXDEV:
            raise UnsafePathError(f"{path}: is on another file system") from error
        raise UnreadableError(f"{path}: cannot be read: {error.strerror}") from error
    with closing(directory):
        owner = os.fstat(directory).st_uid
        if owner not in (owner_uid, 0, os.geteuid()):
            raise UnsafePathError(f"{path}: belongs to uid {owner}, not to uid {owner_uid}")
        yield directory


def has_entry(path: str, owner_uid: int, name: str) -> bool:
    """Return whether a job's status directory has an entry `name`; False if it is not safe to open."""
    try:
        with opened_directory(path, owner_uid) as directory:
            return _stat(directory, name) is not None
    except (FileNotFoundError, UnsafePathError):
        return False


def is_still(file: int, directory: int, name: str) -> bool:
    """Return whether an open file is still the file called `name` in the directory, and was not replaced."""
    named = _stat(directory, name)
    return named is not None and os.path.samestat(os.fstat(file), named)


def _stat(directory: int, name: str) -> os.stat_result | None:
    """Return an entry's status, None if it does not exist or cannot be opened."""
    try:
        file = open_inside(directory, name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with closing(file):
        return os.fstat(file)


# --- opening without crossing a mount point -----------------------------------------
# A user may be allowed to mount his own FUSE file system on a directory of his. Any access
# to it may block on his program without limit, so it must not be entered.

_SYS_OPENAT2 = 437  # the same on all architectures but alpha
_RESOLVE_NO_XDEV = 0x01  # linux/openat2.h
_RESOLVE_NO_SYMLINKS = 0x04


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def open_inside(directory: int, name: str, flags: int, mode: int = 0) -> int:
    """Open `name`, a single path component, in a directory, with open(2)'s `flags` and `mode`.

    Returns the descriptor. Raises OSError; its errno is EXDEV for a mount point. Mount points are not
    detected if the kernel (before 5.6) or a system call filter lacks openat2(2).
    """
    how = _OpenHow(flags, mode, _RESOLVE_NO_XDEV | _RESOLVE_NO_SYMLINKS)
    descriptor: int = _syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_long(directory),
        ctypes.c_char_p(os.fsencode(name)),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if descriptor >= 0:
        return descriptor
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EPERM):
        return os.open(name, flags, mode, dir_fd=directory)
    raise OSError(code, os.strerror(code), name)
