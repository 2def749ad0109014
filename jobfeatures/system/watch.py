"""Reports changes to the files in folders: at once by inotify, else by polling.

Where inotify works, it is used directly: watchdog's observer by inotify takes a thread for each folder and
two more. Watchdog is only used to poll.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobfeatures.system import inotify
from jobfeatures.system.inotify import Inotify, InotifyEvent
from jobfeatures.system.privatefile import opened

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver, ObservedWatch

CHECK_SECS: Final = 5.0  # how often a folder that cannot be watched is looked for
LOOK_SECS: Final = 60.0  # how often those that are watched are: one above may have been replaced
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
_ENTRIES = inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_CONTENT = inotify.MODIFY | inotify.ATTRIB | inotify.CLOSE_WRITE
_LOST = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.OVERFLOW | inotify.IGNORED
_WATCHED = _ENTRIES | _CONTENT | inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.ONLY_DIRECTORIES
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
    """Call `notify` after a file in a directory is created, changed or removed, during a ``with`` block.

    It is called from other threads, and only for names for which `is_wanted` is true. With `directories`,
    also after a directory in it is created or removed.

    Reading files does not notify. Where inotify does not work, or its limits are exhausted, the folder is
    polled every second. While it cannot be watched at all, because it is missing, `notify` is called every
    CHECK_SECS; the replacement of the folder, or of one above it, is detected within LOOK_SECS.
    """
    folder = _Folder(directory, notify, is_wanted, directories)
    # A server that does not answer stops threads that are for its folder alone.
    watcher = _Watcher() if is_remote(file_system_of(directory)) else _shared
    watcher.add(folder)
    try:
        yield
    finally:
        watcher.remove(folder)


@dataclass(eq=False)
class _Folder:
    """A watched path, the identity of the folder there, and its watch: by inotify, or polled."""

    path: str
    notify: Callable[[], None]
    is_wanted: Callable[[str], bool]
    directories: bool
    identity: tuple[int, int] | None = None
    watch: int | None = None
    polled: ObservedWatch | None = None

    def concerns(self, event: InotifyEvent) -> bool:
        """Return whether to notify of an event. A directory comes and goes, but does not change."""
        if event.mask & _LOST:
            return True
        if not event.mask & inotify.IS_DIRECTORY:
            kinds = _ENTRIES | _CONTENT
        else:
            kinds = _ENTRIES if self.directories else 0
        return bool(event.mask & kinds) and self.is_wanted(event.name)


class _Watcher:
    """Watches all its folders by one inotify instance in one thread, which looks after them too.

    Those that inotify does not reach are polled by an observer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: list[_Folder] = []
        self._inotify: Inotify | None = None  # its thread's, while there is one
        self._poller: BaseObserver | None = None

    def add(self, folder: _Folder) -> None:
        """Watch a folder; changes from now on are detected."""
        with self._lock:
            if self._inotify is None:
                own = Inotify()
                threading.Thread(target=self._run, args=(own,), name="watch-folders", daemon=True).start()
                self._inotify = own
            self._observe(folder, self._inotify)
            self._folders.append(folder)
            self._inotify.wake()

    def remove(self, folder: _Folder) -> None:
        """Watch a folder no more; threads that hang in a file system are abandoned."""
        if not self._lock.acquire(timeout=JOIN_SECS):
            return
        try:
            self._folders.remove(folder)
            self._unobserve(folder)
            if not self._folders and self._inotify is not None:
                ended, self._inotify = self._inotify, None
                ended.wake()
                if self._poller is not None:
                    self._poller.stop()
                    self._poller.join(JOIN_SECS)
                    self._poller = None
        finally:
            self._lock.release()

    def _observe(self, folder: _Folder, own: Inotify) -> None:
        folder.identity = identify(folder.path)
        if folder.identity is None:
            return
        try:
            if not is_remote(file_system_of(folder.path)) and own.open():
                folder.watch = own.add(folder.path, _WATCHED)
                return
        except OSError as error:  # kernel limits
            log.info("cannot watch %s: %s", folder.path, error)
        try:
            if self._poller is None or not self._poller.is_alive():
                self._poller = make_polling_observer()
                self._poller.start()
            handler = make_handler(folder.notify, folder.is_wanted)
            events = wanted_events(folder.directories)
            path = os.path.realpath(folder.path)
            folder.polled = self._poller.schedule(handler, path, event_filter=events)
        except (OSError, RuntimeError) as error:  # no thread available
            log.info("cannot poll %s: %s", folder.path, error)

    def _unobserve(self, folder: _Folder) -> None:
        watch, polled = folder.watch, folder.polled
        folder.watch = folder.polled = None
        if polled is not None and self._poller is not None:
            self._poller.unschedule(polled)
        is_shared = any(each.watch == watch for each in self._folders)
        if watch is not None and self._inotify is not None and not is_shared:
            self._inotify.remove(watch)

    def _is_observed(self, folder: _Folder) -> bool:
        if folder.identity != identify(folder.path):
            return False
        if folder.polled is None or self._poller is None:
            return folder.watch is not None
        emitters = self._poller.emitters
        return self._poller.is_alive() and any(
            each.watch == folder.polled and each.is_alive() for each in emitters
        )

    def _run(self, own: Inotify) -> None:
        checked_secs = time.monotonic()
        with contextlib.closing(own):
            while True:
                is_whole = all(each.watch or each.polled for each in list(self._folders))
                due_secs = checked_secs + (LOOK_SECS if is_whole else CHECK_SECS)
                own.wait(due_secs - time.monotonic())
                with self._lock:
                    if self._inotify is not own:
                        return
                    changed, lost = self._take(list(own.notices()))
                    if time.monotonic() >= due_secs:
                        checked_secs = time.monotonic()
                        lost += [
                            each for each in self._folders if not (each in lost or self._is_observed(each))
                        ]
                    for each in lost:
                        self._unobserve(each)
                        self._observe(each, own)
                for each in {*changed, *lost}:  # what changed unwatched went undetected
                    try:
                        each.notify()
                    except Exception:  # supervised: this thread watches other folders too
                        log.exception("unexpected error in handling a change in %s", each.path)

    def _take(self, events: Collection[InotifyEvent]) -> tuple[list[_Folder], list[_Folder]]:
        """Return the folders to notify of these events, and those that have lost their watch by them."""
        found: dict[bool, list[_Folder]] = {False: [], True: []}
        for each in self._folders:
            own = [event for event in events if event.watch == each.watch or event.mask & inotify.OVERFLOW]
            if any(map(each.concerns, own)):
                found[any(event.mask & _LOST for event in own)].append(each)
        return found[False], found[True]


