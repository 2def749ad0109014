"""Answers requests with aiohttp, on the bounded connections of a listener."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from aiohttp import HttpVersion10, HttpVersion11, web

from jobfeatures.publish.http.connections import Connection, Connections, Tls
from jobfeatures.publish.http.connectiontable import ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.opening import Where, accepting

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 2048
MAX_HEADERS = 64
LINGER_SECS = 1.0
ALWAYS = {"Server": "jobfeatures", "X-Content-Type-Options": "nosniff"}  # aiohttp would tell versions
_SILENT = logging.Logger("of aiohttp", logging.CRITICAL + 1)  # it would log every malformed request

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Refused(Exception):  # noqa: N818  # an answer, not a failure
    """Raised to refuse a request, with the status, reason and headers of the answer."""

    def __init__(self, status: int, reason: str = "", **headers: str) -> None:
        """Headers are given as keyword arguments, with underscores for dashes."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self) -> web.Response:
        """Return the answer. It closes the connection, since the rest of the request's body is not read."""
        text = f"{self.reason}\n" if self.reason else ""
        headers = {"Cache-Control": "no-store", **self.headers}
        response = web.Response(status=self.status, text=text, headers=headers)
        response.force_close()
        return response


class Listener(Protocol):
    """Something that answers requests at an address of its own, the value of the setting `key`."""

    key: str
    limits: ConnectionLimits

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the answer to a request. Raises Refused to refuse it."""

    def close(self) -> None:
        """Release the listener's resources; called once, after its last request."""


def make_server(
    handler: Handler, limits: ConnectionLimits, table: ConnectionTable, **more: Any
) -> web.Server:
    """Return a web server that answers with `handler`, within `limits`, and counts its answers in `table`.

    `more` is passed to aiohttp's server.
    """

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.transport is None:  # the client has gone
            return web.Response(status=503)
        connection: Connection = request.transport.connection  # type: ignore[attr-defined]  # of its outlet
        connection.begin_answer(request.content.is_eof)
        response: web.StreamResponse
        try:
            if request.version in (HttpVersion10, HttpVersion11):
                response = await handler(request)
            else:
                response = Refused(400).response()
        except web.HTTPException as raised:
            response = raised
        except Refused as refused:
            response = refused.response()
        except Exception:
            log.exception("an HTTP request failed unexpectedly")
            response = Refused(500).response()
        connection.answered_at = asyncio.get_running_loop().time()
        table.answers[response.status] += 1
        table.make_room(response.content_length or 0)
        for name, value in ALWAYS.items():
            response.headers.setdefault(name, value)
        if table.is_ending:
            response.force_close()
        await response.prepare(request)  # here, to know when all is sent
        await response.write_eof()
        connection.end_answer()
        if isinstance(response, web.HTTPException):
            raise response
        return response

    return web.Server(
        answer,
        access_log=None,
        logger=_SILENT,
        keepalive_timeout=limits.idle_secs,
        lingering_time=LINGER_SECS,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=limits.header_bytes,
        max_headers=MAX_HEADERS,
        auto_decompress=False,
        **more,
    )


async def read_body(request: web.BaseRequest, *, most_bytes: int, within_secs: float) -> bytes:
    """Return a request's body, at most `most_bytes` long and received within `within_secs`.

    Raises Refused if it is too large, too slow or incomplete. A client that asks before it sends the body, as
    curl does with a large one, gets 100 Continue.
    """
    too_large = Refused(413, f"a body has at most {most_bytes} bytes")
    if (request.content_length or 0) > most_bytes:
        raise too_large
    content = bytearray()
    try:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # else it would pass for the begin of the answer
        async with asyncio.timeout(within_secs):
            while len(content) <= most_bytes and (chunk := await request.content.readany()):
                content += chunk
    except TimeoutError:
        raise Refused(408, f"the body took longer than {within_secs:g} seconds") from None
    except (web.RequestPayloadError, ConnectionError):
        raise Refused(400, "the connection ended before the whole body came") from None
    if len(content) > most_bytes:
        raise too_large
    return bytes(content)


@contextlib.asynccontextmanager
async def listening(
    listener: Listener, where: Where, tls: Tls | None = None, *, table: ConnectionTable | None = None
) -> AsyncIterator[str]:
    """Answer requests with `listener` during the `with` block; yield the address that is listened on.

    `where` is an address, or sockets that listen already; `tls` None: no TLS. `table` counts the connections,
    if the caller wants to know them. Raises ConfigurationError if the address cannot be bound.
    """
    table = table or ConnectionTable(listener.limits)
    server = make_server(listener.handle, listener.limits, table)
    connections = Connections(table, tls, server=server)
    try:
        async with accepting(connections, where, key=listener.key) as address:
            yield address
    finally:
        listener.close()
