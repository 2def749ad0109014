"""HTTP connections, bounded in number, duration and request size, so that no client can starve the others.

aiohttp's error pages for malformed requests are replaced by empty answers. A connection counts from the
moment it is accepted: the TLS handshake is done here, not by the event loop, which would not report one that
never completes. When thousands of clients connect at once, few handshakes run at a time: in parallel, each
would take as long as all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from aiohttp import HttpVersion10, HttpVersion11, StreamReader, web
from aiohttp.web_protocol import RequestHandler

from jobfeatures.publish.http.connectiontable import (
    END_LOOK_SECS,
    HANDSHAKE,
    NOT_ADMITTED,
    ConnectionLimits,
    ConnectionTable,
    client_of,
)
from jobfeatures.publish.http.opening import Where, accepting

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 2048
MAX_HEADERS = 64
LINGER_SECS = 1.0
HANDSHAKE_SECS = 5.0  # timeout, from the start of the handshake's turn
TURNS = 64  # handshakes at a time
TURN_SECS = 1.0  # after which the next handshake starts anyway: a slow client does not hold up the others
TLS_SHUTDOWN_SECS = 2.0


class Tls(Protocol):
    """Supplies the TLS settings of each new connection."""

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""

    def admits(self, spoken: ssl.SSLObject) -> bool:
        """Return whether to keep the connection of a client whose handshake is done."""


class Connection(RequestHandler):
    """One HTTP connection."""

    __slots__ = ("_last_body", "answered_at", "asks_no_more", "head_since", "is_silent")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Initialise the connection."""
        self.answered_at = self._loop.time()
        self.head_since: float | None = None
        self.is_silent = True  # nothing has been received yet
        self.asks_no_more = False  # it has closed its side
        self._last_body: StreamReader | None = None  # of the latest request
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Note when a request's first bytes arrive."""
        self.is_silent = False
        if self.head_since is None and data and self._current_request is None:
            self.head_since = self._loop.time()
        super().data_received(data)
        if self._messages:
            self._last_body = self._messages[-1][1]

    def eof_received(self) -> bool:  # type: ignore[override]  # aiohttp's own ends the connection
        """Return whether to keep the connection, half closed, for answers to requests that came whole."""
        is_busy = self._waiter is None or self._waiter.done()
        is_whole = self._last_body is not None and self._last_body.is_eof()
        is_tls = self.transport is None or self.transport.get_extra_info("ssl_object") is not None
        self.asks_no_more = is_busy and is_whole and not is_tls
        self.close_after_last()
        return self.asks_no_more

    def close_after_last(self) -> None:
        """If the client asks no more, and no further request waits, close after the current answer."""
        if self.asks_no_more and not self._messages:
            self.close()

    @property
    def is_owed(self) -> bool:
        """Return whether an answer is pending: to a request, or to the first request, which is awaited."""
        is_asking = self.is_silent or self.head_since is not None
        return is_asking or self._current_request is not None or bool(self._messages)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.Response:
        """Return an empty answer and close the connection."""
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
    """Creates connections and registers them in `table`."""

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
        """Answer with `handler`; `more` is passed to aiohttp's server.

        `is_behind`: another protocol registers connections in the table before they get here.
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
        self._is_first = tls is None and not is_behind  # otherwise the rate limit was applied before
        self._handshakes: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(TURNS)

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection; called by the event loop."""
        if self._tls is not None:
            return _Handshake(self, self._tls)  # type: ignore[return-value]  # a protocol, in any case
        return self.new_connection()

    def new_connection(self) -> Connection:
        """Return an HTTP connection."""
        return Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Register the connection in the table."""
        super().connection_made(handler, transport)
        self.table.count_in(handler, transport, is_new=self._is_first)  # type: ignore[arg-type]

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Remove the connection from the table."""
        self.table.count_out(handler)  # type: ignore[arg-type]
        super().connection_lost(handler, exc)

    def start_handshake(self, handshake: Awaitable[None]) -> None:
        """Run a TLS handshake in the background."""
        task = asyncio.ensure_future(handshake)
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait, first come, first served, for a handshake's turn, which lasts TURN_SECS at most."""
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
        """Close all connections; those that await a request or an answer have `timeout` seconds left."""
        await self.table.drain(timeout)
        for task in list(self._handshakes):
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        await super().shutdown(END_LOOK_SECS)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        connection.head_since = None  # type: ignore[attr-defined]  # it is a Connection
        connection.close_after_last()  # type: ignore[attr-defined]
        if request.version not in (HttpVersion10, HttpVersion11):
            return connection.handle_error(request, 400)
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


class _Handshake(asyncio.Protocol):
    """A connection until its TLS handshake is done."""

    is_owed = True

    def __init__(self, server: Server, tls: Tls) -> None:
        self._server = server
        self._tls = tls
        self.head_since: float | None = None
        self.answered_at = asyncio.get_running_loop().time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection and start its handshake."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # of a stream
        self._server.table.count_in(self, transport, is_new=True)
        if not transport.is_closing():
            self._server.start_handshake(self._run(transport))

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection from the table."""
        del exc
        self._server.table.count_out(self)

    async def _run(self, transport: asyncio.Transport) -> None:
        # Only the handshake may read. Up to Python 3.11.2 the event loop starts reading after
        # `connection_made`, paused or not; this runs after that, and before anything has been read.
        transport.pause_reading()
        early_data = _EarlyData()
        try:
            async with self._server.turn():
                if transport.is_closing():  # it was closed meanwhile
                    return
                spoken = await asyncio.get_running_loop().start_tls(
                    transport,
                    early_data,
                    self._tls.context,
                    server_side=True,
                    ssl_handshake_timeout=HANDSHAKE_SECS,
                    ssl_shutdown_timeout=TLS_SHUTDOWN_SECS,
                )
        except (Exception, asyncio.CancelledError) as error:  # close the connection in any case
            if isinstance(error, OSError):
                self._server.table.ended[HANDSHAKE] += 1
                log.debug("TLS handshake failed: %s", error, extra={"client": client_of(transport)})
            elif not isinstance(error, asyncio.CancelledError):
                log.exception("TLS failed")
            transport.abort()
            return
        finally:
            self._server.table.count_out(self)
        if spoken is None or early_data.is_lost:
            return
        if not self._tls.admits(spoken.get_extra_info("ssl_object")):
            self._server.table.ended[NOT_ADMITTED] += 1
            spoken.abort()
            return
        connection = self._server.new_connection()
        spoken.set_protocol(connection)
        connection.connection_made(spoken)
        if early_data.received:
            connection.data_received(bytes(early_data.received))


class _EarlyData(asyncio.Protocol):
    """Buffers what a client sends along with the end of its handshake: one read of the socket at most."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        """Buffer the data."""
        self.received += data

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note that the connection is lost."""
        del exc
        self.is_lost = True


class Listener(Protocol):
    """Answers requests at an address of its own, the value of the setting `key`."""

    key: str
    limits: ConnectionLimits

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""

    def close(self) -> None:
        """Release what answering needs: there will be no further request."""


@contextlib.asynccontextmanager
async def listening(
    listener: Listener,
    where: Where,
    tls: Tls | None = None,
    *,
    on_open: Callable[[ConnectionTable], None] = lambda _connections: None,
) -> AsyncIterator[str]:
    """Answer requests until the context is left; yields the listening address.

    `on_open` receives the table of connections. Raises ConfigurationError if the address cannot be bound.
    """
    server = Server(listener.handle, listener.limits, tls)
    on_open(server.table)
    try:
        async with accepting(server, where, key=listener.key) as address:
            yield address
    finally:
        listener.close()
