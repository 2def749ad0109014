"""Receives the kernel's notifications of changes in directories, by one inotify instance for many of them.

watchdog's observer needs a thread for each directory and two more, and lets the caller choose no events.
Source: inotify(7), inotify_add_watch(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

MODIFY, ATTRIB, CLOSE_WRITE = 0x002, 0x004, 0x008
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x040, 0x080, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
IS_DIRECTORY = 0x40000000  # unasked: the entry is one
OVERFLOW, IGNORED = 0x4000, 0x8000  # unasked: events were lost; a watch has ended
ONLY_DIRECTORIES = 0x01000000
DO_NOT_FOLLOW = 0x02000000
ONCE = 0x80000000

_READ_BYTES = 65536
_HEADER = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows

_libc = ctypes.CDLL(None, use_errno=True)


class InotifyEvent(NamedTuple):
    """One event: its watch's number, the mask of what happened, and the entry's name in the directory."""

    watch: int
    mask: int
    name: str


class Inotify:
    """One inotify instance. Any thread may call `wake`; all other methods are for one thread."""

    def __init__(self) -> None:
        """Open the instance; if none is available, set `problem` and do not raise."""
        self._closing = threading.Lock()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wake_reader, select.POLLIN)
        self._inotify = -1
        self.problem = ""
        self.open()

    def open(self) -> bool:
        """Open the inotify instance, if it is not open; return whether it is now."""
        if self._inotify < 0:
            self._inotify = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self.problem = os.strerror(ctypes.get_errno()) if self._inotify < 0 else ""
            if self._inotify >= 0:
                self._poll.register(self._inotify, select.POLLIN)
        return self._inotify >= 0

    def close(self) -> None:
        """Stop watching; `wake` has no effect afterwards."""
        with self._closing:
            for descriptor in (self._inotify, self._wake_reader, self._wake_writer):
                if descriptor >= 0:
                    os.close(descriptor)
            self._inotify = self._wake_reader = self._wake_writer = -1

    def __del__(self) -> None:
        """Close the instance if nobody did: the kernel allows each user only few."""
        self.close()

    def add(self, path: str, mask: int) -> int:
        """Watch a file or directory for the events in `mask`; return the watch's number. Raises OSError."""
        name = ctypes.c_char_p(os.fsencode(path))
        watch: int = _libc.inotify_add_watch(self._inotify, name, ctypes.c_uint32(mask))
        if watch < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
        return watch

    def remove(self, watch: int) -> None:
        """Remove a watch; one that has ended by itself is no error."""
        _libc.inotify_rm_watch(self._inotify, watch)

    def wait(self, timeout_secs: float, other: Inotify | None = None) -> bool:
        """Wait for an event of this instance or of `other`, for `wake`, or for the timeout.

        Return whether `other` has an event.
        """
        theirs = -1 if other is None else other._inotify  # noqa: SLF001
        if theirs >= 0:
            self._poll.register(theirs, select.POLLIN)
        ready = self._poll.poll(max(0.0, timeout_secs) * 1000)
        if theirs >= 0:
            self._poll.unregister(theirs)
        return any(descriptor == theirs for descriptor, _ in ready)

    def notices(self) -> Iterator[InotifyEvent]:
        """Yield the pending events of all watches, without waiting."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, _READ_BYTES)
        while self._inotify >= 0:
            try:
                data = os.read(self._inotify, _READ_BYTES)
            except BlockingIOError:
                break
            yield from parse_notices(data)

    def wake(self) -> None:
        """Make `wait` return in the thread that waits."""
        with self._closing, contextlib.suppress(BlockingIOError):  # the pipe is full: `wait` returns anyway
            if self._wake_writer >= 0:
                os.write(self._wake_writer, b"x")


def parse_notices(data: bytes) -> Iterator[InotifyEvent]:
    """Yield each complete event in the kernel's data; names are padded with NUL."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        watch, mask, _cookie, length = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        name = data[offset : offset + length].rstrip(b"\0")
        yield InotifyEvent(watch, mask, os.fsdecode(name))
        offset += length
