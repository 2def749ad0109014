"""A client of slurmrestd: HTTP over a UNIX socket or TCP, bounded in time and size. Asks, never changes.

Source: https://slurm.schedmd.com/rest.html. Over its socket slurmrestd knows
the asking user by the kernel's word; over TCP a token has to say who it is.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import ssl
import stat
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from jobfeatures.errors import SourceError, shown

MAX_TOKEN_BYTES = 16384
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,16000}\Z")


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: HTTP's status and the body."""

    status: int
    body: bytes


class RestClient:
    """Sends GET requests, each over a connection of its own, redirects not followed."""

    def __init__(self, url: str, *, token_file: str | None = None, max_bytes: int = 32 * 2**20) -> None:
        """`url` is ``unix:/path``, ``http://host:port`` or ``https://host:port``. Raises SourceError."""
        self.name = url
        self._token_file = token_file
        self._max_bytes = max_bytes
        self._path: str | None = None
        self._prefix = ""
        if url.startswith("unix:/"):
            self._path = url.removeprefix("unix:")
            return
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise SourceError(str(error)) from error
        if parts.scheme not in {"http", "https"} or not host or parts.username or parts.query:
            raise SourceError(f"not unix:/PATH, http://HOST:PORT or https://HOST:PORT: {shown(url)}")
        self._host, self._port, self._tls = host, port, parts.scheme == "https"
        self._prefix = parts.path.rstrip("/")

    def get(self, path: str, *, timeout_secs: float) -> Response:
        """Ask for a path. Raises SourceError where there is no answer, or none that fits into the bounds."""
        deadline = time.monotonic() + timeout_secs
        headers = {"Accept": "application/json", **self._credentials()}
        connection = self._connection(timeout_secs)
        try:
            connection.request("GET", self._prefix + path, headers=headers)
            answer = connection.getresponse()
            return Response(answer.status, self._read(connection, answer, deadline))
        except TimeoutError:
            raise SourceError(f"{self.name}: no answer after {timeout_secs:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise SourceError(f"{self.name}: {reason}") from error
        finally:
            connection.close()

    def _read(
        self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, deadline: float
    ) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if connection.sock is not None:
                connection.sock.settimeout(left)  # of one read: the deadline bounds them all
            chunk = answer.read1(65536)
            if not chunk:
                if answer.length:
                    raise http.client.IncompleteRead(b"", answer.length)
                return b"".join(chunks)
            size += len(chunk)
            if size > self._max_bytes:
                raise SourceError(f"{self.name}: more than {self._max_bytes} bytes of answer")
            chunks.append(chunk)

    def _connection(self, timeout_secs: float) -> http.client.HTTPConnection:
        if self._path is not None:
            return _UnixConnection(self._path, timeout_secs)
        if self._tls:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_secs, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_secs)

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


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_secs: float) -> None:
        super().__init__("localhost", timeout=timeout_secs)
        self._socket_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._socket_path)


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
