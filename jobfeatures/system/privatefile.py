"""Reads files that others may have tampered with: never follows links, never blocks on pipes."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator

from jobfeatures.errors import ParseError, UnsafePathError

READ_UNFOLLOWED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_bounded(path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return a file's content, and its status (os.stat_result) from before it was read.

    Raises OSError, with EFBIG if the file is longer than `max_bytes`.
    """
    with opened(path, READ_UNFOLLOWED) as file:
        found = os.fstat(file)
        content = bytearray()
        while chunk := os.read(file, 65536):
            content += chunk
            if len(content) > max_bytes:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return bytes(content), found


def read_owned(
    path: str,
    owners: Collection[int],
    max_bytes: int,
    read: Callable[[str, int], tuple[bytes, os.stat_result]] = read_bounded,
) -> tuple[bytes, int]:
    """Return the content of a regular file, read by `read`, and its owner's uid.

    Raises OSError; with EPERM if the owner is none of `owners`, or if others may write to the file.
    """
    content, found = b"", os.lstat(path)
    if _is_owned(found, owners):
        content, found = read(path, max_bytes)
    if not _is_owned(found, owners):  # of the file that was read: another one may have taken its place
        raise PermissionError(errno.EPERM, "not a regular file of an allowed owner", path)
    return content, found.st_uid


def _is_owned(found: os.stat_result, owners: Collection[int]) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid in owners and not found.st_mode & stat.S_IWOTH


def read_private(path: str, max_bytes: int) -> bytes:
    """Return the content of a file that nobody else can read.

    Raises OSError, ParseError if it is too long, and UnsafePathError unless the file is owned by root or this
    process's user, and nobody else can read it.
    """
    with opened(path, READ_UNFOLLOWED) as file:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
            raise UnsafePathError(f"{path}: must be a regular file of root or of uid {os.geteuid()}")
        if found.st_mode & 0o077:
            raise UnsafePathError(f"{path}: only its owner may have access to it: chmod go=")
        content = os.read(file, max_bytes + 1)
    if len(content) > max_bytes:
        raise ParseError(f"is longer than {max_bytes} bytes", source=path)
    return content


def version_of(found: os.stat_result) -> tuple[int, ...]:
    """Return a tuple that differs once a file's content has changed, or another file has replaced it."""
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def open_at_once(path: str, flags: int) -> int:
    """Open a file without blocking, even if it is a pipe; return its descriptor."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


@contextlib.contextmanager
def opened(name: str, flags: int, folder: int | None = None, mode: int = 0o777) -> Iterator[int]:
    """Open a file in a ``with`` block, with the arguments of `os.open`, and yield its descriptor.

    `folder` is the descriptor of the open folder that a relative `name` starts from (None: the current one).
    """
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    with closing(descriptor):
        yield descriptor


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[None]:
    """Close a descriptor after the `with` block."""
    try:
        yield
    finally:
        os.close(descriptor)
