"""Detect changes to the files in folders: at once with inotify, else by polling."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobfeatures.system.privatefile import opened

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver, ObservedWatch

CHECK_SECS: Final = 5.0  # how often a folder that cannot be watched is looked for
LOOK_SECS: Final = 30.0  # how often those that are watched are, which may be others by now
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
    """Call `notify`, from other threads, after a file with a wanted name is created, changed or removed.

    With `directories`, also after such a directory is created or removed.

    Reading files does not notify. Where inotify does not work, or its limits are exhausted, the folder is
    polled every second. While it cannot be watched at all, because it is missing, `notify` is called every
    CHECK_SECS; the replacement of the folder is detected within LOOK_SECS.
    """
    folder = _Folder(directory, notify, is_wanted, directories)
    # A server that does not answer stops threads that are for its folder alone.
    is_apart = is_remote(file_system_of(directory)) or _shared.has(directory)
    watcher = _Watcher() if is_apart else _shared
    watcher.add(folder)
    try:
        yield
    finally:
        watcher.remove(folder)


@dataclass(eq=False)
class _Folder:
    """A watched path, the identity of the folder there, and its watch."""

    path: str
    notify: Callable[[], None]
    is_wanted: Callable[[str], bool]
    directories: bool
    identity: tuple[int, int] | None = None
    observed: tuple[BaseObserver, ObservedWatch] | None = None

    def is_observed(self) -> bool:
        if self.observed is None or self.identity != identify(self.path):
            return False
        observer, watch = self.observed
        return observer.is_alive() and any(
            each.watch == watch and each.is_alive() for each in observer.emitters
        )

    def unobserve(self) -> None:
        if self.observed is not None:
            observer, watch = self.observed
            self.observed = None
            observer.unschedule(watch)


class _Watcher:
    """Keeps one observer on all its folders, another on those that are polled, and one thread that checks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: list[_Folder] = []
        self._observers: dict[Callable[[], BaseObserver], BaseObserver] = {}
        self._changed: threading.Event | None = (
            None  # its thread's, while there is one: what it waits for may differ
        )

    def has(self, directory: str) -> bool:
        """Return whether this path is watched already: an observer accepts each path only once."""
        path = os.path.realpath(directory)
        return any(os.path.realpath(each.path) == path for each in list(self._folders))

    def add(self, folder: _Folder) -> None:
        """Watch a folder; changes from now on are detected."""
        with self._lock:
            self._observe(folder)
            self._folders.append(folder)
            if self._changed is None:
                self._changed = threading.Event()
                arguments = (self._changed,)
                threading.Thread(target=self._run, args=arguments, name="watch-folders", daemon=True).start()
            self._changed.set()

    def remove(self, folder: _Folder) -> None:
        """Watch a folder no more; threads that hang in a file system are abandoned."""
        if not self._lock.acquire(timeout=JOIN_SECS):
            return
        try:
            self._folders.remove(folder)
            folder.unobserve()
            if not self._folders and self._changed is not None:
                changed, self._changed = self._changed, None
                changed.set()
                while self._observers:
                    _, observer = self._observers.popitem()
                    observer.stop()
                    observer.join(JOIN_SECS)
        finally:
            self._lock.release()

    def _observe(self, folder: _Folder) -> None:
        folder.identity = identify(folder.path)
        if folder.identity is None:
            return
        makers = (make_inotify_observer, make_polling_observer)
        for make in makers[1:] if is_remote(file_system_of(folder.path)) else makers:
            try:
                observer = self._observer_of(make)
                handler = make_handler(folder.notify, folder.is_wanted)
                events = wanted_events(folder.directories)
                watch = observer.schedule(handler, os.path.realpath(folder.path), event_filter=events)
            except (OSError, RuntimeError) as error:  # kernel limits; no thread available
                log.info("cannot watch %s: %s", folder.path, error)
            else:
                folder.observed = observer, watch
                return

    def _observer_of(self, make: Callable[[], BaseObserver]) -> BaseObserver:
        observer = self._observers.get(make)
        if observer is None or not observer.is_alive():
            observer = make()
            observer.start()
            self._observers[make] = observer
        return observer

    def _run(self, changed: threading.Event) -> None:
        while self._changed is changed:
            is_whole = all(each.observed for each in list(self._folders))
            if changed.wait(LOOK_SECS if is_whole else CHECK_SECS):
                changed.clear()
                continue
            with self._lock:
                lost = [each for each in self._folders if not each.is_observed()]
                for each in lost:
                    each.unobserve()
                    self._observe(each)
            for each in lost:
                each.notify()  # changes in between went undetected


_shared = _Watcher()


def make_handler(notify: Callable[[], None], is_wanted: Callable[[str], bool]) -> FileSystemEventHandler:
    """Return a handler that calls `notify` for observed events on wanted names."""
    from watchdog.events import FileSystemEventHandler

    class Handler(FileSystemEventHandler):
        def dispatch(self, event: FileSystemEvent) -> None:
            paths = (event.src_path, event.dest_path)
            if any(is_wanted(os.path.basename(os.fsdecode(path))) for path in paths if path):
                notify()

    return Handler()


def wanted_events(directories: bool) -> list[type[FileSystemEvent]]:
    """Return the events that are observed: without opened and closed_no_write, which our reading causes."""
    from watchdog import events

    wanted: list[type[FileSystemEvent]] = [events.FileClosedEvent, events.FileCreatedEvent]
    wanted += [events.FileDeletedEvent, events.FileModifiedEvent, events.FileMovedEvent]
    if directories:
        wanted += [events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent]
    return wanted


def make_inotify_observer() -> BaseObserver:
    """Return an inotify observer. Raises OSError where the kernel's limits are exhausted."""
    from watchdog.observers import Observer

    return Observer()


def make_polling_observer() -> BaseObserver:
    """Return an observer that polls every second. It follows no links: they may lead anywhere."""
    from watchdog.observers.polling import PollingObserverVFS

    return PollingObserverVFS(stat=os.lstat, listdir=list_directory, polling_interval=POLL_SECS)


def list_directory(directory: str | None) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a directory, and close it."""
    with os.scandir(directory) as entries:
        yield from entries


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
