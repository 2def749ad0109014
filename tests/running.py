"""What tests of things that run need: patience, ports that nobody else takes, and a clock."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# For what nobody waits unless it fails: a machine may be busy with other things.
PATIENCE_SECS = 60.0


def own_folder(path: Path) -> Path:
    """Make a folder and those above it as the programs want theirs, writable by nobody else whatever the umask."""
    before = os.umask(0o022)
    try:
        path.mkdir(parents=True, exist_ok=True)
    finally:
        os.umask(before)
    return path


def until(condition: Callable[[], T], timeout_secs: float = PATIENCE_SECS) -> T:
    """Return what the condition gives as soon as that is something; it is asked ever more seldom."""
    deadline, pause_secs = time.monotonic() + timeout_secs, 0.005
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_secs:g} s"
        time.sleep(pause_secs)
        pause_secs = min(1.5 * pause_secs, 0.1)
    return result


def readable(file: int | socket.socket, timeout_secs: float) -> bool:
    """Return whether there is something to read in time: select.select takes no descriptor beyond 1023."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(timeout_secs * 1000))


@contextlib.contextmanager
def started(command: Sequence[object], **settings: Any) -> Iterator[subprocess.Popen]:
    """Run a program; behind it neither a process nor a pipe is left, whatever happens meanwhile."""
    with subprocess.Popen([str(word) for word in command], **settings) as process:
        try:
            yield process
        finally:
            process.kill()


def count_watches() -> int:
    """Return how many watches of inotify(7) the kernel has granted to this process."""
    found = 0
    for each in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found += each.read_text().count("inotify wd:")
    return found


class Exhausted:
    """The C library over a kernel that refuses these of its functions, each with its errno."""

    def __init__(self, **refused: int) -> None:
        self._refused = refused

    def __getattr__(self, name: str) -> Any:
        if name in self._refused:
            return lambda *_: (ctypes.set_errno(self._refused[name]), -1)[1]
        return getattr(ctypes.CDLL(None, use_errno=True), name)


NO_INOTIFY = Exhausted(inotify_init1=errno.EMFILE)


class HandClock:
    """A clock that a test sets: `secs` are those of its monotonic time, and those after `zero_secs`."""

    def __init__(self, zero_secs: float, secs: float = 0.0) -> None:
        self.zero_secs, self.secs = zero_secs, secs

    def now_secs(self) -> float:
        return self.zero_secs + self.secs

    def monotonic_secs(self) -> float:
        return self.secs


class FakeClock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now_secs: float = 1_800_000_000.0) -> None:
        self.now = now_secs
        self.monotonic = 1000.0

    def now_secs(self) -> float:
        return self.now

    def monotonic_secs(self) -> float:
        return self.monotonic

    def advance(self, secs: float) -> None:
        self.now += secs
        self.monotonic += secs


def free_port() -> int:
    """Return a port for a program to listen on, below those that the kernel gives to others meanwhile."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, lowest)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def is_removed(group: Path) -> bool:
    """Remove a control group, if its last process has left: the kernel lets go of it a moment later."""
    try:
        group.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True
