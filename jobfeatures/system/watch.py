"""Detect changes to the files in folders: at once with inotify, else by polling."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from jobfeatures.system import inotify
from jobfeatures.system.inotify import Inotify, InotifyEvent
from jobfeatures.system.privatefile import opened

CHECK_SECS: Final = 5.0
LOOK_SECS: Final = 60.0
POLL_SECS: Final = 1.0
JOIN_SECS: Final = 2.0

# Not opening, reading and closing, which our own reading causes.
_CHANGES: Final = (
    inotify.MODIFY
    | inotify.ATTRIB
    | inotify.CLOSE_WRITE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.CREATE
    | inotify.DELETE
)
_COMINGS_AND_GOINGS: Final = inotify.MOVED_FROM | inotify.MOVED_TO | inotify.CREATE | inotify.DELETE
_ENDS: Final = inotify.DELETE_SELF | inotify.MOVE_SELF
_HAS_ENDED: Final = _ENDS | inotify.UNMOUNT | inotify.IGNORED
_UNWATCHED: Final = -1

# File systems that others change without this kernel's knowledge: inotify(7), "Limitations and
# caveats". Of overlay it is unknown what lies under it.
REMOTE_TYPES: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "ocfs2",
        "orangefs", "overlay", "panfs", "smb3", "smbfs", "virtiofs", "wekafs",
    }
)  # fmt: skip
log = logging.getLogger(__name__)


def is_visible_name(name: str) -> bool:
    """Return whether a file name does not start with a dot."""
    return not name.startswith(".")


@contextlib.contextmanager
def watch_directory(
    directory: str,
    notify: Callable[[], None],
    *,
    is_wanted: Callable[[str], bool] = is_visible_name,
    directories: bool = False,
) -> Iterator[None]:
    """Call `notify`, from another thread, after a file with a wanted name is created, changed or removed.

    With `directories`, also after such a directory is created or removed.

    Reading files does not notify. Where inotify does not work, or its limits are exhausted, the folder is
    polled every second. While it cannot be watched at all, because it is missing, `notify` is called every
    CHECK_SECS. The kernel tells that the folder is renamed or removed, but not that one above it is, or that
    another is mounted over it: that is detected within LOOK_SECS.
    """
    folder = _Folder(directory, notify, is_wanted, directories)
    # A server that does not answer stops a thread that is for its folder alone.
    watcher = _Watcher() if is_remote(file_system_of(directory)) else _shared
    watcher.add(folder)
    try:
        yield
    finally:
        watcher.remove(folder)


@dataclass(eq=False)
class _Folder:
    """A path, which folder has it, and how that is watched: by inotify, or by comparing what is in it."""

    path: str
    notify: Callable[[], None]
    is_wanted: Callable[[str], bool]
    directories: bool
    identity: tuple[int, int] | None = None
    watch: int = _UNWATCHED
    entries: Mapping[str, tuple[int, ...]] | None = field(default=None, repr=False)  # None: missing
    due_secs: float = 0.0  # monotonic: the next look at it

    def concerns(self, event: InotifyEvent) -> bool:
        """Return whether an event in the folder is one of a wanted file or directory."""
        if event.mask & inotify.IS_DIRECTORY and not (self.directories and event.mask & _COMINGS_AND_GOINGS):
            return False
        return self.is_wanted(event.name)

    def list_entries(self) -> Mapping[str, tuple[int, ...]] | None:
        """Return what tells whether each wanted entry has changed; None if the folder cannot be listed.

        Links are not followed: they may lead anywhere.
        """
        found: dict[str, tuple[int, ...]] = {}
        try:
            with os.scandir(self.path) as entries:
                for each in entries:
                    if not self.is_wanted(each.name):
                        continue
                    if each.is_dir(follow_symlinks=False):
                        if self.directories:
                            found[each.name] = (each.inode(),)
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        status = each.stat(follow_symlinks=False)
                        times = status.st_mtime_ns, status.st_ctime_ns
                        found[each.name] = (status.st_ino, status.st_size, *times)
        except OSError:
            return None
        return found


class _Watcher:
    """Watches all its folders in one thread, which there is while it has any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: list[_Folder] = []
        self._inotify: Inotify | None = None

    def add(self, folder: _Folder) -> None:
        """Watch a folder; changes from now on are detected."""
        with self._lock:
            ours = self._inotify or Inotify()
            self._observe(folder, ours)
            if self._inotify is None:
                threading.Thread(target=self._run, args=(ours,), name="watch-folders", daemon=True).start()
                self._inotify = ours
            self._folders.append(folder)
            ours.wake()

    def remove(self, folder: _Folder) -> None:
        """Watch a folder no more; a thread that hangs in a file system is abandoned."""
        if not self._lock.acquire(timeout=JOIN_SECS):
            return
        try:
            self._folders.remove(folder)
            if (ours := self._inotify) is not None:
                self._unobserve(folder, ours)
                if not self._folders:
                    self._inotify = None
                    ours.wake()
        finally:
            self._lock.release()

    def _run(self, ours: Inotify) -> None:
        wait_secs = 0.0
        while True:
            ours.wait(wait_secs)
            with self._lock:
                if self._inotify is not ours:
                    break
                changed = [*self._read_events(ours), *self._look(ours)]
                wait_secs = min(each.due_secs for each in self._folders) - time.monotonic()
            for each in dict.fromkeys(changed):
                try:
                    each.notify()
                except Exception:  # supervised: the other folders are watched on
                    log.exception("a change in %s cannot be told", each.path)
        ours.close()

    def _read_events(self, ours: Inotify) -> Iterator[_Folder]:
        """Yield the folders in which something has changed; those that have ended are due for a look."""
        for event in ours.notices():
            for each in self._folders:
                if event.mask & inotify.OVERFLOW:
                    yield each
                elif each.watch == event.watch:
                    if event.mask & _HAS_ENDED:
                        each.due_secs = 0.0
                        self._unobserve(each, ours)
                    elif each.concerns(event):
                        yield each

    def _look(self, ours: Inotify) -> Iterator[_Folder]:
        """Look at the folders for which it is time; yield those with changes that no event tells."""
        now_secs = time.monotonic()
        for each in self._folders:
            if each.due_secs > now_secs:
                continue
            if each.watch != _UNWATCHED and each.identity == identify(each.path):
                each.due_secs = now_secs + LOOK_SECS
                continue
            if each.entries is not None:  # it is polled
                before, each.entries = each.entries, each.list_entries()
                each.due_secs = now_secs + POLL_SECS
                if each.entries != before:
                    yield each
                continue
            self._unobserve(each, ours)
            self._observe(each, ours)
            yield each

    def _observe(self, folder: _Folder, ours: Inotify) -> None:
        """Have a folder watched if it is there, else polled; say when it is to be looked at next."""
        folder.entries = None
        file_system = file_system_of(folder.path)
        if not is_remote(file_system) and ours.open():
            try:
                # By descriptor: the folder that is watched is the one that is known.
                with opened(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as descriptor:
                    status = os.fstat(descriptor)
                    folder.identity = status.st_dev, status.st_ino
                    folder.watch = ours.add(f"/proc/self/fd/{descriptor}", _CHANGES | _ENDS)
            except OSError as error:
                log.info("cannot watch %s: %s", folder.path, error)
        if folder.watch == _UNWATCHED:
            folder.entries = folder.list_entries()
            secs = CHECK_SECS if folder.entries is None else POLL_SECS
        else:
            secs = LOOK_SECS
        folder.due_secs = time.monotonic() + secs

    def _unobserve(self, folder: _Folder, ours: Inotify) -> None:
        watch, folder.watch = folder.watch, _UNWATCHED
        if watch != _UNWATCHED and all(each.watch != watch for each in self._folders):
            ours.remove(watch)


_shared = _Watcher()


def identify(directory: str) -> tuple[int, int] | None:
    """Return the identity of the directory that now has this name, None if there is none."""
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_remote(file_system: str | None) -> bool:
    """Return whether files on this type of file system may change without this kernel's knowledge."""
    return file_system is None or file_system in REMOTE_TYPES or file_system.startswith("fuse")


def file_system_of(directory: str) -> str | None:
    """Return the type of the file system of a directory, None if it cannot be determined."""
    try:
        with (
            opened(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as folder,
            open(f"/proc/self/fdinfo/{folder}", encoding="ascii", errors="replace") as file,
        ):
            mount = parse_mount_id(file.read())
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            return parse_mount_types(file.read()).get(mount)
    except OSError:
        return None


def parse_mount_id(text: str) -> str:
    """Return ``mnt_id: 22`` of /proc/PID/fdinfo/FD (proc_pid_fdinfo(5)), "" if it is not reported."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "mnt_id":
            return value.strip()
    return ""


def parse_mount_types(text: str) -> dict[str, str]:
    """Return the types of mounted file systems by mount id; malformed lines are left out.

    Source: ``/proc/PID/mountinfo``, proc_pid_mountinfo(5), e.g.
    ``36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw``.
    """
    types: dict[str, str] = {}
    for line in text.splitlines():
        mount, separator, source = line.partition(" - ")
        if separator and mount and source:
            types[mount.split(" ", 1)[0]] = source.split(" ", 1)[0]
    return types
