"""Tell which of many directories have changed, with one descriptor for all of them.

Watching a folder with a library's observer costs two threads and one of the
128 inotify instances that the kernel allows a user by default; a node may have
hundreds of jobs. Watching their common parent recursively would follow a user
into as many directories as he makes. So the jobs' own directories, and nothing
below them, are added to one instance here, for one event each: who writes in a
loop is heard once and costs nothing until he is looked at and watched again.

Source: inotify(7), inotify_add_watch(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import struct
import threading
from collections.abc import Collection, Iterator

from jobfeatures.errors import UnsafePathError
from jobfeatures.status.directory import opened_directory

log = logging.getLogger(__name__)

MAX_WATCHES = 4096
_READ_BYTES = 65536

# Changes of a file or of its attributes; not our own opening, reading and closing.
_CHANGES = 0x002 | 0x004 | 0x008 | 0x040 | 0x080 | 0x100 | 0x200
# IN_MODIFY  IN_ATTRIB  IN_CLOSE_WRITE  IN_MOVED_FROM  IN_MOVED_TO  IN_CREATE  IN_DELETE
_ONLY_DIRECTORIES = 0x01000000  # IN_ONLYDIR
_ONCE = 0x80000000  # IN_ONESHOT
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows

_libc = ctypes.CDLL(None, use_errno=True)


class DirectoryWatch:
    """Which of some directories have changed. `wake` may be called by any thread, the rest by one.

    Without inotify, or past its limits, a directory is simply not among the
    `watched`, and the caller has to look by itself.
    """

    def __init__(self, *, max_watches: int = MAX_WATCHES) -> None:
        """Open the instance; no error is raised where there is none to be had."""
        self._max_watches = max_watches
        self._paths: dict[int, str] = {}  # by watch
        self._watched: frozenset[str] = frozenset()
        self._problem = ""
        self._closing = threading.Lock()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._inotify: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wake_reader, select.POLLIN)
        if self._inotify < 0:
            self._tell(os.strerror(ctypes.get_errno()))
        else:
            self._poll.register(self._inotify, select.POLLIN)

    def close(self) -> None:
        """Stop watching for good; `wake` does nothing from here on."""
        with self._closing:
            for descriptor in (self._inotify, self._wake_reader, self._wake_writer):
                if descriptor >= 0:
                    os.close(descriptor)
            self._inotify = self._wake_reader = self._wake_writer = -1

    @property
    def watched(self) -> frozenset[str]:
        """Return the directories that are watched."""
        return self._watched

    def watch(self, directories: Collection[tuple[str, int]], *, anew: bool = False) -> None:
        """Watch these directories, given with their owners' uids, and no others.

        With `anew`, one that was replaced under the same name is found. One that is
        absent or not what it should be is passed over.
        """
        if self._inotify < 0:
            return
        known = {} if anew else {path: watch for watch, path in self._paths.items()}
        paths: dict[int, str] = {}
        problem = ""
        for path, owner_uid in directories:
            if len(paths) >= self._max_watches:
                problem = f"more than {self._max_watches} directories"
                break
            try:
                paths[known[path] if path in known else self._add(path, owner_uid)] = path
            except UnsafePathError:
                continue  # whoever reads it says so
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = error.strerror or "no reason given"
        for watch in self._paths.keys() - paths.keys():
            _libc.inotify_rm_watch(self._inotify, watch)  # fails where the watch has ended by itself
        self._paths = paths
        self._watched = frozenset(paths.values())
        self._tell(problem)

    def wait(self, timeout_secs: float) -> frozenset[str]:
        """Wait for a change, a `wake`, or `timeout_secs`; return the changed directories."""
        self._poll.poll(max(0.0, timeout_secs) * 1000)
        return self.changed()

    def changed(self) -> frozenset[str]:
        """Return what has changed since it was watched, without waiting; it is not watched any more then."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, _READ_BYTES)
        paths: set[str] = set()
        while self._inotify >= 0:
            try:
                data = os.read(self._inotify, _READ_BYTES)
            except BlockingIOError:
                break
            for watch in _watches(data):
                path = self._paths.pop(watch, None)
                if path is not None:
                    paths.add(path)
        self._watched -= paths
        return frozenset(paths)

    def wake(self) -> None:
        """Make `wait` return."""
        with self._closing, contextlib.suppress(BlockingIOError):  # full: it will wake all the same
            if self._wake_writer >= 0:
                os.write(self._wake_writer, b"x")

    def _add(self, path: str, owner_uid: int) -> int:
        # By descriptor: what was checked is what is watched.
        with opened_directory(path, owner_uid) as directory:
            name = f"/proc/self/fd/{directory}".encode()
            watch: int = _libc.inotify_add_watch(
                self._inotify, ctypes.c_char_p(name), ctypes.c_uint32(_CHANGES | _ONLY_DIRECTORIES | _ONCE)
            )
        if watch < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
        return watch

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:  # once per kind of problem
            log.warning("cannot watch every job status, some are only read now and then: %s", problem)
        self._problem = problem


def _watches(data: bytes) -> Iterator[int]:
    """Yield the watch of each event in what the kernel gave."""
    offset = 0
    while offset < len(data):
        watch, _mask, _cookie, length = _HEADER.unpack_from(data, offset)
        yield watch
        offset += _HEADER.size + length
