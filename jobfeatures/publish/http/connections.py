"""Connections that cost nobody else anything: bounded in number, time, and the size of what they say.

aiohttp's own pages for requests that it cannot understand get an empty body. A connection counts from the
moment it is accepted: TLS is agreed on here, and not by the event loop, which would not report one that never
gets done. Thousands that come at once are greeted in turn: side by side, each handshake would take as long as
all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from jobfeatures.publish.http.connectiontable import (
    END_LOOK_SECS,
    HANDSHAKE,
    NOT_ADMITTED,
    ConnectionLimits,
    ConnectionTable,
    client_of,
)

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 2048
MAX_HEADERS = 64
LINGER_SECS = 1.0
HANDSHAKE_SECS = 5.0  # from the beginning of its turn
TURNS = 64  # handshakes that go on at once
TURN_SECS = 1.0  # after which the next one begins all the same: nobody waits for a client that is slow
TLS_SHUTDOWN_SECS = 2.0


class Tls(Protocol):
    """What decides how TLS is spoken, for each connection anew."""

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now."""

    def admits(self, spoken: ssl.SSLObject) -> bool:
        """Return whether a client may stay whose handshake is done."""


class Connection(RequestHandler):
    """One connection that speaks HTTP."""

    __slots__ = ("answered_at", "head_since", "is_new")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.answered_at = self._loop.time()
        self.head_since: float | None = None
        self.is_new = True  # nothing has been asked yet
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Note when a request begins to come in."""
        self.is_new = False
        if self.head_since is None and data and self._current_request is None:
            self.head_since = self._loop.time()
        super().data_received(data)

    @property
    def is_owed(self) -> bool:
        """Return whether an answer is still to come: one that was asked for, or the first one."""
        is_asking = self.is_new or self.head_since is not None
        return is_asking or self._current_request is not None or bool(self._messages)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.Response:
        """Return an empty answer, the last one."""
        del request, message
        if status == 500:
            log.error("request failed", exc_info=exc)
        if isinstance(self._manager, Server):
            self._manager.table.answers[status] += 1
        response = web.Response(
            status=status, headers={"Content-Type": "text/plain", "Server": "jobfeatures"}
        )
        response.force_close()
        return response


class Server(web.Server):
    """Makes connections, which `table` has."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limits: ConnectionLimits,
        tls: Tls | None = None,
        table: ConnectionTable | None = None,
        *,
        is_behind: bool = False,
        **more: object,
    ) -> None:
        """Let `handler` answer; `more` is for aiohttp's server.

        `is_behind`: connections are in the table before they come here.
        """
        super().__init__(
            self._answer,
            access_log=None,
            keepalive_timeout=limits.idle_secs,
            lingering_time=LINGER_SECS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=limits.header_bytes,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            **more,  # type: ignore[arg-type]
        )
        self.table = table or ConnectionTable(limits)
        self._handler = handler
        self._tls = tls
        self._is_first = tls is None and not is_behind  # behind TLS they have been asked at their beginning
        self._greeting: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(TURNS)

    def __call__(self) -> RequestHandler:
        """Make what begins a connection; called by the event loop."""
        if self._tls is not None:
            return _Greeting(self, self._tls)  # type: ignore[return-value]  # a protocol, in any case
        return self.new_connection()

    def new_connection(self) -> Connection:
        """Return a connection that speaks HTTP."""
        return Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count it in."""
        super().connection_made(handler, transport)
        self.table.count_in(handler, transport, is_new=self._is_first)  # type: ignore[arg-type]

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Count it out."""
        self.table.count_out(handler)  # type: ignore[arg-type]
        super().connection_lost(handler, exc)

    def greet(self, greeting: Awaitable[None]) -> None:
        """Agree on TLS in the background."""
        task = asyncio.ensure_future(greeting)
        self._greeting.add(task)
        task.add_done_callback(self._greeting.discard)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait, first come, first served, until a handshake may begin; it holds up others for TURN_SECS."""
        await self._turns.acquire()
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._turns.release()

        ending = self._loop.call_later(TURN_SECS, end)
        try:
            yield
        finally:
            ending.cancel()
            end()

    async def shutdown(self, timeout: float | None = None) -> None:
        """End all connections; who has just connected, or waits for an answer, has so long."""
        await self.table.drain(timeout)
        for task in list(self._greeting):
            task.cancel()
        await asyncio.gather(*self._greeting, return_exceptions=True)
        await super().shutdown(END_LOOK_SECS)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        connection.head_since = None  # type: ignore[attr-defined]  # it is a Connection
        try:
            response = await self._handler(request)
        except web.HTTPException as answer:
            self.table.answers[answer.status] += 1
            raise
        finally:
            connection.answered_at = self._loop.time()  # type: ignore[attr-defined]
        self.table.answers[response.status] += 1
        self.table.make_room(response.content_length or 0)
        if self.table.is_ending:
            response.force_close()
        return response


class _Greeting(asyncio.Protocol):
    """A connection until TLS is agreed on."""

    is_owed = True

    def __init__(self, server: Server, tls: Tls) -> None:
        self._server = server
        self._tls = tls
        self.head_since: float | None = None
        self.answered_at = asyncio.get_running_loop().time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # of a stream
        self._server.table.count_in(self, transport, is_new=True)
        if not transport.is_closing():
            self._server.greet(self._greet(transport))

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count it no longer."""
        del exc
        self._server.table.count_out(self)

    async def _greet(self, transport: asyncio.Transport) -> None:
        # Nothing is read before the handshake does it. Up to Python 3.11.2 the event loop begins to read
        # after `connection_made`, paused or not; this comes behind that, and before anything was read.
        transport.pause_reading()
        waiting = _Waiting()
        try:
            async with self._server.turn():
                if transport.is_closing():  # it has been ended meanwhile
                    return
                spoken = await asyncio.get_running_loop().start_tls(
                    transport,
                    waiting,
                    self._tls.context,
                    server_side=True,
                    ssl_handshake_timeout=HANDSHAKE_SECS,
                    ssl_shutdown_timeout=TLS_SHUTDOWN_SECS,
                )
        except (Exception, asyncio.CancelledError) as error:  # whatever it was: nothing is left open
            if isinstance(error, OSError):
                self._server.table.ended[HANDSHAKE] += 1
                log.debug("TLS was not agreed on: %s", error, extra={"client": client_of(transport)})
            elif not isinstance(error, asyncio.CancelledError):
                log.exception("TLS failed")
            transport.abort()
            return
        finally:
            self._server.table.count_out(self)
        if spoken is None or waiting.is_lost:
            return
        if not self._tls.admits(spoken.get_extra_info("ssl_object")):
            self._server.table.ended[NOT_ADMITTED] += 1
            spoken.abort()
            return
        connection = self._server.new_connection()
        spoken.set_protocol(connection)
        connection.connection_made(spoken)
        if waiting.early:
            connection.data_received(bytes(waiting.early))


class _Waiting(asyncio.Protocol):
    """Keeps what a client sends with the last words of its handshake: one reading of the socket at most."""

    def __init__(self) -> None:
        self.early = bytearray()
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        """Keep it."""
        self.early += data

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note it."""
        del exc
        self.is_lost = True
