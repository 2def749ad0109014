"""Keeps documents that wait for a sink, oldest first: in memory, or in a folder that outlives the process.

They are bounded in bytes and number; beyond that the oldest are dropped and counted. One thread puts and one
takes, under a lock; no method waits for a receiver.
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

from jobfeatures.errors import ParseError, UnsafePathError
from jobfeatures.publish.files import DIRECTORY, must_be_ours
from jobfeatures.records.jsontext import parse_own
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened
from jobfeatures_exporter.sinks.message import Message

log = logging.getLogger(__name__)

SPOOL_MAX_DOCUMENTS = 10_000  # for each sink
KEPT_CORRUPT = 10  # files set aside that are kept for diagnosis
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = re.compile(r"([0-9]{20})\.envelope\Z")
_CORRUPT = re.compile(r"[0-9]{20}\.corrupt\Z")
_TEMPORARY = re.compile(r"[0-9]{20}\.new\Z")
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # our own lack of descriptors or memory
_FIELDS = {"kind": str, "cluster": str, "node": str, "made_at_secs": float, "crc32": int}


class MessageSpool:
    """A queue of messages, kept in a folder; in memory if no folder is configured or it cannot be written.

    So a full, read-only or failing disk does not stop the sending. A crash loses the messages in memory.
    """

    def __init__(
        self, max_bytes: int, directory: str | None = None, *, max_count: int = SPOOL_MAX_DOCUMENTS
    ) -> None:
        """Load the messages left in the folder `directory`, if any. Raises OSError, UnsafePathError."""
        self._max_bytes, self._max_count = max_bytes, max_count
        self._lock = threading.Lock()
        self._folder = None if directory is None else _Folder(directory)
        # By ascending number: the size of the file, or the message itself if it waits in memory.
        self._waiting: OrderedDict[int, int | Message] = OrderedDict()
        self._last = 0
        if self._folder is not None:
            self._waiting.update(self._folder.sizes)
            self._last = self._folder.last
        self._bytes = sum(map(_size, self._waiting.values()))
        self._is_failing = False
        self.dropped = 0  # for lack of room, since the start
        self._drop_surplus()

    @property
    def corrupt(self) -> int:
        """Return how many unreadable files of messages have been set aside since the start."""
        return 0 if self._folder is None else self._folder.corrupt

    def put(self, message: Message) -> None:
        """Append a message; drop and count the oldest ones beyond the limits of bytes and number."""
        with self._lock:
            self._last += 1
            place = self._waiting[self._last] = self._written(self._last, message)
            self._bytes += _size(place)
            self._drop_surplus()

    def oldest(self) -> tuple[int, Message] | None:
        """Return the oldest message that can be read, with its number; None if no message waits.

        Raises OSError if it cannot be read now.
        """
        with self._lock:
            while self._waiting:
                number, waiting = next(iter(self._waiting.items()))
                if isinstance(waiting, Message):
                    return number, waiting
                assert self._folder is not None  # noqa: S101  # there is a file
                try:
                    return number, self._folder.read(number, waiting)
                except FileNotFoundError:  # somebody removed it
                    self._forget(number)
                except (OSError, ParseError) as error:
                    if getattr(error, "errno", None) in _OURS:  # not the file's fault
                        in_memory = self._oldest_in_memory()
                        if in_memory is None:
                            raise
                        return in_memory
                    self._forget(number)
                    self._folder.pass_over(number, error)
            return None

    def remove(self, number: int) -> None:
        """Remove a message by its number; it may have been dropped meanwhile."""
        with self._lock:
            if number in self._waiting:
                self._remove(number)

    def close(self) -> None:
        """Close the folder, after writing the messages in memory to it as far as possible."""
        with self._lock:
            if self._folder is None:
                return
            with contextlib.suppress(OSError):
                while (found := self._oldest_in_memory()) is not None:
                    number, message = found
                    self._waiting[number] = self._folder.write(number, format_spooled(message))
            self._folder.close()

    def __len__(self) -> int:
        return len(self._waiting)

    def _written(self, number: int, message: Message) -> int | Message:
        """Write a message, and return its file's size; the message itself if no folder accepts it."""
        if self._folder is None:
            return message
        where = {"folder": self._folder.path}
        try:
            size = self._folder.write(number, format_spooled(message))
        except OSError as error:
            if not self._is_failing:  # once per outage
                log.error("cannot write the spool folder: documents wait in memory: %s", error, extra=where)
            self._is_failing = True
            return message
        if self._is_failing:
            log.info("the spool folder can be written again: unsent documents wait in it", extra=where)
        self._is_failing = False
        return size

    def _oldest_in_memory(self) -> tuple[int, Message] | None:
        found = self._waiting.items()
        return next(((number, each) for number, each in found if isinstance(each, Message)), None)

    def _drop_surplus(self) -> None:
        while self._waiting and (self._bytes > self._max_bytes or len(self._waiting) > self._max_count):
            self._remove(next(iter(self._waiting)))
            self.dropped += 1

    def _remove(self, number: int) -> None:
        if not isinstance(self._forget(number), Message) and self._folder is not None:
            self._folder.unlink(number)

    def _forget(self, number: int) -> int | Message:
        waiting = self._waiting.pop(number)
        self._bytes -= _size(waiting)
        return waiting


