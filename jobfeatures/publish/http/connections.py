"""Limits HTTP connections in number, duration and request size, so that no client can starve the others.

A connection counts from the moment it is accepted: the TLS handshake is done here, not by the event loop,
which would not report one that never completes. When thousands of clients connect at once, few handshakes run
at a time: in parallel, each would take as long as all of them.

Received data goes to a protocol object of the web server, made for the first request that needs it. What the
server sends passes through here: its error pages for malformed requests, which quote the client and tell the
server's version, are replaced by empty answers. This module does not import the web server.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jobfeatures.publish.http.connectiontable import (
    END_LOOK_SECS,
    HANDSHAKE,
    NOT_ADMITTED,
    ConnectionTable,
    client_of,
)

if TYPE_CHECKING:  # most nodes are only ever scraped, which needs no web server
    from aiohttp.web import Server

log = logging.getLogger(__name__)

HANDSHAKE_SECS = 5.0  # timeout, from the start of the handshake's turn
TURNS = 64  # handshakes at a time
TURN_SECS = 1.0  # after which the next handshake starts anyway: a slow client does not hold up the others
TLS_SHUTDOWN_SECS = 2.0
T = TypeVar("T")
IDLE_LOOKS = 5  # of a client that has closed its side, before it is taken to be owed nothing more


class Tls(Protocol):
    """Supplies the TLS settings of each new connection."""

    @property
    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection; a changed certificate may be loaded first."""

    def admits(self, spoken: ssl.SSLObject) -> bool:
        """Return whether to keep a connection after its handshake, judged by the client's certificate.

        `spoken` is the connection's TLS object.
        """


WholeAnswer = tuple[bytes, bool]  # all of it, and whether the connection ends after it
Quick = Callable[[bytes, asyncio.Transport], Coroutine[Any, Any, WholeAnswer] | None]


def format_answer(status: int, fields: Mapping[str, object], body: bytes, *, is_last: bool) -> bytes:
    """Return an HTTP answer as bytes; `fields` are its headers, to which Date and Content-Length are added.

    `is_last` tells the client that the connection is closed after it.
    """
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())  # in locale C: none is set
    headers = {**fields, "Content-Length": len(body), "Date": date}
    if is_last:
        headers["Connection"] = "close"
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{head}\r\n".encode() + body


class Connections:
    """The connections of one listener: makes a protocol object for each, and closes all when it ends."""

    def __init__(
        self,
        table: ConnectionTable,
        tls: Tls | None = None,
        *,
        server: Server | None = None,
        make: Callable[[], Awaitable[Server]] | None = None,
        quick: Quick = lambda _data, _transport: None,
        admits: Callable[[asyncio.Transport], bool] = lambda _transport: True,
    ) -> None:
        """`make` makes the web server if it is not given; `admits` says whether to take a connection at all.

        `quick` answers a request without the web server; None if it cannot. Of a connection it gets all that
        is received, one reading after the other, up to the first that it cannot answer.
        """
        self.table = table
        self.tls = tls
        self.quick = quick
        self.admits = admits
        self.server = server  # None until a request needs it
        self._make = make
        self._making = asyncio.Lock()
        self._working: set[asyncio.Task[Any]] = set()
        self.turns = asyncio.Semaphore(TURNS)  # of handshakes, first come, first served

    def __call__(self) -> asyncio.BaseProtocol:
        """Return a protocol for a new connection; the event loop calls this for each one accepted."""
        return Connection(self)

    async def find_server(self) -> Server:
        """Return the web server, making it on first use."""
        async with self._making:
            if self.server is None:
                assert self._make is not None  # noqa: S101  # else it is given
                self.server = await self._make()
        return self.server

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a task of a connection in the background; it is cancelled when the listener ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    async def shutdown(self, timeout: float | None = None) -> None:
        """Close all connections; those that await a request or an answer have `timeout` seconds left."""
        await self.table.drain(timeout)
        for task in list(self._working):
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        if self.server is not None:
            await self.server.shutdown(END_LOOK_SECS)
        self.table.end_all()


