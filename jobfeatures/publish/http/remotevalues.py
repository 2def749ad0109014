"""Reads published values for clients over HTTP, and tells whether a client's copy is out of date.

A job's directory may belong to its user, as the draft of 2014 asks. Therefore no link is followed, no mount
point is entered, and a value has to be a small regular file without further hard links, owned by us or the
directory's owner.

Source of conditional requests: RFC 9110, 8.8 and 13.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime

from jobfeatures.errors import UnsafePathError
from jobfeatures.publish.files import DIRECTORY, MAX_VALUE_BYTES
from jobfeatures.publish.http.addresses import FEATURES, JOB, MACHINE
from jobfeatures.publish.tokens import TICK_NS
from jobfeatures.status.directory import open_inside
from jobfeatures.system.privatefile import READ_UNFOLLOWED, closing, opened, version_of

MAX_LISTED = 1000  # directory entries that are read; their user may create more
MAX_KEPT, MAX_KEPT_BYTES = 10_000, 256  # cached values, and bytes of one that is cached
_Stamp = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HttpValue:
    """A published value as an HTTP answer, with its entity tag (`etag`).

    `modified_secs` (epoch) is when it was last modified, None if no single time applies.
    """

    content: bytes
    etag: str
    modified_secs: int | None = None

    @property
    def last_modified(self) -> str:
        """Return the header Last-Modified (RFC 9110, 5.6.7), or an empty string."""
        if self.modified_secs is None:
            return ""
        # The owner of a file can set any time.
        return formatdate(max(0, min(self.modified_secs, 2**37)), usegmt=True)


class FeatureReader:
    """Reads and caches values of a tree; a value is read again once its directory or file has changed.

    It caches only small files that had not changed within the last kernel tick, the resolution of file times.
    """

    def __init__(self, root: str) -> None:
        """`root` is the folder of machine and job features."""
        self._root = root
        self._kept: dict[tuple[str | None, str], tuple[_Stamp, HttpValue]] = {}

    def read(self, job_name: str | None, key: str) -> HttpValue:
        """Return the value of a key of a job, or (`job_name` None) of the machine.

        Raises OSError if absent, UnsafePathError unless it is a small regular file of root or the job's user.
        """
        path = f"{self._root}/{MACHINE}" if job_name is None else f"{self._root}/{JOB}/{job_name}"
        kept = self._kept.pop((job_name, key), None)
        if kept is not None and kept[0] == _stamp(os.lstat(path), os.lstat(f"{path}/{key}")):
            self._kept[job_name, key] = kept
            return kept[1]
        stamp, feature = _read(self._root, job_name, key)
        if time.time_ns() - stamp[-1] > TICK_NS and len(feature.content) <= MAX_KEPT_BYTES:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[job_name, key] = stamp, feature
        return feature


def _stamp(directory: os.stat_result, file: os.stat_result) -> _Stamp:
    """Return a tuple that differs once either has changed; its last item is the file's ctime."""
    return (
        *(directory.st_dev, directory.st_ino, directory.st_uid),
        *(file.st_dev, file.st_mode, file.st_nlink, file.st_uid, *version_of(file), file.st_ctime_ns),
    )


def _read(root: str, job_name: str | None, key: str) -> tuple[_Stamp, HttpValue]:
    with _opened_directory(root, job_name) as directory:
        file = open_inside(directory, key, READ_UNFOLLOWED)
        with closing(file):
            found, around = os.fstat(file), os.fstat(directory)
            owners = (0, os.geteuid(), around.st_uid)
            is_value = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid in owners
            content = os.read(file, MAX_VALUE_BYTES + 1) if is_value else b""
    if not is_value or len(content) > MAX_VALUE_BYTES:
        raise UnsafePathError(
            f"{job_name or MACHINE}/{key}: must be a regular file of root or the job's user"
        )
    return _stamp(around, found), HttpValue(content, _etag(content), int(found.st_mtime))


def list_features(root: str, job_name: str | None) -> HttpValue:
    """Return the names of the existing keys of a job, or (`job_name` None) of the machine, one per line.

    Raises OSError if there is no directory.
    """
    with _opened_directory(root, job_name) as directory, os.scandir(directory) as entries:
        names = sorted(each.name for each in itertools.islice(entries, MAX_LISTED) if each.name in FEATURES)
    content = "".join(f"{name}\n" for name in names).encode()
    return HttpValue(content, _etag(content))


@contextlib.contextmanager
def _opened_directory(root: str, job_name: str | None) -> Iterator[int]:
    if job_name is None:
        directory = os.open(f"{root}/{MACHINE}", DIRECTORY)
    else:
        with opened(f"{root}/{JOB}", DIRECTORY) as folder:
            directory = open_inside(folder, job_name, DIRECTORY)
    with closing(directory):
        yield directory


def _etag(content: bytes) -> str:
    return f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'


MAX_HEADER_CHARACTERS = 1024


def has_changed(headers: Mapping[str, str], found: HttpValue) -> bool:
    """Return whether to send a value: the request's headers do not name the same copy of it.

    If they do, the answer is 304 (not modified).
    """
    tags = headers.get("If-None-Match")
    if tags is not None:
        return not _is_listed(found.etag, tags, weakly=True)
    since = headers.get("If-Modified-Since")
    if since is None or found.modified_secs is None or len(since) > MAX_HEADER_CHARACTERS:
        return True
    try:
        date = parsedate_to_datetime(since)
        if date.tzinfo is None:  # the obsolete form of asctime(), which is in GMT too
            date = date.replace(tzinfo=UTC)
        return found.modified_secs > date.timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return True  # not a date: the header is ignored


def may_write(headers: Mapping[str, str], etag: str, *, exists: bool) -> bool:
    """Return whether a request's If-Match and If-None-Match allow to replace a value.

    `etag` is that of the present value, if it `exists`.
    """
    wanted = headers.get("If-Match")
    if wanted is not None and not (exists and _is_listed(etag, wanted, weakly=False)):
        return False
    unwanted = headers.get("If-None-Match")
    return unwanted is None or not (exists and _is_listed(etag, unwanted, weakly=True))


def _is_listed(etag: str, tags: str, *, weakly: bool) -> bool:
    if tags.strip() == "*":
        return True
    listed = [tag.strip() for tag in tags[:MAX_HEADER_CHARACTERS].split(",")]
    if weakly:
        listed = [tag.removeprefix("W/") for tag in listed]
    return etag in listed
