"""Writes $JOBSTATUS on behalf of its job, from a daemon that may be root.

The protocol is that of `jobfeatures.client.StatusWriter`: lock used_CPU first, with both flock(2) and
fcntl(2), write everything in place, write used_CPU last. The directory belongs to an untrusted user, who may
replace anything in it at any time: see `jobfeatures.status.directory` for what is refused. Only files created
here are given to the user.

The fcntl lock is an open file description lock (F_OFD_SETLK, fcntl(2)): it conflicts with traditional fcntl
locks, and a reader in another thread of this process does not drop it by closing the file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import struct
from collections.abc import Callable, Mapping

from jobfeatures.errors import LockTimeoutError, UnsafePathError
from jobfeatures.status.directory import MAX_VALUE_BYTES, is_still, open_inside, opened_directory
from jobfeatures.status.jobstatus import STATUS_KEYS, USED_CPU, parse_job_status

_OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)  # struct flock on 64-bit Linux
_UNFINISHED = b"\n"  # no reader takes this for a number

Values = dict[str, bytes]
Change = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]


def status_etag(values: Mapping[str, bytes]) -> str:
    """Return a strong HTTP entity tag for the values of a status: equal values have equal tags."""
    digest = hashlib.blake2b(digest_size=12)
    for key in STATUS_KEYS:
        if key.name in values:
            digest.update(f"{key.name}={len(values[key.name])}:".encode() + values[key.name])
    return f'"{digest.hexdigest()}"'


def write_status(path: str, change: Change, *, owner_uid: int, allocated_cpus: int | None) -> Values:
    """Replace the values of a job's status by the result of `change`, under the locks; return the new values.

    `change` is called with the present contents by name, and returns the new ones; its exceptions are passed
    on. Locks are not waited for: LockTimeoutError means that another process holds one (the caller may
    retry). Raises StatusViolation, before anything is written, for values that are malformed or contradict
    each other; FileNotFoundError if there is no directory; UnsafePathError if a path is refused; OSError if
    writing fails: the old values are then restored, or, if that fails too, readers refuse the files.
    """
    with opened_directory(path, owner_uid) as directory, contextlib.ExitStack() as stack:
        folder = _Folder(path, directory, owner_uid, stack)
        used_cpu = folder.open_old(USED_CPU.name)
        if used_cpu is None:
            _checked(change({}), allocated_cpus)
            used_cpu = folder.make(USED_CPU.name)
        folder.lock(used_cpu)
        files = {USED_CPU.name: used_cpu}
        for key in STATUS_KEYS[1:]:
            file = folder.open_old(key.name)
            if file is not None:
                files[key.name] = file
        old = {name: folder.read(file, name) for name, file in files.items()}
        if old == {USED_CPU.name: b""}:  # created, by us or somebody else, only to be locked
            old = {}
        new = _checked(change(old), allocated_cpus)
        if new == old:
            return new
        try:
            folder.write(files, new)
        except OSError:
            with contextlib.suppress(OSError):
                folder.write(files, old)
            raise
        return new


def _checked(values: Mapping[str, bytes], allocated_cpus: int | None) -> Values:
    """Return the validated set as it is written: plain numbers and words, each with a newline."""
    status = parse_job_status(values, allocated_cpus=allocated_cpus)
    fields = ((key.name, getattr(status, key.field)) for key in STATUS_KEYS)
    return {name: f"{value}\n".encode("ascii") for name, value in fields if value is not None}


class _Folder:
    """A job's status directory; what is opened in it is closed with `stack`."""

    def __init__(self, path: str, directory: int, owner_uid: int, stack: contextlib.ExitStack) -> None:
        self._path = path
        self._directory = directory
        self._owner_uid = owner_uid
        self._stack = stack

    def open_old(self, name: str) -> int | None:
        """Return a descriptor of a file that the job's user owns, None if there is none."""
        try:
            file = open_inside(self._directory, name, _OLD)
        except FileNotFoundError:
            return None
        except BlockingIOError:  # the owner holds a lease on it
            raise LockTimeoutError(f"{self._path}/{name}: another process holds a lease on it") from None
        except OSError as error:
            raise UnsafePathError(f"{self._path}/{name}: cannot be opened: {error.strerror}") from error
        self._stack.callback(os.close, file)
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and found.st_uid == self._owner_uid and found.st_nlink == 1:
            return file
        raise UnsafePathError(
            f"{self._path}/{name}: must be a regular file of uid {self._owner_uid} with one link"
        )

    def make(self, name: str) -> int:
        """Create an empty file and give it to the job's user."""
        try:
            file = open_inside(self._directory, name, _NEW, 0o600)
        except FileExistsError:  # the job was faster, or malicious
            raise LockTimeoutError(f"{self._path}/{name}: another process creates it: try again") from None
        self._stack.callback(os.close, file)
        if self._owner_uid != os.geteuid() and os.geteuid() == 0:
            os.fchown(file, self._owner_uid, os.fstat(self._directory).st_gid)
        os.fchmod(file, 0o644)
        return file

    def lock(self, file: int) -> None:
        """Take both locks on used_CPU. Raises LockTimeoutError if either is not available at once."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _WHOLE_FILE)
            locked = is_still(file, self._directory, USED_CPU.name)
        except (BlockingIOError, PermissionError):  # fcntl(2): EAGAIN or EACCES
            locked = False
        if not locked:
            raise LockTimeoutError(f"{self._path}/{USED_CPU.name}: locked by another process")

    def read(self, file: int, name: str) -> bytes:
        """Return a file's content. Raises UnsafePathError if it is too long."""
        content = os.pread(file, MAX_VALUE_BYTES + 1, 0)
        if len(content) > MAX_VALUE_BYTES:
            raise UnsafePathError(f"{self._path}/{name}: larger than {MAX_VALUE_BYTES} bytes")
        return content

    def write(self, files: dict[str, int], values: Mapping[str, bytes]) -> None:
        """Write all values in place, used_CPU last: readers refuse the files of a writer that died midway."""
        _overwrite(files[USED_CPU.name], _UNFINISHED if values else b"")
        for key in STATUS_KEYS[1:]:
            if key.name in values:
                if key.name not in files:
                    files[key.name] = self.make(key.name)
                elif self.read(files[key.name], key.name) == values[key.name]:
                    continue  # a file's time is that of its last change: see `jobfeatures report`
                _overwrite(files[key.name], values[key.name])
            elif files.pop(key.name, None) is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(key.name, dir_fd=self._directory)
        if values:
            _overwrite(files[USED_CPU.name], values[USED_CPU.name])


def _overwrite(file: int, content: bytes) -> None:
    # Not truncated first: on a full disk, freed space might not be available again.
    if content and os.pwrite(file, content, 0) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(file, len(content))
