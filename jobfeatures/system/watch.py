"""Detect changes to the files in a folder: at once with inotify, else by polling."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Final

from jobfeatures.system import inotify
from jobfeatures.system.inotify import Inotify, Notice
from jobfeatures.system.privatefile import opened, version_of

CHECK_SECS: Final = 5.0
POLL_SECS: Final = 1.0
JOIN_SECS: Final = 2.0

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
    CHECK_SECS; the replacement of the folder is detected within that time.
    """
    watcher = _Watcher(directory, notify, is_wanted, directories)
    watcher.start()
    try:
        yield
    finally:
        watcher.stop()


class _Watcher:
    """Watches whichever folder currently has the name."""

    def __init__(
        self,
        directory: str,
        notify: Callable[[], None],
        is_wanted: Callable[[str], bool],
        directories: bool,
    ) -> None:
        self._directory = directory
        self._notify = notify
        self._is_wanted = is_wanted
        self._directories = directories
        self._inotify = Inotify()
        self._watch = -1
        self._observed: tuple[int, int] | None = None
        self._listed: dict[str, tuple[int, ...]] | None = None  # what was there, if the folder is polled
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch-directory", daemon=True)

    def start(self) -> None:
        """Start watching; changes from now on are detected."""
        self._observe()
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; a thread that hangs in a file system is abandoned."""
        self._stopping.set()
        self._inotify.wake()
        self._thread.join(JOIN_SECS)

    def _run(self) -> None:
        with contextlib.closing(self._inotify):
            while True:
                self._inotify.wait(CHECK_SECS if self._listed is None else POLL_SECS)
                if self._stopping.is_set():
                    return
                if self._has_changed():
                    self._notify()
                if self._observed is None or self._observed != identify(self._directory):
                    self._observe()
                    self._notify()  # changes in between went undetected

    def _has_changed(self) -> bool:
        """Return whether a change of a wanted entry has been noticed since the last call."""
        notices = list(self._inotify.notices())
        if any(each.mask & inotify.IGNORED and each.watch == self._watch for each in notices):
            self._observed = None  # the folder is gone, even if a new one should have its number
        before = self._listed
        if before is not None:
            self._listed = self._list()
        return self._listed != before or any(map(self._is_change, notices))

    def _is_change(self, notice: Notice) -> bool:
        if notice.mask & inotify.OVERFLOW:
            return True
        if not notice.mask & inotify.IS_DIRECTORY:
            return bool(notice.mask & inotify.CHANGES) and self._is_wanted(notice.name)
        return self._directories and bool(notice.mask & inotify.NAMES) and self._is_wanted(notice.name)

    def _observe(self) -> None:
        self._inotify.remove(self._watch)
        self._watch, self._listed = -1, None
        self._observed = identify(self._directory)
        if self._observed is None:
            return
        if not is_remote(file_system_of(self._directory)):
            self._inotify.open()  # without an instance nothing can be added
            try:
                self._watch = self._inotify.add(self._directory, inotify.CHANGES | inotify.ONLY_DIRECTORIES)
            except OSError as error:  # the kernel's limits
                log.info("cannot watch %s: %s", self._directory, self._inotify.problem or error)
            else:
                return
        self._listed = self._list()

    def _list(self) -> dict[str, tuple[int, ...]]:
        """Return the wanted entries of the folder, each with a version. Links are not followed."""
        found: dict[str, tuple[int, ...]] = {}
        with contextlib.suppress(OSError), os.scandir(self._directory) as entries:
            for entry in filter(lambda entry: self._is_wanted(entry.name), entries):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode):
                        found[entry.name] = version_of(status)
                    elif self._directories:
                        found[entry.name] = (status.st_ino,)
        return found


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
