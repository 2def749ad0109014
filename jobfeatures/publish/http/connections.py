"""Connections that cost nobody else anything: bounded in number, time, and the size of what they say.

aiohttp's own pages for requests that it cannot understand get an empty body.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

log = logging.getLogger(__name__)

IDLE_SECS = 15.0  # without an answer: a client that is slow, or silent, or does not read
LOOK_SECS = 1.0
MAX_LINE_BYTES = 2048
MAX_HEADER_BYTES = 4096
LINGER_SECS = 1.0


class Connection(RequestHandler):
    """One connection. `answered_at` is the loop's time of its last answer, at first of its beginning."""

    __slots__ = ("answered_at",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.answered_at = self._loop.time()
        super().connection_made(transport)

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
        response = web.Response(
            status=status, headers={"Content-Type": "text/plain", "Server": "jobfeatures"}
        )
        response.force_close()
        return response


class Server(web.Server):
    """Makes connections. Where there are too many, the one that waits longest for nothing is ended."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        max_connections: int,
        *,
        idle_secs: float = IDLE_SECS,
    ) -> None:
        super().__init__(
            handler,
            access_log=None,
            keepalive_timeout=idle_secs,
            lingering_time=LINGER_SECS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            auto_decompress=False,
        )
        self._max_connections = max_connections
        self._idle_secs = idle_secs
        self._open: dict[RequestHandler, asyncio.Transport] = {}

    def __call__(self) -> RequestHandler:
        """Make a connection; called by the event loop."""
        return Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count it in."""
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if len(self._open) > self._max_connections:
            self._end(min(self._open, key=_answered_at))

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Count it out."""
        self._open.pop(handler, None)
        super().connection_lost(handler, exc)

    async def watch(self) -> None:
        """End connections that have not been answered for too long, for ever."""
        while True:
            await asyncio.sleep(min(LOOK_SECS, self._idle_secs))
            oldest = self._loop.time() - self._idle_secs
            for handler in [each for each in self._open if _answered_at(each) < oldest]:
                self._end(handler)

    def _end(self, handler: RequestHandler) -> None:
        transport = self._open.pop(handler, None)
        if transport is not None:
            transport.abort()  # not close(): that would wait for a client who does not read


def _answered_at(handler: RequestHandler) -> float:
    answered_at: float = getattr(handler, "answered_at", 0.0)
    return answered_at
