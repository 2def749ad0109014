"""A client of slurmrestd: HTTP over a UNIX socket or TCP. Asks, never changes.

Source: https://slurm.schedmd.com/rest.html. Over its socket slurmrestd knows
the asking user by the kernel's word; over TCP a token has to say who it is.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat

from jobfeatures.errors import SourceError
from jobfeatures.httpget import Response, Server

MAX_TOKEN_BYTES = 16384
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,16000}\Z")


class RestClient(Server):
    """Sends GET requests with what says who asks."""

    def __init__(self, url: str, *, token_file: str | None = None, max_bytes: int = 32 * 2**20) -> None:
        """Raise SourceError for an address that is none."""
        super().__init__(url, max_bytes=max_bytes)
        self._token_file = token_file

    def ask(self, path: str, timeout_secs: float) -> Response:
        """Ask for a path. Raises SourceError where there is no answer, or none that fits into the bounds."""
        headers = {"Accept": "application/json", **self._credentials()}
        return self.get(path, headers=headers, timeout_secs=timeout_secs)

    def _credentials(self) -> dict[str, str]:
        """Return the headers that say who asks. The file is read each time: tokens end and are replaced."""
        if self._token_file is None:
            return {}
        token = read_token(self._token_file)
        headers = {"X-SLURM-USER-TOKEN": token}
        user = user_of_token(token)
        if user is not None:
            headers["X-SLURM-USER-NAME"] = user
        return headers


def read_token(path: str) -> str:
    """Return the token in a file: alone, or as ``scontrol token`` prints it, behind ``SLURM_JWT=``.

    Raises SourceError, also where others than the owner may read the file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise SourceError(f"{path}: is no regular file")
            if stat.S_IMODE(found.st_mode) & 0o077:
                raise SourceError(f"{path}: others may read this token (chmod 600)")
            if found.st_uid not in {0, os.geteuid()}:
                raise SourceError(f"{path}: belongs to user {found.st_uid}")
            data = os.read(descriptor, MAX_TOKEN_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    token = data.decode("ascii", "replace").strip().removeprefix("SLURM_JWT=")
    if not _TOKEN.match(token):
        raise SourceError(f"{path}: holds no token")
    return token


def user_of_token(token: str) -> str | None:
    """Return the user whom a token names, None where it names none. It is told, not believed, here.

    Source: https://slurm.schedmd.com/jwt.html: the claim ``sun``.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    name = claims.get("sun", claims.get("username")) if isinstance(claims, dict) else None
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9._@-]{1,255}", name) else None