class Connection(asyncio.Protocol):
    """One connection: does its TLS handshake, answers simple requests, passes others to the web server."""

    def __init__(self, listener: Connections) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._held = bytearray()  # received before it can be answered
        self._is_ready = False  # its handshake is done
        self._is_full = False  # the client does not read what it is sent
        self.web: asyncio.Protocol | None = None  # the web server's protocol, once it is needed
        self.answered_at = self._loop.time()
        self.head_since: float | None = None
        self._is_silent = True  # nothing has been received yet, but for its handshake
        self._is_half_closed = False  # nothing more will be received
        self._has_body: Callable[[], bool] | None = None  # all of the body of the request being answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, and start its handshake."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # of a stream
        self.transport = transport
        if not self._listener.admits(transport):
            transport.abort()
            return
        self._listener.table.count_in(self, transport)
        if self._listener.tls is None:
            self._is_ready = True
        elif not transport.is_closing():
            self._listener.start(self._shake_hands(transport, self._listener.tls))

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the table."""
        self._listener.table.count_out(self)
        if self.web is not None:
            self.web.connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that the client does not read what it is sent; the web server waits."""
        self._is_full = True
        if self.web is not None:
            self.web.pause_writing()

    def resume_writing(self) -> None:
        """Go on with the rest of an answer, or with further requests: the client has read enough."""
        self._is_full = False
        if self.web is not None:
            self.web.resume_writing()
        else:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Answer requests at once where possible, else hand the data to the web server."""
        if not self._is_ready:
            self._held += data  # along with the end of its handshake: one reading of the socket at most
            return
        self._is_silent = False
        if self.web is not None:
            self._tell_web(data)
        elif (answer := self._listener.quick(data, self.transport)) is not None:
            self._work(self._answer(answer))
        elif self._listener.server is not None:
            self._hand_over(self._listener.server, data)
        else:
            self._work(self._start_web(data))

    def eof_received(self) -> bool:
        """Return whether to keep the connection, half closed: requests on it are still to be answered."""
        if self._listener.tls is not None or not self.awaits_answer:
            return False
        self._is_half_closed = True
        self._end_once_answered(0)
        return not self.transport.is_closing()

    @property
    def awaits_answer(self) -> bool:
        """Return whether the client waits for an answer, or has not sent its first request yet."""
        return self._is_silent or self.head_since is not None or self._has_body is not None

    def begin_answer(self, has_body: Callable[[], bool]) -> None:
        """Note that a request is being answered; `has_body` tells whether all of its body has come."""
        self.head_since = None
        self._has_body = has_body
        if self._is_half_closed and not has_body():
            self.close()  # at once: what waits for its body holds the job's place

    def end_answer(self) -> None:
        """Note that the answer has been sent."""
        self._has_body = None

    def send(self, chunks: Iterable[bytes]) -> None:
        """Send the web server's answer to a request.

        If no request is being answered, the data is an error page of the server: 400 is sent instead.
        """
        if self._has_body is not None:
            self.transport.write(b"".join(chunks))  # writelines ignores limits up to Python 3.12.8
        elif not self.transport.is_closing():
            self._listener.table.answers[400] += 1
            fields = {"Content-Type": "text/plain", "Server": "jobfeatures"}
            self.transport.write(format_answer(400, fields, b"", is_last=True))
            self.close()

    def close(self) -> None:
        """Close the connection once all is sent.

        It is closed only once, since Python 3.11.2 cannot abort a connection that was closed twice.
        """
        if not self.transport.is_closing():
            self.transport.close()

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        """Read nothing while this is done."""
        self.transport.pause_reading()
        self.begin_answer(lambda: True)
        self._listener.start(work)

    async def _answer(self, awaited: Awaitable[WholeAnswer]) -> None:
        data, is_last = await awaited
        self.answered_at = self._loop.time()
        self.end_answer()
        if self.transport.is_closing():
            return
        self.transport.write(data)
        if is_last:
            self.close()
        elif not self._is_full:  # else once the client has read this answer
            self.transport.resume_reading()

    async def _start_web(self, data: bytes) -> None:
        try:
            server = await self._listener.find_server()
        except Exception:  # a damaged installation: quick answers still work
            log.exception("the web server cannot be started")
            self.transport.abort()
            return
        self.end_answer()
        if not self.transport.is_closing():
            self._hand_over(server, data)
            self.transport.resume_reading()

    def _hand_over(self, server: Server, data: bytes) -> None:
        self.web = server()
        self.web.connection_made(_Outlet(self))  # type: ignore[arg-type]  # it passes for a transport
        self._tell_web(data)

    def _tell_web(self, data: bytes) -> None:
        assert self.web is not None  # noqa: S101
        if self.head_since is None and self._has_body is None:
            self.head_since = self._loop.time()
        self.web.data_received(data)

    def _end_once_answered(self, idle_checks: int) -> None:
        """Close once nothing has been answered or sent for a while: which request is last is unknown."""
        if self.transport.is_closing():
            return
        is_busy = self._has_body is not None or self.transport.get_write_buffer_size()
        is_cut = self._has_body is not None and not self._has_body()
        if not is_cut and (is_busy or idle_checks < IDLE_LOOKS):
            checks = 0 if is_busy else idle_checks + 1
            self._loop.call_later(END_LOOK_SECS, self._end_once_answered, checks)
        else:
            self.close()

    async def _shake_hands(self, transport: asyncio.Transport, tls: Tls) -> None:
        # Only the handshake may read. Up to Python 3.11.2 the event loop starts reading after
        # `connection_made`, paused or not; this runs after that, and before anything has been read.
        transport.pause_reading()
        table, spoken = self._listener.table, None
        try:
            async with self._listener.turns:
                if transport.is_closing():  # it was closed meanwhile
                    return
                shaking = self._listener.start(
                    self._loop.start_tls(
                        transport,
                        self,
                        tls.context,
                        server_side=True,
                        ssl_handshake_timeout=HANDSHAKE_SECS,
                        ssl_shutdown_timeout=TLS_SHUTDOWN_SECS,
                    )
                )
                await asyncio.wait([shaking], timeout=TURN_SECS)
            spoken = await shaking
        except (Exception, asyncio.CancelledError) as error:  # close the connection in any case
            if isinstance(error, OSError):
                table.ended[HANDSHAKE] += 1
                log.debug("TLS handshake failed: %s", error, extra={"client": client_of(transport)})
            elif not isinstance(error, asyncio.CancelledError):
                log.exception("TLS handshake failed unexpectedly")
            transport.abort()
        if spoken is None:
            table.count_out(self)
            return
        if spoken.is_closing():
            return
        self.transport = spoken
        table.carry_on(self, spoken)
        if not tls.admits(spoken.get_extra_info("ssl_object")):
            table.ended[NOT_ADMITTED] += 1
            spoken.abort()
            return
        self.answered_at = self._loop.time()
        self._is_ready = True
        if self._held:
            self.data_received(bytes(self._held))


class _Outlet:
    """The transport that the web server's protocol sees."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection.transport, name)

    def close(self) -> None:
        self.connection.close()

    def write(self, data: bytes) -> None:
        self.connection.send((data,))

    def writelines(self, chunks: Iterable[bytes]) -> None:
        self.connection.send(chunks)
