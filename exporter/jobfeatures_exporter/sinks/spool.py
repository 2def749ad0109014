"""Documents that wait for a sink, oldest first: in memory, or in a folder that outlives us.

Both are bounded in bytes and number; what is too much is dropped from the old
end and counted. One thread puts, one takes: a lock keeps them apart, and no
method waits for a far side.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import threading
import zlib
from collections import OrderedDict
from typing import NamedTuple

from jobfeatures.errors import ParseError, UnsafePathError
from jobfeatures.jsontext import parse_own
from jobfeatures.privatefile import opened
from jobfeatures.publish.files import DIRECTORY, must_be_ours
from jobfeatures_exporter.sinks.message import Message

log = logging.getLogger(__name__)

KEPT_CORRUPT = 10  # files set aside for whoever wants to know
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME = re.compile(r"([0-9]{20})\.envelope\Z")
_CORRUPT = re.compile(r"[0-9]{20}\.corrupt\Z")
_TEMPORARY = re.compile(r"[0-9]{20}\.new\Z")
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # we lack something
_FIELDS = {"kind": str, "cluster": str, "node": str, "made_at_secs": float, "crc32": int}


class Limits(NamedTuple):
    """What may wait."""

    max_bytes: int
    max_count: int


class MemorySpool:
    """Keeps messages as long as we live."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._messages: OrderedDict[int, Message] = OrderedDict()
        self._bytes = 0
        self._last = 0
        self.dropped = 0
        self.corrupt = 0

    def put(self, message: Message) -> None:
        """Add one, and drop the oldest beyond the limits."""
        with self._lock:
            self._last += 1
            self._messages[self._last] = message
            self._bytes += len(message.body)
            while self._messages and (
                self._bytes > self._limits.max_bytes or len(self._messages) > self._limits.max_count
            ):
                self._remove(next(iter(self._messages)))
                self.dropped += 1

    def oldest(self) -> tuple[int, Message] | None:
        """Return the oldest."""
        with self._lock:
            return next(iter(self._messages.items()), None)

    def remove(self, number: int) -> None:
        """Take one away; it may have been dropped meanwhile."""
        with self._lock:
            self._remove(number)

    def close(self) -> None:
        """Nothing is open."""

    def __len__(self) -> int:
        return len(self._messages)

    def _remove(self, number: int) -> None:
        message = self._messages.pop(number, None)
        if message is not None:
            self._bytes -= len(message.body)


