"""Serves a UNIX socket that anybody may open and that shows each caller their own jobs only.

The kernel identifies the caller (SO_PEERCRED) in our user namespace: a uid that is not mapped there appears
as the overflow uid and is refused, and so is a caller whose user namespace maps uids differently from ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from aiohttp import web

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish.http.connections import Connections
from jobfeatures.publish.http.connectiontable import IDLE_SECS, ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.opening import accepting
from jobfeatures.publish.http.webserver import Refused
from jobfeatures.system.lookups import user_names
from jobfeatures.system.rates import Rates
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.privacy.own import COLLECTORS, make_own_context
from jobfeatures_exporter.scrape.collectors import collect
from jobfeatures_exporter.web.answers import WebAnswer, choose_kind, make_metrics
from jobfeatures_exporter.web.app import asked_of, handler_of, make_page, page_routes, running
from jobfeatures_exporter.web.asked import AskedPage

log = logging.getLogger(__name__)

OVERFLOW_UID: Final = 65_534
MAX_CONNECTIONS = 256  # beyond, the longest idle one is closed
MAX_CONNECTIONS_OF_ONE = 8
RATE_OF_ONE = 5.0  # requests per second
BURST_SECS = 4.0  # 20 requests at once
MAX_MADE = 2  # responses made at the same time
KEY = "web.own_socket"
_CREDENTIALS: Final = struct.Struct("iII")  # pid, uid, gid: unix(7)

Pages = Callable[[Context, AskedPage], str | None]


class OwnSocket:
    """Shows each caller the jobs of the caller's uid.

    `known` returns the node's latest `Context`, the data of metrics and pages, with all users' jobs. `pages`
    makes pages and metrics of a `Context`.
    """

    def __init__(self, known: Callable[[], Context], pages: Pages, procfs: str = "/proc") -> None:
        self._known = known
        self._pages = pages
        self._procfs = procfs
        self._names = user_names()
        self._open: dict[int, list[asyncio.BaseTransport]] = {}
        self._rates = Rates(RATE_OF_ONE, BURST_SECS)
        self._makers = asyncio.Semaphore(MAX_MADE)

    def refusal(self, pid: int, uid: int) -> str:
        """Return why the process that has connected is refused, "" if it is admitted."""
        if uid == OVERFLOW_UID:
            return "its uid is not mapped in our user namespace"
        try:
            with (
                open(f"{self._procfs}/{pid}/uid_map", encoding="ascii") as theirs,
                open(f"{self._procfs}/self/uid_map", encoding="ascii") as ours,
            ):
                return "" if theirs.read() == ours.read() else "its user namespace maps uids differently"
        except (OSError, ValueError):
            return "its user namespace cannot be read"

    def admit(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether to admit a new connection.

        It is refused for a reason of `refusal`, or if the same uid has too many open connections.
        """
        pid, uid, _ = _credentials(transport.get_extra_info("socket"))
        if reason := self.refusal(pid, uid):
            log.debug("a client of the socket is refused", extra={"uid": uid, "reason": reason})
            return False
        for each in list(self._open):
            self._open[each] = [one for one in self._open[each] if not one.is_closing()]
            if not self._open[each]:
                del self._open[each]
        if len(self._open.get(uid, ())) >= MAX_CONNECTIONS_OF_ONE:
            return False
        self._open.setdefault(uid, []).append(transport)
        return True

    def make_app(self) -> web.Application:
        """Return the web application that answers on the socket."""
        app = web.Application(client_max_size=1024, middlewares=[self._guard])
        app.add_routes([web.get("/metrics", self._metrics), *page_routes(self._page)])
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not self._rates.take(_caller(request), time.monotonic()):
            raise Refused(429, "too many requests", Retry_After="1")
        return await handler(request)

    def own(self, uid: int) -> Context:
        """Return the data of metrics and pages that a user may see: the user's own jobs."""
        return make_own_context(self._known(), uid, self._names.get(uid))

    async def _metrics(self, request: web.Request) -> web.Response:
        uid = _caller(request)

        async def answer(headers: Mapping[str, str]) -> WebAnswer:
            async with self._makers:
                return await asyncio.to_thread(
                    make_metrics, choose_kind(headers), partial(self._exposition, uid)
                )

        return await handler_of(answer)(request)

    def _exposition(self, uid: int, *, openmetrics: bool) -> bytes:
        return render(collect(self.own(uid), COLLECTORS), openmetrics=openmetrics)

    async def _page(self, request: web.Request) -> web.Response:
        uid, asked = _caller(request), asked_of(request)
        async with self._makers:
            made = await asyncio.to_thread(lambda: make_page(self._pages(self.own(uid), asked), asked))
        return made.answer(request)


def _caller(request: web.Request) -> int:
    """Return the caller's uid. Raises HTTPForbidden if the connection has closed meanwhile."""
    transport = request.transport
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is None:
        raise web.HTTPForbidden
    return _credentials(connection)[1]


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    """Return pid, uid and gid of the peer, as of its connect()."""
    pid, uid, gid = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return pid, uid, gid


@contextlib.asynccontextmanager
async def serving_own(path: str, own: OwnSocket) -> AsyncIterator[None]:
    """Serve on a UNIX socket at `path` until the ``with`` block ends.

    Raises ConfigurationError if the socket cannot be created.
    """
    listening = _listen(path)
    limits = ConnectionLimits(connections=MAX_CONNECTIONS, idle_secs=IDLE_SECS)
    table = ConnectionTable(limits)
    async with running(own.make_app(), limits, table) as server:
        connections = Connections(table, server=server, admits=own.admit)
        async with accepting(connections, [listening], key=KEY):
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _listen(path: str) -> socket.socket:
    """Return a socket that anybody may connect to. Raises ConfigurationError."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                os.unlink(path)  # left by a daemon that was killed
        listening.bind(path)
        os.chmod(path, 0o666)  # noqa: S103  # access is decided by the peer's uid
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise ConfigurationError(KEY, f"{path}: {error.strerror or error}") from error
    return listening
