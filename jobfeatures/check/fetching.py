"""Reads a directory of features that anybody may have made, locally or over HTTP.

Only regular files are opened for reading: each name is first inspected through an O_PATH descriptor, and then
the same inode is read. So a FIFO cannot block the reader, and no device is opened. A link is followed only if
root or the caller made it; another user's link may lead to a file that only the caller can read.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
from http import HTTPStatus
from pathlib import Path

from jobfeatures.check.listing import (
    KINDS,
    MAX_SHOWN_NAMES,
    DirectoryKind,
    Entry,
    Listing,
    ResponseHead,
    Rights,
    Trouble,
    guess_kind,
)
from jobfeatures.errors import JobfeaturesError
from jobfeatures.features.keys import MjfProfile
from jobfeatures.system.privatefile import opened

MAX_VALUE_BYTES = 4096
HTTP_TIMEOUT_SECS = 5.0  # of one answer
NO_SUCH_KEY = "no_such_key_for_a_checker"
_TYPES = {"d": "a directory", "p": "a FIFO", "s": "a socket", "c": "a device", "b": "a device"}


class CannotCheckError(JobfeaturesError):
    """Raised when a directory or server of features cannot be read, so that there is nothing to check."""


def read_listing(
    location: str, kind: DirectoryKind | None = None, profile: MjfProfile | None = None
) -> Listing:
    """Read a directory of features at an absolute path or http(s) address.

    If `kind` is None, it is guessed from the keys and the name. `profile` is the specification to check
    against (None: guess it too). Raises CannotCheckError if nothing can be read, or the kind not be guessed.
    """
    if location.startswith("/"):
        entries, is_cut, missing = *read_directory(location), None
    elif location.startswith(("http://", "https://")):
        entries, missing = read_server(location)
        is_cut = False
    else:
        raise CannotCheckError("must be an absolute path or an http(s) address")
    kind = kind or guess_kind(location, entries)
    if kind is None:
        raise CannotCheckError("neither keys nor name show which kind of directory this is: use --kind")
    rights = read_rights(location) if location.startswith("/") else ()
    return Listing(location, entries, kind, is_cut, missing, rights, profile)


def read_rights(path: str) -> tuple[Rights, ...]:
    """Return owner and mode of a directory and of its parents, up to the first that cannot be inspected."""
    found = []
    for each in (Path(path), *Path(path).parents):
        try:
            seen = os.stat(each)
        except OSError:
            break
        found.append(Rights(str(each), seen.st_mode, seen.st_uid))
    return tuple(found)


def read_directory(path: str) -> tuple[dict[str, Entry], bool]:
    """Return the entries of a local directory by name, and whether it has more than `MAX_SHOWN_NAMES`.

    Entries beyond that number are not read. Raises CannotCheckError if the directory cannot be read.
    """
    try:
        with opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK) as directory:
            with os.scandir(directory) as found:
                names = [entry.name for entry in itertools.islice(found, MAX_SHOWN_NAMES + 1)]
            entries = {name: _read_entry(directory, name) for name in sorted(names[:MAX_SHOWN_NAMES])}
    except OSError as error:
        raise CannotCheckError(error.strerror) from error
    return entries, len(names) > MAX_SHOWN_NAMES


def _read_entry(directory: int, name: str) -> Entry:
    is_link = False
    try:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(opened(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, directory))
            found = os.fstat(file)
            if stat.S_ISLNK(found.st_mode):
                is_link = True
                if found.st_uid not in (0, os.geteuid()):
                    return Entry(trouble=Trouble.FOREIGN_LINK, is_link=True)
                file = stack.enter_context(opened(name, os.O_PATH | os.O_CLOEXEC, directory))
                found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                kind = _TYPES.get(stat.filemode(found.st_mode)[0], "something else")
                detail = f"is {kind}, not a file"
                return Entry(trouble=Trouble.NOT_A_FILE, detail=detail, is_link=is_link)
            with opened(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) as readable:
                content = os.read(readable, MAX_VALUE_BYTES + 1)
    except OSError as error:
        return Entry(trouble=Trouble.UNREADABLE, detail=f"cannot be read: {error.strerror}", is_link=is_link)
    if len(content) > MAX_VALUE_BYTES:
        detail = f"has {found.st_size} bytes"
        return Entry(trouble=Trouble.TOO_LARGE, detail=detail, is_link=is_link)
    rights = Rights(name, found.st_mode, found.st_uid)
    return Entry(content=content, is_link=is_link, written_at_secs=found.st_mtime, rights=rights)


def read_server(address: str) -> tuple[dict[str, Entry], ResponseHead]:
    """Request each known key from a server; return the entries of the keys that it has, by name.

    The second value is the server's answer for a key that cannot exist. Raises CannotCheckError if the server
    does not answer that request.
    """
    answer, _ = _ask(address, NO_SUCH_KEY)
    entries: dict[str, Entry] = {}
    for name in KINDS:
        try:
            found, content = _ask(address, name)
        except CannotCheckError as error:
            entries[name] = Entry(trouble=Trouble.UNREADABLE, detail=f"cannot be read: {error}")
            continue
        if found.status == 404:
            continue
        if found.status != 200:
            detail = f"is answered with status {found.status}"
            entries[name] = Entry(trouble=Trouble.UNREADABLE, detail=detail, answer=found)
        elif len(content) > MAX_VALUE_BYTES:
            detail = f"has more than {MAX_VALUE_BYTES} bytes"
            entries[name] = Entry(trouble=Trouble.TOO_LARGE, detail=detail, answer=found)
        else:
            entries[name] = Entry(content=content, answer=found)
    return entries, answer


def _ask(address: str, name: str) -> tuple[ResponseHead, bytes]:
    """Return head and body (up to one byte beyond the limit) of a response, whatever its status."""
    from http.client import BadStatusLine, HTTPException
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, build_opener

    from jobfeatures.system.httpget import TLS_SPOKEN, Server

    url = f"{address.rstrip('/')}/{name}"
    deadline = time.monotonic() + HTTP_TIMEOUT_SECS
    try:
        try:
            # Like jobs, use no proxy: there, this node's address would mean another machine.
            response = build_opener(ProxyHandler({})).open(url, timeout=HTTP_TIMEOUT_SECS)
        except HTTPError as error:
            response = error
        with response:
            body = b""
            while len(body) <= MAX_VALUE_BYTES:
                chunk = response.read1(MAX_VALUE_BYTES + 1 - len(body))
                if not chunk:
                    break
                body += chunk
                if time.monotonic() > deadline:
                    raise CannotCheckError(f"transfer took longer than {HTTP_TIMEOUT_SECS:g} s")
            # Of a header that is repeated, the first counts.
            headers = {name.lower(): value for name, value in reversed(response.headers.items())}
        if response.status == HTTPStatus.BAD_REQUEST and Server(url).speaks_tls():
            raise CannotCheckError(TLS_SPOKEN)
        return ResponseHead(status=response.status, headers=headers, body_bytes=len(body)), body
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, (ConnectionError, BadStatusLine)) and Server(url).speaks_tls():
            raise CannotCheckError(TLS_SPOKEN) from error
        reason = getattr(error, "reason", None) or error
        raise CannotCheckError(str(getattr(reason, "strerror", None) or reason)) from error