_shared = _Watcher()


def make_handler(notify: Callable[[], None], is_wanted: Callable[[str], bool]) -> FileSystemEventHandler:
    """Return a handler for watchdog that calls `notify` for events on files with wanted names."""
    from watchdog.events import FileSystemEventHandler

    class Handler(FileSystemEventHandler):
        def dispatch(self, event: FileSystemEvent) -> None:
            paths = (event.src_path, event.dest_path)
            if any(is_wanted(os.path.basename(os.fsdecode(path))) for path in paths if path):
                notify()

    return Handler()


def wanted_events(directories: bool) -> list[type[FileSystemEvent]]:
    """Return the classes of watchdog's events to observe: not events that reading a file causes.

    If `directories`, also events of directories.
    """
    from watchdog import events

    wanted: list[type[FileSystemEvent]] = [events.FileClosedEvent, events.FileCreatedEvent]
    wanted += [events.FileDeletedEvent, events.FileModifiedEvent, events.FileMovedEvent]
    if directories:
        wanted += [events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent]
    return wanted


def make_polling_observer() -> BaseObserver:
    """Return an observer of watchdog that polls every second.

    It follows no links, since these may lead anywhere.
    """
    from watchdog.observers.polling import PollingObserverVFS

    return PollingObserverVFS(stat=os.lstat, listdir=list_directory, polling_interval=POLL_SECS)


def list_directory(directory: str | None) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a directory (None: the current one), which is closed after the last one."""
    with os.scandir(directory) as entries:
        yield from entries


def identify(directory: str) -> tuple[int, int] | None:
    """Return device and inode of the directory that has this name now, None if there is none."""
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_remote(file_system: str | None) -> bool:
    """Return whether files on a file system of this type may change without this kernel's notice.

    That is assumed if the type is unknown (None).
    """
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
    """Return the mount id in /proc/PID/fdinfo/FD (``mnt_id: 22``, proc_pid_fdinfo(5)), "" if absent."""
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