class DiskSpool:
    """Keeps messages in a folder of its own: one file each, named by a rising number.

    A file is written under another name, brought to the disk, and renamed: after
    a crash it is there as a whole or not at all. What cannot be read is set
    aside as ``NUMBER.corrupt``.
    """

    def __init__(self, directory: str, limits: Limits) -> None:
        """Open the folder, made where it is missing, for us alone. Raises OSError, UnsafePathError."""
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.directory = directory
        self._folder = os.open(directory, DIRECTORY)
        self._limits = limits
        self._lock = threading.Lock()
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self._bytes = 0
        self.dropped = 0
        self.corrupt = 0
        try:
            must_be_ours(self._folder, directory)
            self._claim()
            self._scan()
        except (OSError, UnsafePathError):
            os.close(self._folder)
            raise

    def put(self, message: Message) -> None:
        """Write one, and drop the oldest beyond the limits. Raises OSError and keeps what there was."""
        data = format_spooled(message)
        with self._lock:
            self._last += 1
            self._write(self._last, data)
            self._sizes[self._last] = len(data)
            self._bytes += len(data)
            self._drop_surplus()

    def oldest(self) -> tuple[int, Message] | None:
        """Return the oldest that can be read."""
        with self._lock:
            while self._sizes:
                number = next(iter(self._sizes))
                try:
                    with opened(_name(number), _OLD, self._folder) as file:
                        return number, parse_spooled(_read(file, self._sizes[number]))
                except FileNotFoundError:  # somebody took it away
                    self._forget(number)
                except (OSError, ParseError) as error:
                    if getattr(error, "errno", None) in _OURS:
                        raise  # it says nothing of the file
                    is_later = isinstance(error, ParseError) and error.field == "format"
                    what = "left to a later version" if is_later else "set aside"
                    log.warning("spooled document %s: %s", what, error, extra={"folder": self.directory})
                    (self._forget if is_later else self._set_aside)(number)
            return None

    def remove(self, number: int) -> None:
        """Take one away; it may have been dropped meanwhile."""
        with self._lock:
            self._unlink(number)

    def close(self) -> None:
        """Let go of the folder; whatever else is asked then fails."""
        with self._lock:
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1

    def __len__(self) -> int:
        return len(self._sizes)

    def _claim(self) -> None:
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process uses this folder", self.directory) from error

    def _scan(self) -> None:
        found = {}
        aside = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if match := _NAME.match(entry.name):
                    found[int(match[1])] = entry.stat(follow_symlinks=False).st_size
                elif _TEMPORARY.match(entry.name):
                    os.unlink(entry.name, dir_fd=self._folder)
                elif _CORRUPT.match(entry.name):
                    aside.append(entry.name)
        self._sizes = OrderedDict(sorted(found.items()))
        self._bytes = sum(found.values())
        self._aside = sorted(aside)
        self._last = max([*found, *(int(name[:20]) for name in aside)], default=0)
        self._drop_surplus()

    def _write(self, number: int, data: bytes) -> None:
        temporary = f"{number:020}.new"
        try:
            with opened(temporary, _NEW, self._folder, 0o600) as file:
                written = 0
                while written < len(data):
                    written += os.write(file, data[written:])
                os.fsync(file)
            os.rename(temporary, _name(number), src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._folder)
            raise

    def _drop_surplus(self) -> None:
        while self._sizes and (
            self._bytes > self._limits.max_bytes or len(self._sizes) > self._limits.max_count
        ):
            self._unlink(next(iter(self._sizes)))
            self.dropped += 1

    def _unlink(self, number: int) -> None:
        if number in self._sizes:
            self._forget(number)
            try:
                os.unlink(_name(number), dir_fd=self._folder)
            except FileNotFoundError:
                pass
            except OSError as error:  # it is done with all the same; after a restart it goes once more
                log.warning("spooled document stays: %s", error, extra={"folder": self.directory})

    def _set_aside(self, number: int) -> None:
        self._forget(number)
        self.corrupt += 1
        name = f"{number:020}.corrupt"
        try:
            os.rename(_name(number), name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            self._aside.append(name)
            while len(self._aside) > KEPT_CORRUPT:
                os.unlink(self._aside.pop(0), dir_fd=self._folder)
        except OSError as error:
            log.warning("cannot set a spooled document aside: %s", error, extra={"folder": self.directory})

    def _forget(self, number: int) -> None:
        self._bytes -= self._sizes.pop(number)


class SafeSpool:
    """A folder of messages, and memory within the same limits for those that the folder does not take.

    So a full, read-only or failing disk keeps nothing from being sent. A crash loses what waits in memory.
    """

    def __init__(self, folder: DiskSpool, limits: Limits) -> None:
        self._folder = folder
        self._memory = MemorySpool(limits)
        self._is_failing = False

    def put(self, message: Message) -> None:
        """Add one, to the folder if that takes it."""
        try:
            self._folder.put(message)
        except OSError as error:
            self._memory.put(message)
            if not self._is_failing:  # once per outage
                log.error("documents wait in memory: %s", error, extra={"folder": self._folder.directory})
            self._is_failing = True
        else:
            if self._is_failing:
                log.info("documents wait in the folder again", extra={"folder": self._folder.directory})
            self._is_failing = False

    def oldest(self) -> tuple[int, Message] | None:
        """Return the oldest of both and its number, negative of one in memory; None of nothing.

        Raises OSError where it cannot be read now.
        """
        waiting = self._memory.oldest()
        try:
            found = self._folder.oldest()
        except OSError:
            if waiting is None:
                raise
            found = None
        if waiting is None or (found is not None and found[1].made_at_secs <= waiting[1].made_at_secs):
            return found
        return -waiting[0], waiting[1]

    def remove(self, number: int) -> None:
        """Take one away."""
        if number < 0:
            self._memory.remove(-number)
        else:
            self._folder.remove(number)

    def close(self) -> None:
        """Let go of the folder, with what it takes of that in memory."""
        with contextlib.suppress(OSError):
            while (found := self._memory.oldest()) is not None:
                self._folder.put(found[1])
                self._memory.remove(found[0])
        self._folder.close()

    @property
    def dropped(self) -> int:
        """Return how many there was no room for."""
        return self._folder.dropped + self._memory.dropped

    @property
    def corrupt(self) -> int:
        """Return how many files were set aside."""
        return self._folder.corrupt

    def __len__(self) -> int:
        return len(self._folder) + len(self._memory)


Spool = MemorySpool | SafeSpool


def format_spooled(message: Message) -> bytes:
    """Return a spool file: a line that says what it is, and the document."""
    head = {
        "kind": message.kind,
        "cluster": message.cluster,
        "node": message.node,
        "made_at_secs": float(message.made_at_secs),
        "crc32": zlib.crc32(message.body),
    }
    return json.dumps(head).encode("ascii") + b"\n" + message.body


def parse_spooled(data: bytes, *, source: str = "spool") -> Message:
    """Return the message of a spool file. Raises ParseError for one that is not as it was written."""
    line, _, body = data.partition(b"\n")
    head = parse_own(line, source=source)
    if {name: type(value) for name, value in head.items()} != _FIELDS:
        raise ParseError("not the head of a spooled document", source=source, line=1)
    crc32 = head.pop("crc32")
    if zlib.crc32(body) != crc32:
        raise ParseError("document is damaged", source=source, line=2)
    return Message(**head, body=body)


def _read(file: int, size: int) -> bytes:
    data = b""
    while len(data) <= size and (chunk := os.read(file, size + 1 - len(data))):
        data += chunk
    return data


def _name(number: int) -> str:
    return f"{number:020}.envelope"