def _size(waiting: int | Message) -> int:
    return waiting if isinstance(waiting, int) else len(waiting.body)


class _Folder:
    """A private folder with one file for each message, named by its number.

    A file is written under a temporary name, synced and renamed: after a crash it is complete or absent.
    Unreadable files are set aside as ``NUMBER.corrupt``.
    """

    def __init__(self, path: str) -> None:
        """Open the folder for exclusive use; create it if missing. Raises OSError, UnsafePathError."""
        os.makedirs(path, mode=0o700, exist_ok=True)
        self.path = path
        self.corrupt = 0
        self._descriptor = os.open(path, DIRECTORY)
        try:
            must_be_ours(self._descriptor, path)
            self._claim()
            self.sizes = self._scan()  # of the existing files, by number
        except (OSError, UnsafePathError):
            os.close(self._descriptor)
            raise
        self.last = max([*self.sizes, *(int(name[:20]) for name in self._aside)], default=0)

    def _claim(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process uses this folder", self.path) from error

    def _scan(self) -> dict[int, int]:
        found = {}
        aside = []
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                if match := _NAME.match(entry.name):
                    found[int(match[1])] = entry.stat(follow_symlinks=False).st_size
                elif _TEMPORARY.match(entry.name):
                    os.unlink(entry.name, dir_fd=self._descriptor)
                elif _CORRUPT.match(entry.name):
                    aside.append(entry.name)
        self._aside = sorted(aside)
        return dict(sorted(found.items()))

    def write(self, number: int, data: bytes) -> int:
        """Write a file, and return its size. Raises OSError, and then leaves no file."""
        temporary = f"{number:020}.new"
        try:
            with opened(temporary, _NEW, self._descriptor, 0o600) as file:
                written = 0
                while written < len(data):
                    written += os.write(file, data[written:])
                os.fsync(file)
            os.rename(temporary, _name(number), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            os.fsync(self._descriptor)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._descriptor)
            raise
        return len(data)

    def read(self, number: int, size: int) -> Message:
        """Return the message of a file. Raises OSError, ParseError."""
        with opened(_name(number), READ_UNFOLLOWED, self._descriptor) as file:
            return parse_spooled(_read(file, size))

    def unlink(self, number: int) -> None:
        """Remove a file."""
        try:
            os.unlink(_name(number), dir_fd=self._descriptor)
        except FileNotFoundError:
            pass
        except OSError as error:  # not sent again, except after a restart
            log.warning("cannot remove a spooled document: %s", error, extra={"folder": self.path})

    def pass_over(self, number: int, error: OSError | ParseError) -> None:
        """Rename an unreadable file, so that it is not read again; leave one of a later version in place."""
        is_later = isinstance(error, ParseError) and error.field == "format"
        what = "left in place" if is_later else "renamed to *.corrupt"
        log.warning(
            "a spooled document cannot be used and is %s: %s", what, error, extra={"folder": self.path}
        )
        if is_later:
            return
        self.corrupt += 1
        name = f"{number:020}.corrupt"
        try:
            os.rename(_name(number), name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            self._aside.append(name)
            while len(self._aside) > KEPT_CORRUPT:
                os.unlink(self._aside.pop(0), dir_fd=self._descriptor)
        except OSError as failure:
            log.warning(
                "cannot rename an unreadable spooled document: %s", failure, extra={"folder": self.path}
            )

    def close(self) -> None:
        """Close the folder; any other call then fails."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def format_spooled(message: Message) -> bytes:
    """Return the content of a spool file: a line of metadata, then the document."""
    head = {
        "kind": message.kind,
        "cluster": message.cluster,
        "node": message.node,
        "made_at_secs": float(message.made_at_secs),
        "crc32": zlib.crc32(message.body),
    }
    return json.dumps(head).encode("ascii") + b"\n" + message.body


def parse_spooled(data: bytes, *, source: str = "spool") -> Message:
    """Return the message of a spool file. Raises ParseError if it is damaged or in another format."""
    line, _, body = data.partition(b"\n")
    head = parse_own(line, source=source)
    if {name: type(value) for name, value in head.items()} != _FIELDS:
        raise ParseError("the first line must be the header of a spooled document", source=source, line=1)
    crc32 = head.pop("crc32")
    if zlib.crc32(body) != crc32:
        raise ParseError("the document is damaged", source=source, line=2)
    return Message(**head, body=body)


def _read(file: int, size: int) -> bytes:
    data = b""
    while len(data) <= size and (chunk := os.read(file, size + 1 - len(data))):
        data += chunk
    return data


def _name(number: int) -> str:
    return f"{number:020}.envelope"
