"""Files that others may have a hand in, or must not: links are not followed, and pipes not waited for."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator

from jobfeatures.errors import ParseError, UnsafePathError

READ_UNFOLLOWED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_bounded(path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return what a file holds, and its status from before. Raises OSError, EFBIG for one that is longer."""
    with opened(path, READ_UNFOLLOWED) as file:
        found = os.fstat(file)
        content = bytearray()
        while chunk := os.read(file, 65536):
            content += chunk
            if len(content) > max_bytes:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return bytes(content), found


def read_owned(path: str, owners: Collection[int], max_bytes: int) -> tuple[bytes, int]:
    """Return what a plain file holds that only its owner, one of these, may write, and who that is.

    Raises OSError, EPERM for any other.
    """
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in owners or found.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "not a plain file of those who may write it", path)
    return read_bounded(path, max_bytes)[0], found.st_uid


def read_private(path: str, max_bytes: int) -> bytes:
    """Return what a file holds.

    Raises OSError, ParseError for one that is too long, and UnsafePathError
    for what is not a file of ours or root's that nobody else can read.
    """
    with opened(path, READ_UNFOLLOWED) as file:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise UnsafePathError(f"{path}: is not a file of root or of this user")
        if found.st_mode & 0o077:
            raise UnsafePathError(f"{path}: others than its owner can read or write it")
        content = os.read(file, max_bytes + 1)
    if len(content) > max_bytes:
        raise ParseError(f"is longer than {max_bytes} bytes", source=path)
    return content


def version_of(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes when the content of a file does, or when another comes into its place."""
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for it: there might be a pipe in its place."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


@contextlib.contextmanager
def opened(name: str, flags: int, folder: int | None = None, mode: int = 0o777) -> Iterator[int]:
    """Open, and close."""
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    with closing(descriptor):
        yield descriptor


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[None]:
    """Close a descriptor at the end."""
    try:
        yield
    finally:
        os.close(descriptor)
