"""Asks the controller role about this node: over TLS, with the node's token, bounded in time and size."""

from __future__ import annotations

import http.client
import re
import ssl
import time
from dataclasses import replace
from urllib.parse import quote, urlsplit

from jobfeatures.batch.clocks import ClockDifference
from jobfeatures.batch.controller.answer import (
    CLOCK_HEADER,
    CLOCK_RESOLUTION_SECS,
    parse_answer,
    parse_clock,
)
from jobfeatures.batch.controller.credential import MAX_FILE_BYTES, parse_token
from jobfeatures.clock import Clock
from jobfeatures.errors import ParseError, SourceError, UnsafePathError, shown
from jobfeatures.model import JobTable
from jobfeatures.privatefile import read_private

MAX_BYTES = 32 * 2**20
_AGE = re.compile(r"[0-9]{1,9}")


class ControllerClient:
    """Asks, a connection a question, no redirect followed; what has not changed is not sent again."""

    def __init__(
        self,
        clock: Clock,
        url: str,
        *,
        node_name: str,
        token_file: str,
        ca_file: str | None = None,
        timeout_secs: float = 10.0,
    ) -> None:
        """`url` is ``https://HOST:PORT``; ``http`` is for tests on loopback."""
        parts = urlsplit(url)
        self.name = f"controller role {url}"
        self._clock = clock
        self._host, self._port, self._is_tls = parts.hostname or "", parts.port, parts.scheme == "https"
        self._path = f"{parts.path.rstrip('/')}/nodes/{quote(node_name, safe='')}"
        self._token_file = token_file
        self._ca_file = ca_file
        self._timeout_secs = timeout_secs
        self._etag: str | None = None
        self._latest: tuple[JobTable, str] | None = None
        self._difference = ClockDifference()

    def ask(self) -> JobTable:
        """Return what it tells, with the time by this node's clock at which it asked the batch system.

        Raises SourceError where it does not answer, or its own latest question had no answer.
        """
        try:
            table, problem = self._ask(time.monotonic() + self._timeout_secs)
        except ParseError as error:
            raise SourceError(f"{self.name}: {error}") from error
        except TimeoutError:
            raise SourceError(f"{self.name}: no answer after {self._timeout_secs:g} s") from None
        except (OSError, http.client.HTTPException, ValueError, UnsafePathError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise SourceError(f"{self.name}: {reason}") from error
        if problem:
            raise SourceError(f"{self.name} has had no answer since: {shown(problem)[1:-1]}")
        return table

    def _ask(self, deadline: float) -> tuple[JobTable, str]:
        # Read each time: a token is replaced while this runs.
        token = parse_token(read_private(self._token_file, MAX_FILE_BYTES), self._token_file)
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        if self._etag is not None:
            headers["If-None-Match"] = self._etag
        connection = self._connection()
        asked_at_secs = self._clock.now_secs()
        try:
            connection.request("GET", self._path, headers=headers)
            answer = connection.getresponse()
            answered_secs = self._clock.now_secs()
            body = _read(connection, answer, deadline)
        finally:
            connection.close()
        if answer.status not in (200, 304):
            raise SourceError(
                f"{self.name}: {answer.status} {shown(body[:200].decode('utf-8', 'replace').strip())}"
            )
        age = answer.getheader("Age", "")
        if _AGE.fullmatch(age) is None:
            raise ParseError("tells no age of its answer", text=age)
        taken_at_secs = asked_at_secs - int(age)
        if answer.status == 304 and self._latest is not None:
            table, problem = self._latest
        else:
            table, problem = parse_answer(body.decode("utf-8"), taken_at_secs=taken_at_secs)
            self._etag = answer.getheader("ETag")
        if (clock_secs := parse_clock(answer.getheader(CLOCK_HEADER))) is not None:
            self._difference.learn(
                clock_secs,
                asked_secs=asked_at_secs,
                answered_secs=answered_secs,
                resolution_secs=CLOCK_RESOLUTION_SECS,
            )
        ahead_secs = self._difference.ahead_secs
        self._latest = replace(table, taken_at_secs=taken_at_secs, clock_ahead_secs=ahead_secs), problem
        return self._latest

    def _connection(self) -> http.client.HTTPConnection:
        if not self._is_tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_secs)
        context = ssl.create_default_context(cafile=self._ca_file)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout_secs, context=context
        )


def _read(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, deadline: float) -> bytes:
    content = bytearray()
    while True:
        left_secs = deadline - time.monotonic()
        if left_secs <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left_secs)  # of one read: the deadline bounds them all
        chunk = answer.read1(65536)
        if not chunk:
            break
        content += chunk
        if len(content) > MAX_BYTES:
            raise ParseError(f"more than {MAX_BYTES} bytes")
    if answer.length:
        raise http.client.IncompleteRead(bytes(content), answer.length)
    return bytes(content)
