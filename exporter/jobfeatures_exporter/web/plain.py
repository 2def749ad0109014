"""Answers requests of the simple form that scrapers send, without a web framework.

A connection's first other request, and all that follow it, go to aiohttp. That takes 16 MiB and 0.2 s to
import, so it is imported for the first such request: most nodes are only ever scraped.
Sources: RFC 9110, RFC 9112 (a subset of them).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from jobfeatures.publish.http.connectiontable import END_LOOK_SECS, ConnectionTable, client_of
from jobfeatures_exporter.web.admission import ALWAYS, Admission
from jobfeatures_exporter.web.answers import TEXT, Answer, Answerer

if TYPE_CHECKING:
    from jobfeatures.publish.http.connections import Server

log = logging.getLogger(__name__)

# One read from the socket yields exactly one whole request; no header is repeated.
_REQUEST = re.compile(
    rb"GET (/[!-~]*) HTTP/1\.1\r\n((?:[A-Za-z-]{1,64}: [!-~](?:[ -~]*[!-~])?\r\n){1,16})\r\n"
)
_FIELDS = frozenset(
    ("host", "user-agent", "accept", "accept-encoding", "connection", "x-prometheus-scrape-timeout-seconds")
)
_CONNECTION = {"": False, "keep-alive": False, "close": True}  # whether it closes after the answer


class Request(NamedTuple):
    """A request answered here; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    is_last: bool


def parse_request(data: bytes, header_bytes: int) -> Request | None:
    """Return a scraper's request; None for anything that aiohttp has to parse."""
    found = _REQUEST.fullmatch(data) if len(data) <= header_bytes else None
    if found is None:
        return None
    lines = found[2].decode("ascii").split("\r\n")[:-1]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    is_last = _CONNECTION.get(headers.get("connection", "").lower())
    if len(headers) < len(lines) or "host" not in headers or is_last is None or not headers.keys() <= _FIELDS:
        return None
    return Request(found[1].decode("ascii"), headers, is_last)


def format_answer(answer: Answer, now_secs: float, *, is_last: bool) -> bytes:
    """Return the bytes of an answer dated `now_secs` (Unix time)."""
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now_secs))  # in locale C: none is set
    fields = {**answer.headers, **ALWAYS, "Content-Length": len(answer.body), "Date": date}
    if is_last:
        fields["Connection"] = "close"
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{head}\r\n".encode() + answer.body


class PlainListener:
    """Makes connections that answer the paths in `answerers`; `make` makes the server for the rest."""

    def __init__(
        self,
        answerers: Mapping[str, Answerer],
        admission: Admission,
        table: ConnectionTable,
        make: Callable[[ConnectionTable], Awaitable[Server]],
        header_bytes: int,
    ) -> None:
        self.answerers = answerers
        self.admission = admission
        self.table = table
        self.header_bytes = header_bytes
        self.working: set[asyncio.Task[None]] = set()
        self.server: Server | None = None  # once a request has needed it
        self._make = make
        self._making = asyncio.Lock()

    def __call__(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        return _PlainConnection(self)

    async def find_server(self) -> Server:
        """Return the web server, making it on first use."""
        async with self._making:
            if self.server is None:
                self.server = await self._make(self.table)
        return self.server

    async def shutdown(self, timeout: float | None = None) -> None:
        """End all connections; new ones, and those awaiting an answer, get `timeout` seconds first."""
        await self.table.drain(timeout)
        for task in self.working:
            task.cancel()
        if self.server is not None:
            await self.server.shutdown(END_LOOK_SECS)
        self.table.end_all()


class _PlainConnection(asyncio.Protocol):
    """A connection that handles one request at a time: reading pauses meanwhile."""

    def __init__(self, listener: PlainListener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.answered_at = self._loop.time()
        self.head_since: float | None = None  # always None: a head arrives whole, or aiohttp reads it
        self.is_owed = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # of a stream
        self._transport = transport
        self._listener.table.count_in(self, transport, is_new=True)

    def connection_lost(self, exc: BaseException | None) -> None:
        del exc
        self._listener.table.count_out(self)
        self._may_write.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        self._transport.pause_reading()
        self.is_owed = True
        request = parse_request(data, self._listener.header_bytes)
        answerer = None if request is None else self._listener.answerers.get(request.path)
        if request is None or answerer is None:
            work = self._hand_over(data)
        else:
            work = self._answer(request, answerer)
        task = self._loop.create_task(work)
        self._listener.working.add(task)
        task.add_done_callback(self._listener.working.discard)

    async def _answer(self, request: Request, answerer: Answerer) -> None:
        listener = self._listener
        refusal = listener.admission.refusal(
            client_of(self._transport), request.headers["host"], self._loop.time()
        )
        if refusal is not None:
            answer = Answer(refusal.status, refusal.text.encode(), {**TEXT, **refusal.headers})
        else:
            try:
                answer = await answerer(request.headers)
            except Exception:
                log.exception("request failed")
                answer = Answer(500, b"", TEXT)
        self.answered_at = self._loop.time()
        listener.table.answers[answer.status] += 1
        if self._transport.is_closing():
            return
        is_last = request.is_last or answer.status == 500 or listener.table.is_ending
        listener.table.make_room(len(answer.body))
        self._transport.write(format_answer(answer, time.time(), is_last=is_last))
        self.is_owed = False
        if is_last:
            self._transport.close()
            return
        await self._may_write.wait()  # no further request is read until the client has read this answer
        self._transport.resume_reading()

    async def _hand_over(self, data: bytes) -> None:
        """Hand this connection, and the data received, over to the web server."""
        try:
            server = await self._listener.find_server()
        except Exception:  # a damaged installation: scrapes still work
            log.exception("the web server cannot be started")
            self._transport.abort()
            return
        if self._transport.is_closing():
            return
        self._listener.table.count_out(self)
        connection = server.new_connection()
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        self._transport.resume_reading()
        connection.data_received(data)
