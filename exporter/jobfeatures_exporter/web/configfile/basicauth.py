"""Checks passwords of HTTP's basic authentication (RFC 7617) against bcrypt hashes.

Bcrypt is slow on purpose. So each user and password is checked only once, in a thread, one check at a time;
the result is cached under a keyed digest, whose key never leaves this process. Checks wait in a short queue
and are rate-limited per client; cached credentials bypass both.
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from jobfeatures.errors import ConfigurationError
from jobfeatures.system.basiccredentials import parse_basic
from jobfeatures.system.rates import Rates

try:
    import bcrypt
except ImportError as error:
    raise ConfigurationError(
        "web.config_file", "needs PyYAML and bcrypt: pip install 'jobfeatures-exporter[web]'"
    ) from error

MAX_KEPT: Final = 256  # cached results, right and wrong each
MAX_WAITING: Final = 8  # checks, including the one running
CHECKS_PER_SEC: Final = 2.0  # from one client; twice as many after a pause
USED_BYTES: Final = 72  # of a password: bcrypt ignores the rest


class PasswordVerdict(enum.Enum):
    """The outcome of checking a user and password: right, wrong, or busy (not checked now)."""

    RIGHT = "right"
    WRONG = "wrong"
    BUSY = "busy"  # they were not checked


class BasicAuth:
    """Checks the user and password in Authorization headers. All methods run in one event loop."""

    def __init__(self) -> None:
        self._pepper = os.urandom(32)
        self._right: dict[bytes, None] = {}
        self._wrong: dict[bytes, None] = {}
        self._check_rates = Rates(CHECKS_PER_SEC)
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "bcrypt")
        self._dummy_hashes: dict[int, str] = {}

    def close(self) -> None:
        """Stop the thread after the check it is running."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def judge(
        self, header: str, client: object, users: Mapping[str, str], *, now_secs: float
    ) -> PasswordVerdict:
        """Return whether the user and password in an Authorization header are right, wrong or not checked.

        `users` are password hashes by name. `client` identifies the sender: each client's checks are
        rate-limited. `now_secs` is a monotonic time.
        """
        given = parse_basic(header)
        if given is None or not given[1]:
            return PasswordVerdict.WRONG  # also where the hash is that of an empty password
        user, password = given
        # An unknown user takes as long to check as a known one.
        stored = users.get(user) or self._dummy_hash(users)
        secret = password.encode("utf-8", "surrogateescape")
        digest = self._digest(user.encode("utf-8", "surrogateescape"), stored.encode(), secret)
        if digest in self._right:
            return PasswordVerdict.RIGHT
        if digest in self._wrong:
            return PasswordVerdict.WRONG
        if self._waiting >= MAX_WAITING or not self._check_rates.take(client, now_secs):
            return PasswordVerdict.BUSY
        self._waiting += 1
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                self._thread, _matches, secret, stored.encode()
            )
        finally:
            self._waiting -= 1
        is_right = found and user in users
        results = self._right if is_right else self._wrong
        results[digest] = None
        if len(results) > MAX_KEPT:
            del results[next(iter(results))]  # the oldest
        return PasswordVerdict.RIGHT if is_right else PasswordVerdict.WRONG

    def _digest(self, *parts: bytes) -> bytes:
        """Return a digest of user, stored hash and password: a changed hash invalidates it."""
        digest = hashlib.blake2b(key=self._pepper, digest_size=32)
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()

    def _dummy_hash(self, users: Mapping[str, str]) -> str:
        """Return a hash that no password matches, with the highest cost among the users'."""
        cost = max(int(each[4:6]) for each in users.values())
        if cost not in self._dummy_hashes:
            self._dummy_hashes[cost] = bcrypt.gensalt(cost).decode() + "." * 31
        return self._dummy_hashes[cost]


def _matches(password: bytes, stored: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:USED_BYTES], stored)
    except ValueError:
        return False
