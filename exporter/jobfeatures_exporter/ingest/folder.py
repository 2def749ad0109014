"""Reads documents (envelopes) from a folder that Sonar's agents write.

The files are YEAR/MONTH/DAY/*.json, also below CLUSTER/. They grow by appended documents: reading continues
at the last offset. Only the newest two days of a tree are read. Links are not followed; only regular files
are read, up to a bounded size.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import stat
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from jobfeatures.publish.files import DIRECTORY
from jobfeatures.system.clock import Clock
from jobfeatures.system.privatefile import READ_UNFOLLOWED, closing, opened
from jobfeatures_exporter.ingest.intake import SonarIntake

log = logging.getLogger(__name__)

POLL_SECS: Final = 5.0
DAYS: Final = 2
AHEAD_SECS: Final = 86_400.0  # beyond this a day is yet to come
SAMPLES: Final = "0+sample-"
TAIL_BYTES: Final = 2 * 2**20
MAX_CLUSTERS: Final = 100
MAX_FILES: Final = 20_000  # per day
_Place = tuple[str, ...]  # year, month and day, as far as they are known
_YEAR = re.compile(r"[0-9]{4}\Z")
_PART = re.compile(r"[0-9]{2}\Z")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")


class SonarDirectory:
    """Reads new documents in a folder, by the offset reached in each of its files. Used by one thread."""

    def __init__(self, path: str, intake: SonarIntake, clock: Clock, *, max_document_bytes: int) -> None:
        self._path = path
        self._intake = intake
        self._clock = clock
        self._max_bytes = max_document_bytes
        self._places: dict[str, tuple[int, int]] = {}  # inode and bytes read, by path
        self._unreadable = False

    def run(self, stopping: threading.Event) -> None:
        """Read new documents at intervals until `stopping` is set."""
        while not stopping.is_set():
            try:
                self.read(stopping)
            except Exception:  # supervised: one bad round must not end the loop
                log.exception("unexpected error in reading the documents in sonar.directory")
            stopping.wait(POLL_SECS)

    def read(self, stopping: threading.Event | None = None) -> None:
        """Read what was appended since the last call."""
        places: dict[str, tuple[int, int]] = {}
        try:
            root = os.open(self._path, DIRECTORY)
        except OSError as error:
            if not self._unreadable:
                log.warning("cannot read the folder sonar.directory (%s): %s", self._path, error.strerror)
            self._unreadable = True
            return
        self._unreadable = False
        last = tuple(time.strftime("%Y %m %d", time.gmtime(self._clock.now_secs() + AHEAD_SECS)).split())
        with closing(root):
            for day, path in _days(root, self._path, last):
                with closing(day):
                    for name in _names(day, MAX_FILES):
                        if stopping is not None and stopping.is_set():
                            return
                        if name.endswith(".json"):
                            with contextlib.suppress(OSError):  # deleted meanwhile, or not readable
                                self._read_file(day, name, f"{path}/{name}", places)
        self._places = places

    def _read_file(self, directory: int, name: str, path: str, places: dict[str, tuple[int, int]]) -> None:
        with opened(name, READ_UNFOLLOWED, directory) as file:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                return
            inode, offset = self._places.get(path) or (found.st_ino, self._first(file, name, found.st_size))
            if inode != found.st_ino or found.st_size < offset:
                offset = 0  # another file, or rewritten
            while offset < found.st_size:
                content = os.pread(file, self._max_bytes, offset)
                read = self._intake.take(content, path, growing=True).end
                if read == 0 and len(content) >= self._max_bytes:
                    log.warning(
                        "a document of more than %d bytes is skipped",
                        self._max_bytes,
                        extra={"origin": path},
                    )
                    read = len(content)
                if read == 0:
                    break
                offset += read
            places[path] = (found.st_ino, offset)

    def _first(self, file: int, name: str, size: int) -> int:
        """Return at which byte to start reading a new file: of a day's samples only the last ones matter."""
        if not name.startswith(SAMPLES) or size <= TAIL_BYTES:
            return 0
        content = os.pread(file, TAIL_BYTES, size - TAIL_BYTES)
        line = content.find(b"\n")
        return size - len(content) + line + 1 if line >= 0 else 0


def _days(root: int, path: str, last: _Place) -> Iterator[tuple[int, str]]:
    """Yield descriptors, to be closed by the caller, and paths of the newest days; older ones first.

    Days beyond `last`, of which the newest are read, too, are yet to come.
    """
    names = sorted(_names(root, 10_000))
    yield from _days_of_tree(root, path, last)
    clusters = (each for each in names if _CLUSTER.match(each) and not _YEAR.match(each))
    for name in itertools.islice(clusters, MAX_CLUSTERS):
        with contextlib.suppress(OSError), opened(name, DIRECTORY, root) as tree:
            yield from _days_of_tree(tree, f"{path}/{name}", last)


def _days_of_tree(tree: int, path: str, last: _Place) -> Iterator[tuple[int, str]]:
    places: list[_Place] = [()]
    for form in (_YEAR, _PART, _PART):
        found: list[_Place] = []
        for place in places:
            with contextlib.suppress(OSError), closing(folder := _open_below(tree, place)):
                found += [(*place, name) for name in _names(folder, 10_000) if form.match(name)]
        found.sort()
        to_come = bisect_right(found, last[: len(found[0])]) if found else 0
        places = [*found[:to_come][-DAYS:], *found[to_come:][-DAYS:]]
    for place in places:
        with contextlib.suppress(OSError):
            yield _open_below(tree, place), "/".join((path, *place))


def _open_below(directory: int, names: _Place) -> int:
    folder = os.dup(directory)
    for name in names:
        with closing(folder):
            folder = os.open(name, DIRECTORY, dir_fd=folder)
    return folder


def _names(directory: int, most: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [each.name for each in itertools.islice(entries, most)]
