"""Detect changes to the files in a folder: at once with inotify, else by polling."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from jobfeatures.system.privatefile import opened

if TYPE_CHECKING:
    from watchdog.events import FileSystemEventHandler
    from watchdog.observers.api import BaseObserver

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
    """Call `notify`, from other threads, after a file with a wanted name is created, changed or removed.

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
    """Keeps an observer on whichever folder currently has the name."""

    def __init__(
        self, directory: str, notify: Callable[[], None], is_wanted: Callable[[str], bool], directories: bool
    ) -> None:
        self._directory = directory
        self._notify = notify
        self._is_wanted = is_wanted
        self._directories = directories
        self._observer: BaseObserver | None = None
        self._observed: tuple[int, int] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch-directory", daemon=True)

    def start(self) -> None:
        """Start watching; changes from now on are detected."""
        self._observe()
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; a thread that hangs in a file system is abandoned."""
        self._stopping.set()
        self._thread.join(JOIN_SECS)
        self._unobserve()

    def _run(self) -> None:
        while not self._stopping.wait(CHECK_SECS):
            if not self._is_observing():
                self._unobserve()
                self._observe()
                self._notify()  # changes in between went undetected

    def _is_observing(self) -> bool:
        observer = self._observer
        return (
            observer is not None
            and self._observed == identify(self._directory)
            and observer.is_alive()
            and all(emitter.is_alive() for emitter in observer.emitters)
        )

    def _observe(self) -> None:
        self._observed = identify(self._directory)
        if self._observed is None:
            return
        handler = make_handler(self._notify, self._is_wanted)
        makers = [make_polling_observer]
        if not is_remote(file_system_of(self._directory)):
            makers.insert(0, make_inotify_observer)
        for make in makers:
            try:
                self._observer = start_observer(make, handler, self._directory, directories=self._directories)
            except (OSError, RuntimeError) as error:  # kernel limits; no thread available
                log.info("cannot watch %s: %s", self._directory, error)
            else:
                return

    def _unobserve(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(JOIN_SECS)


def make_handler(notify: Callable[[], None], is_wanted: Callable[[str], bool]) -> FileSystemEventHandler:
    """Return a handler that notifies of events on wanted names, of those `start_observer` requests."""
    from watchdog.events import FileSystemEvent, FileSystemEventHandler

    class Handler(FileSystemEventHandler):
        def dispatch(self, event: FileSystemEvent) -> None:
            paths = (event.src_path, event.dest_path)
            if any(is_wanted(os.path.basename(os.fsdecode(path))) for path in paths if path):
                notify()

    return Handler()


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


def start_observer(
    make: Callable[[], BaseObserver],
    handler: FileSystemEventHandler,
    directory: str,
    *,
    directories: bool = False,
) -> BaseObserver:
    """Return a running observer of a directory or link. Cleans up on failure: OSError or RuntimeError."""
    from watchdog.events import (
        DirCreatedEvent,
        DirDeletedEvent,
        DirMovedEvent,
        FileClosedEvent,
        FileCreatedEvent,
        FileDeletedEvent,
        FileModifiedEvent,
        FileMovedEvent,
        FileSystemEvent,
    )

    # Without opened and closed_no_write, which our own reading causes.
    wanted: list[type[FileSystemEvent]] = [FileClosedEvent, FileCreatedEvent, FileDeletedEvent]
    wanted += [FileModifiedEvent, FileMovedEvent]
    if directories:
        wanted += [DirCreatedEvent, DirDeletedEvent, DirMovedEvent]
    observer = make()
    try:
        observer.schedule(handler, os.path.realpath(directory), event_filter=wanted)
        observer.start()
    except BaseException:
        observer.stop()
        raise
    return observer


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
