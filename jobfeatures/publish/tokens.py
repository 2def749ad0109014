"""Makes and finds the secret tokens that identify jobs over HTTP: one per job, made when it is published.

Whoever knows a job's token can read its features and write its status. Tokens are stored in a folder that
only root can read; they last until the job's directories are removed, across restarts of the daemon.
"""

from __future__ import annotations

import errno
import os
import re
import time

from jobfeatures.records.model import JobKey
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened

TOKEN_BYTES = 24  # 192 bits
_TOKEN = re.compile(rb"[0-9a-f]{48}\Z")
# File times advance by the kernel's tick: a folder that changed less than this ago
# may change again without a new modification time.
TICK_NS = 20_000_000
_RECHECK_NS = 2_000_000


def new_token() -> str:
    """Return a token that nobody can guess and that fits into a URL."""
    return os.urandom(TOKEN_BYTES).hex()


def parse_token(content: bytes | None) -> str | None:
    """Return the token in a file's content, None if it is something else."""
    word = content.removesuffix(b"\n") if content is not None else b""
    return word.decode("ascii") if _TOKEN.match(word) else None


class TokenTable:
    """Finds the job of each token; reads the folder of tokens again when it changes. Used by one thread.

    Tokens are looked up by a keyed digest, so that the time of a lookup does not reveal how much of a guess
    is right.
    """

    def __init__(self, path: str) -> None:
        """`path` is the folder of tokens."""
        self._path = path
        self._pepper = os.urandom(16)
        self._jobs: dict[bytes, JobKey] = {}
        self._files: dict[str, tuple[tuple[int, int], bytes]] = {}  # by name: its stamp, its token's digest
        self._stamp: tuple[int, int] | None = None
        self._read_at_ns = 0

    def find(self, token: str) -> JobKey | None:
        """Return the job that a token belongs to, None if there is none."""
        self._refresh()
        return self._jobs.get(self._digest(token.encode("ascii", "replace")))

    def _digest(self, token: bytes) -> bytes:
        import hashlib  # for the daemon only: a hook creates tokens but looks none up

        return hashlib.blake2b(token, key=self._pepper, digest_size=32).digest()

    def _refresh(self) -> None:
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            self._jobs, self._files, self._stamp = {}, {}, None
            return
        stamp = (found.st_ino, found.st_mtime_ns)
        if stamp == self._stamp:
            settled = self._read_at_ns - found.st_mtime_ns > TICK_NS
            if settled or 0 <= time.time_ns() - self._read_at_ns < _RECHECK_NS:
                return
        self._read_at_ns = time.time_ns()
        self._stamp = stamp
        self._read()

    def _read(self) -> None:
        files: dict[str, tuple[tuple[int, int], bytes]] = {}
        jobs: dict[bytes, JobKey] = {}
        try:
            entries = list(os.scandir(self._path))
        except OSError:
            self._stamp = None
            return
        for entry in entries:
            key = JobKey.from_directory_name(entry.name)
            if key is None:
                continue
            try:
                found = entry.stat(follow_symlinks=False)
                stamp = (found.st_ino, found.st_ctime_ns)
                known = self._files.get(entry.name)
                if known is None or known[0] != stamp:
                    with opened(entry.path, READ_UNFOLLOWED) as file:
                        token = parse_token(os.read(file, 128))
                    if token is None:
                        continue
                    known = (stamp, self._digest(token.encode("ascii")))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ELOOP):  # its job ended; a link
                    self._stamp = None  # e.g. out of descriptors: read the folder again
                continue
            files[entry.name] = known
            jobs[known[1]] = key
        self._files, self._jobs = files, jobs
