"""Writes files atomically, relative to a directory's descriptor; symbolic links are never followed.

Everything here must cope with a directory that its user changes between any two calls. Where a function takes
`staging`, this is the descriptor of a folder on the same file system, in which new files are made first.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
import time
from collections.abc import Mapping
from typing import NamedTuple

from jobfeatures.errors import UnsafePathError
from jobfeatures.system.privatefile import READ_UNFOLLOWED, closing, opened

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOCK_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_VALUE_BYTES = 2**14
MAX_FOREIGN = 1000  # foreign entries that one update removes from a job's directory; its user may create more
_ATTEMPTS = 5  # against a user who puts directories in the way of a key


class Owner(NamedTuple):
    """The owner that a job's directory is given; group -1 leaves the group unchanged."""

    uid: int
    gid: int = -1


def update_directory(
    directory: int, staging: int, values: Mapping[str, str], owner: Owner | None = None
) -> None:
    """Make an open directory hold exactly these keys with these values, one file each.

    Only files that differ are written. Other files are removed; other directories are moved to the folder
    `staging`.
    """
    with os.scandir(directory) as entries:
        foreign = [each.name for each in itertools.islice(entries, MAX_FOREIGN) if each.name not in values]
    for name in foreign:
        _evict(directory, staging, name)
    for key, value in values.items():
        write_if_changed(directory, staging, key, f"{value}\n".encode(), owner=owner)


def _evict(directory: int, staging: int, name: str) -> None:
    """Remove whatever has this name; a directory is moved to `staging` for a later sweep."""
    with contextlib.suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=directory)
        except (IsADirectoryError, PermissionError):
            os.rename(name, unique_name(name), src_dir_fd=directory, dst_dir_fd=staging)


def _content(
    directory: int, name: str, uids: set[int], mode: int, max_bytes: int, max_names: int = 1
) -> bytes | None:
    """Return a file's content, None if it is absent or its type, owner or mode is not what we create."""
    try:
        with opened(name, READ_UNFOLLOWED, directory) as file:
            found = os.fstat(file)
            # With hard links, somebody else's file could pass for ours.
            is_ours = stat.S_ISREG(found.st_mode) and found.st_uid in uids and found.st_nlink <= max_names
            if not is_ours or stat.S_IMODE(found.st_mode) != mode:
                return None
            return os.read(file, max_bytes)
    except OSError:
        return None  # absent or unreadable: it is replaced


def write_if_changed(
    folder: int, staging: int, name: str, content: bytes, mode: int = 0o644, owner: Owner | None = None
) -> None:
    """Write a file in the open `folder`, unless it is there with this content, mode and owner.

    The new file is made in the open folder `staging`. `owner` None: this process's user.
    """
    uids = {owner.uid} if owner else {os.geteuid(), 0}
    if _content(folder, name, uids, mode, len(content) + 1) != content:
        replace_file(folder, staging, name, content, mode, owner)


def read_private(folder: int, name: str, max_bytes: int = MAX_VALUE_BYTES) -> bytes | None:
    """Return the content of a private file in the open `folder`; None if there is none.

    It counts only if it is owned by this user or root, and nobody else may read it. It may have a second hard
    link: `make_token` in another process makes one temporarily.
    """
    return _content(folder, name, {os.geteuid(), 0}, 0o600, max_bytes, max_names=2)


def replace_file(
    directory: int, staging: int, name: str, content: bytes, mode: int, owner: Owner | None = None
) -> None:
    """Put a new file at a name in an open directory, in place of whatever is there.

    It is made in the open folder `staging`, with this mode and owner (None: this process's user). On OSError
    the old one stays.
    """
    temporary = unique_name(name)
    create_file(staging, temporary, content, mode, owner)
    try:
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(IsADirectoryError):
                os.rename(temporary, name, src_dir_fd=staging, dst_dir_fd=directory)
                return
            _evict(directory, staging, name)
        os.rename(temporary, name, src_dir_fd=staging, dst_dir_fd=directory)
    except OSError:
        os.unlink(temporary, dir_fd=staging)
        raise


