"""Sends HTTP and HTTPS GET requests, bounded in time and size, each on a connection of its own.

Redirects are not followed: one could leak a password. Proxies are not used: on a proxy's machine, an address
such as 127.0.0.1 would mean another server.
"""

from __future__ import annotations

import functools
import io
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from typing import Any
from urllib.parse import urlencode, urlsplit

from jobfeatures.errors import SourceError, shown

TIMEOUT_SECS = 30.0
MAX_BYTES = 256 * 2**20
MAX_ERROR_BYTES = 65536
HANDSHAKE_SECS = 2.0
UNKNOWN_ISSUER = {2, 18, 19, 20, 21}  # X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, …_SELF_SIGNED_CERT …
TLS_SPOKEN = "the server expects TLS: https:// instead of http://?"


class TlsSpokenError(SourceError):
    """The server at an http address speaks TLS: an https address may be meant."""


class HttpStatusError(SourceError):
    """The server answered with an error; `status` and `body` are those of its answer."""

    def __init__(self, url: str, status: int, reason: str, body: str) -> None:
        super().__init__(f"{url}: {status} {reason}: {shown(body[:200])}")
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response; `reason` is the phrase behind its status code."""

    status: int
    body: bytes
    reason: str = ""
    headers: HTTPMessage = field(default_factory=HTTPMessage)


class Server:
    """A server at ``http://HOST:PORT``, ``https://HOST:PORT`` or ``unix:/PATH``."""

    def __init__(self, url: str, *, name: str = "", max_bytes: int | None = None) -> None:
        """`name` is the server's name in errors (default: the URL). Raises SourceError for an invalid URL."""
        self.name = name or url
        self._max_bytes = max_bytes
        self._host, self._port, self._scheme = url.removeprefix("unix:"), None, "unix"
        self._prefix = ""
        if url.startswith("unix:/"):
            return
        try:
            parts = urlsplit(url)
            self._host, self._port, self._scheme = parts.hostname or "", parts.port, parts.scheme
        except ValueError as error:
            raise SourceError(f"{shown(url)}: {error}") from error
        if self._scheme not in {"http", "https"} or not self._host or parts.username or parts.query:
            raise SourceError(f"must be unix:/PATH, http://HOST:PORT or https://HOST:PORT, not {shown(url)}")
        self._prefix = parts.path

    def get(
        self,
        path: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        timeout_secs: float = TIMEOUT_SECS,
        context: ssl.SSLContext | None = None,
    ) -> Response:
        """GET a path below the server's URL. Raises SourceError if there is no answer within the limits."""
        deadline = time.monotonic() + timeout_secs
        try:
            connection = self._connection(timeout_secs, context)
            connection.response_class = functools.partial(_Response, deadline=deadline)  # type: ignore[assignment]
            try:
                target = (self._prefix.rstrip("/") if path.startswith("/") else self._prefix) + path
                connection.request("GET", target or "/", headers=dict(headers or {}))
                answer = connection.getresponse()
                body = self._read(answer)
            finally:
                connection.close()
        except TimeoutError:
            raise SourceError(f"{self.name}: no answer after {timeout_secs:g} s") from None
        except IncompleteRead:
            raise SourceError(
                f"{self.name}: the connection was closed before the end of the answer"
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, (ConnectionError, BadStatusLine)) and self.speaks_tls():
                raise TlsSpokenError(f"{self.name}: {TLS_SPOKEN}") from error
            raise SourceError(f"{self.name}: {_reason(error)}") from error
        if answer.status == HTTPStatus.BAD_REQUEST and self.speaks_tls():  # as Go, nginx and Apache tell it
            raise TlsSpokenError(f"{self.name}: {TLS_SPOKEN}")
        return Response(answer.status, body, answer.reason, answer.headers)

    def speaks_tls(self) -> bool:
        """Return whether the server at an http address completes a TLS handshake; no request is sent."""
        if self._scheme != "http":
            return False
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with socket.create_connection((self._host, self._port or 80), HANDSHAKE_SECS) as raw:
                context.wrap_socket(raw).close()
        except OSError:
            return False
        return True

    def _connection(self, timeout_secs: float, context: ssl.SSLContext | None) -> HTTPConnection:
        if self._scheme == "unix":
            return _UnixConnection(self._host, timeout_secs)
        if self._scheme == "https":
            context = context or ssl.create_default_context()
            return HTTPSConnection(self._host, self._port, timeout=timeout_secs, context=context)
        return HTTPConnection(self._host, self._port, timeout=timeout_secs)

    def _read(self, answer: HTTPResponse) -> bytes:
        max_bytes = self._max_bytes or MAX_BYTES
        content = bytearray()
        while chunk := answer.read1(2**18):
            content += chunk
            if len(content) > max_bytes:
                raise SourceError(f"{self.name}: the answer is larger than {max_bytes} bytes")
        if answer.length:  # read1() does not raise it
            raise IncompleteRead(b"", answer.length)
        return bytes(content)


class _Response(HTTPResponse):
    """A response of which head and body have to arrive by a deadline."""

    def __init__(self, sock: socket.socket, *arguments: Any, deadline: float, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_BoundedReader(self.fp.detach(), sock, deadline))


class _BoundedReader(io.RawIOBase):
    """Reads from a socket; its timeout is for one read, the deadline for all of them."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_secs = self._deadline - time.monotonic()
        if left_secs <= 0:
            raise TimeoutError
        self._sock.settimeout(left_secs)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _UnixConnection(HTTPConnection):
    def __init__(self, path: str, timeout_secs: float) -> None:
        super().__init__("localhost", timeout=timeout_secs)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _reason(error: Exception) -> str:
    """Return why there was no answer, and what to look at."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "; name its CA (ca-file)" if error.verify_code in UNKNOWN_ISSUER else ""
        return f"the server's certificate is refused: {error.verify_message}{hint}"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "the server does not use TLS: http:// instead of https://?"
    if isinstance(error, BadStatusLine) and not isinstance(error, RemoteDisconnected):
        return f"the server does not answer in HTTP, but with {shown(str(error))}"
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, ConnectionRefusedError):
        return f"{reason}; does the server run there?"
    return f"{reason}; is the host's name right?" if isinstance(error, socket.gaierror) else reason


def fetch_text(
    url: str,
    query: Mapping[str, str] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    timeout_secs: float = TIMEOUT_SECS,
) -> str:
    """Return the body of the answer to a GET request, with the parameters `query` appended to the URL.

    Raises SourceError if there is no answer, and HttpStatusError if its status is not 2xx.
    """
    path = f"?{urlencode(query)}" if query else ""
    answer = Server(url).get(path, headers=headers, timeout_secs=timeout_secs, context=context)
    text = answer.body.decode("utf-8", "replace")
    if not 200 <= answer.status < 300:
        raise HttpStatusError(url, answer.status, answer.reason, text[:MAX_ERROR_BYTES])
    return text
