"""Tell when files of a folder change: at once where the kernel can, by looking again where it cannot."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from jobfeatures import inotify
from jobfeatures.clock import SystemClock
from jobfeatures.privatefile import opened

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
    check_secs: float = CHECK_SECS,
    directories: bool = False,
) -> Iterator[None]:
    """Call `notify`, from other threads, after a file with a wanted name came, changed or went.

    With `directories` also after such a directory came or went.

    Reading files does not notify. Where inotify does not reach, or its limits
    are exhausted, the folder is looked at every second. While it cannot be
    watched at all, because it is missing, `notify` is called every
    `check_secs`; a folder that was replaced is found within that time.
    """
    watcher = _Watcher(directory, notify, is_wanted, check_secs, directories)
    watcher.start()
    try:
        yield
    finally:
        watcher.stop()


@dataclass(eq=False)
class _Watcher:
    """Watches whatever folder has the name, from a thread of its own."""

    directory: str
    notify: Callable[[], None]
    is_wanted: Callable[[str], bool]
    check_secs: float
    directories: bool

    def __post_init__(self) -> None:
        self._clock = SystemClock()
        self._inotify = inotify.Inotify()
        self._watch = -1  # less than 0 where there is none: then the folder is looked at
        self._observed: tuple[int, int] | None = None
        self._seen: dict[str, tuple[int, ...]] = {}  # at the last look
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch-directory", daemon=True)

    def start(self) -> None:
        """Begin; changes from here on are seen."""
        self._observe()
        self._thread.start()

    def stop(self) -> None:
        """End; a thread that hangs in a file system is left behind."""
        self._stopping.set()
        self._inotify.wake()
        self._thread.join(JOIN_SECS)

    def _run(self) -> None:
        checked_at = self._clock.monotonic_secs()
        while not self._stopping.is_set():
            left_secs = checked_at + self.check_secs - self._clock.monotonic_secs()
            is_polled = self._watch < 0 and self._observed is not None
            self._inotify.wait(min(left_secs, POLL_SECS) if is_polled else left_secs)
            if self._has_changed():
                self.notify()
            if self._clock.monotonic_secs() - checked_at >= self.check_secs:
                checked_at = self._clock.monotonic_secs()
                if self._observed is None or self._observed != identify(self.directory):
                    self._observe()
                    self.notify()  # what happened in between was seen by nobody
        self._inotify.close()

    def _observe(self) -> None:
        if self._watch >= 0:
            self._inotify.remove(self._watch)
            self._watch = -1
        self._observed = identify(self.directory)
        if self._observed is None:
            return
        if not is_remote(file_system_of(self.directory)):
            self._inotify.open()
            try:
                self._watch = self._inotify.add(self.directory, inotify.CHANGES | inotify.ONLY_DIRECTORIES)
            except OSError as error:  # limits of the kernel
                log.info("cannot watch %s: %s", self.directory, self._inotify.problem or error)
        self._seen = self._look() if self._watch < 0 else {}

    def _has_changed(self) -> bool:
        has_changed = False
        for notice in self._inotify.notices():
            if notice.watch == self._watch and notice.mask & inotify.IGNORED:
                self._observed = None  # it was removed; another may have its number
            has_changed = has_changed or self._is_change(notice)
        if self._watch < 0 and self._observed is not None:
            before, self._seen = self._seen, self._look()
            has_changed = has_changed or self._seen != before
        return has_changed

    def _is_change(self, notice: inotify.Notice) -> bool:
        if notice.mask & inotify.OVERFLOW:
            return True
        of_directories = inotify.COMINGS_AND_GOINGS if self.directories else 0
        if notice.mask & inotify.IS_DIRECTORY and not notice.mask & of_directories:
            return False
        return bool(notice.name) and self.is_wanted(notice.name)

    def _look(self) -> dict[str, tuple[int, ...]]:
        """Return what tells each file from the one before; links are not followed: they may lead anywhere."""
        seen: dict[str, tuple[int, ...]] = {}
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in filter(lambda each: self.is_wanted(each.name), entries):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(found.st_mode):
                        seen[entry.name] = found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
                    elif self.directories:
                        seen[entry.name] = (found.st_ino,)
        return seen


def identify(directory: str) -> tuple[int, int] | None:
    """Return what tells a directory from another one of the same name, None if there is none."""
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_remote(file_system: str | None) -> bool:
    """Return whether others may change a file system of this type without this kernel's knowledge."""
    return file_system is None or file_system in REMOTE_TYPES or file_system.startswith("fuse")


def file_system_of(directory: str) -> str | None:
    """Return the type of the file system of a directory, None if it cannot be found out."""
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
    """Return the types of mounted file systems by mount id; lines of another form are left out.

    Source: ``/proc/PID/mountinfo``, proc_pid_mountinfo(5), e.g.
    ``36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw``.
    """
    types: dict[str, str] = {}
    for line in text.splitlines():
        mount, separator, source = line.partition(" - ")
        if separator and mount and source:
            types[mount.split(" ", 1)[0]] = source.split(" ", 1)[0]
    return types