def create_file(directory: int, name: str, content: bytes, mode: int, owner: Owner | None = None) -> None:
    """Create a file in an open directory, in which nothing may have its name. Raises OSError.

    If that fails, nothing is left of it. `owner` None: this process's user.
    """
    with opened(name, _NEW_FILE, directory, 0o600) as file:
        try:
            os.fchmod(file, mode)
            written = 0
            while written < len(content):
                written += os.write(file, content[written:])
            if owner:
                os.fchown(file, owner.uid, owner.gid)
        except OSError:
            os.unlink(name, dir_fd=directory)  # a full disk must not leave an empty file
            raise


def empty_directory(staging: int, name: str, budget: int) -> tuple[int, list[str]]:
    """Empty the directory `name` in the open folder `staging`, by at most `budget` entries.

    Returns the rest of `budget`, and the new names of inner directories, which are moved to `staging`.
    """
    moved: list[str] = []
    with opened(name, DIRECTORY, staging) as directory:
        while budget > 0:
            with os.scandir(directory) as entries:
                batch = [
                    (each.name, each.is_dir(follow_symlinks=False)) for each in itertools.islice(entries, 256)
                ]
            if not batch:
                break
            for entry, is_directory in batch:
                budget -= 1
                if is_directory:
                    moved.append(unique_name("nested"))
                    os.rename(entry, moved[-1], src_dir_fd=directory, dst_dir_fd=staging)
                else:
                    os.unlink(entry, dir_fd=directory)
    return budget, moved


def unique_name(name: str) -> str:
    """Return a name that begins with `name` and ends with random letters, so that no file has it."""
    return f"{name[:160]}.{os.urandom(8).hex()}"


def exists(folder: int, name: str) -> bool:
    """Return whether anything in the open `folder` has this name."""
    return owner_of(folder, name) is not None


def owner_of(folder: int, name: str) -> int | None:
    """Return the uid of the owner of an entry of the open `folder`, None if it does not exist."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    except FileNotFoundError:
        return None


def link_target(folder: int, name: str) -> str | None:
    """Return the target of a symbolic link in the open `folder`, None if there is no such link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def is_directory(folder: int, name: str) -> bool:
    """Return whether an entry of the open `folder` is a directory, and not a link to one."""
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def is_untouched(folder: int, name: str, before_secs: float | None) -> bool:
    """Return whether an entry of the open `folder` has last changed before `before_secs` (epoch).

    None instead of a time: always true. False if there is no such entry.
    """
    if before_secs is None:
        return True
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime < before_secs
    except OSError:
        return False


def has_locked(descriptor: int, timeout_secs: float) -> bool:
    """Lock a file until its descriptor is closed; return whether that was possible within the timeout."""
    deadline = time.monotonic() + timeout_secs
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        else:
            return True


class HeldFolder:
    """Tells whether a folder was replaced. It stays open, so that no other one gets its inode number."""

    def __init__(self) -> None:
        self._held: int | None = None

    def is_another(self, descriptor: int) -> bool:
        """Return whether the open folder `descriptor` is another one than at the last call."""
        before, self._held = self._held, os.dup(descriptor)
        if before is None:
            return False
        with closing(before):
            return not os.path.sameopenfile(before, descriptor)

    def __del__(self) -> None:
        if self._held is not None:
            os.close(self._held)


def must_be_ours(descriptor: int, path: str) -> None:
    """Raise UnsafePathError if an open file is another user's, or others may write to it."""
    found = os.fstat(descriptor)
    if found.st_uid not in (0, os.geteuid()):
        raise UnsafePathError(f"{path}: belongs to uid {found.st_uid}, not to root or uid {os.geteuid()}")
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise UnsafePathError(
            f"{path}: writable by others (mode {stat.S_IMODE(found.st_mode):o}); chmod go-w"
        )
