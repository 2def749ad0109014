"""Reads who may send documents: a file of users and passwords, for HTTP's basic authentication (RFC 7617)."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
from typing import Final, NamedTuple

from jobfeatures.errors import ConfigurationError, JobfeaturesError, ParseError
from jobfeatures.system.basiccredentials import parse_basic
from jobfeatures.system.privatefile import read_private
from jobfeatures.system.tls import file_version, reason_of

log = logging.getLogger(__name__)

MAX_FILE_BYTES: Final = 2**20
_USER = re.compile(r"(?P<user>[^\[]+)(?:\[(?P<clusters>[^\[\],\s]+(?:,[^\[\],\s]+)*)\])?")


class User(NamedTuple):
    """A user who may send documents, with a password.

    Only documents of the clusters in `clusters` are accepted from the user (None: of any cluster).
    """

    password: str
    clusters: frozenset[str] | None = None


def parse_users(text: str, source: str = "") -> dict[str, User]:
    """Return the users by name, from lines USER:PASSWORD or USER[CLUSTER,...]:PASSWORD.

    Empty lines and lines beginning with # are ignored. Raises ParseError, which never shows a password,
    for malformed lines and duplicate users.
    """
    users: dict[str, User] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, password = line.partition(":")
        form = _USER.fullmatch(user)
        if not (form and colon and password):
            raise ParseError(
                "line must be USER:PASSWORD or USER[CLUSTER,...]:PASSWORD", source=source, line=number
            )
        if form["user"] in users:
            raise ParseError("an earlier line has the same user: keep one", source=source, line=number)
        clusters = None if form["clusters"] is None else frozenset(form["clusters"].split(","))
        users[form["user"]] = User(password, clusters)
    if not users:
        raise ParseError("has no line USER:PASSWORD", source=source)
    return users


def read_users(path: str) -> dict[str, User]:
    """Return the users in a file, in the syntax of `parse_users`, by name.

    Raises OSError if it cannot be read, ParseError if it is malformed, and UnsafePathError unless root or
    this process's user owns it and nobody else can read it.
    """
    try:
        return parse_users(read_private(path, MAX_FILE_BYTES).decode(), path)
    except UnicodeDecodeError:
        raise ParseError("is not UTF-8", source=path) from None


class UsersFile:
    """Holds the users that a file lists, and rereads it when it changes.

    If the file becomes invalid, the previous users remain.
    """

    def __init__(self, path: str) -> None:
        """Read the file. Raises ConfigurationError if it cannot be used."""
        self._path = path
        self._pepper = os.urandom(16)
        self._stamp = file_version(path)
        try:
            self._known = self._digests(read_users(path))
        except (OSError, JobfeaturesError) as error:
            raise ConfigurationError("sonar.users_file", reason_of(error)) from error

    def find(self, header: str) -> User | None:
        """Return the user whose name and password an Authorization header has; None if they are wrong.

        Passwords are compared in constant time.
        """
        self._refresh()
        given = parse_basic(header)
        user, password = given or ("", "")
        wanted, clusters = self._known.get(user, (b"\0" * 32, None))
        if hmac.compare_digest(self._digest(password), wanted) and given is not None:
            return User("", clusters)
        return None

    def _refresh(self) -> None:
        stamp = file_version(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._known = self._digests(read_users(self._path))
        except (OSError, JobfeaturesError) as error:
            log.error("the users file is invalid, so the users read before stay in use: %s", reason_of(error))

    def _digests(self, users: dict[str, User]) -> dict[str, tuple[bytes, frozenset[str] | None]]:
        return {name: (self._digest(user.password), user.clusters) for name, user in users.items()}

    def _digest(self, password: str) -> bytes:
        content = password.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(content, key=self._pepper, digest_size=32).digest()
