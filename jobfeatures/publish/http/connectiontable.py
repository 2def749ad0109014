"""Keeps the open connections of a listener, bounded in number, duration and unsent bytes.

The HTTP protocol registers and removes its connections here. This module needs no web server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from jobfeatures.system.filelimit import allowed_connections
from jobfeatures.system.rates import Rates

log = logging.getLogger(__name__)

IDLE_SECS = 15.0  # timeout since the last answer, for a client that is slow or silent or does not read
HEAD_SECS = 10.0  # timeout from the first byte of a request's head to its last, and to read an answer
LOOK_SECS = 1.0  # between two checks of all connections while one of them owes or is owed something
QUIET_LOOKS = 5  # as many times LOOK_SECS, while all are idle: each check wakes this process
END_LOOK_SECS = 0.01  # how often a listener that shuts down checks whether all requests have been answered
MAX_HEADER_BYTES = 4096
MAX_UNSENT_BYTES = 64 * 2**20  # of all answers that their clients have not read yet
LARGE_BYTES = 64 * 1024  # for smaller answers the connections' unsent bytes are not summed up

# Why connections were closed.
CROWD = "too_many_connections"
RATE = "connection_rate"
IDLE = "idle"
SLOW_HEAD = "slow_head"
SLOW_READER = "slow_reader"
HANDSHAKE = "tls_handshake"
NOT_ADMITTED = "client_certificate"
ENDINGS = (CROWD, RATE, IDLE, SLOW_HEAD, SLOW_READER, HANDSHAKE, NOT_ADMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of a listener's connections.

    `connections` is how many may be open; it is lowered where the limit on open files is low: see
    `filelimit.allowed_connections`. A connection may be idle for `idle_secs`, and the head of a request have
    `header_bytes`. `client_rate` is new connections per second from one address, 0: unlimited.
    """

    connections: int
    idle_secs: float = IDLE_SECS
    header_bytes: int = MAX_HEADER_BYTES
    client_rate: float = 0.0


class OpenConnection(Protocol):
    """An open connection as `ConnectionTable` needs it. Times are those of the event loop.

    `answered_at` is when it was answered last, or when it began. `head_since` is when the first byte of a
    request came whose head is incomplete (None: there is no such request).
    """

    answered_at: float  # loop time of its last answer, at first that of its start
    head_since: float | None  # loop time of the first byte of an incomplete request head

    @property
    def awaits_answer(self) -> bool:
        """Return whether the client waits for an answer, or has not sent its first request yet."""


class ConnectionTable:
    """Keeps the open connections of a listener. If there are too many, the one idle for longest is closed.

    `answers` counts answers by status, `ended` the connections closed here by reason.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.answers: Counter[int] = Counter()
        self.ended: Counter[str] = Counter()
        self._limits = limits
        self.most = allowed_connections(limits.connections)  # open at once
        self._rates = Rates(limits.client_rate) if limits.client_rate else None
        self._open: dict[OpenConnection, asyncio.Transport] = {}
        self._unsent: dict[OpenConnection, float] = {}  # loop time since when it has unsent bytes
        self._is_any = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.is_ending = False  # the next answer of each connection is its last

    @property
    def count(self) -> int:
        """Return how many connections are open, including those in their TLS handshake."""
        return len(self._open)

    def count_in(self, one: OpenConnection, transport: asyncio.Transport) -> None:
        """Register a new connection.

        It is closed if its client opens connections too often. If too many are open, the one idle for longest
        is closed.
        """
        self._open[one] = transport
        self._is_any.set()
        if self._rates is not None and not self._rates.take(client_of(transport), self._loop.time()):
            self._end(one, RATE)
        elif len(self._open) > self.most:
            self._end(min(self._open, key=attrgetter("answered_at")), CROWD)

    def carry_on(self, one: OpenConnection, transport: asyncio.Transport) -> None:
        """Note that a connection goes on over `transport`, encrypted by TLS from now on."""
        if one in self._open:
            self._open[one] = transport

    def count_out(self, one: OpenConnection) -> None:
        """Remove a connection that has ended."""
        self._forget(one)

    async def watch(self) -> None:
        """Close, at intervals, connections that take too long to send, to read, or to do anything at all."""
        while True:
            await self._is_any.wait()
            is_busy = self._unsent or any(one.head_since is not None for one in self._open)
            await asyncio.sleep(min(LOOK_SECS * (1 if is_busy else QUIET_LOOKS), self._limits.idle_secs))
            try:
                self._close_overdue(self._loop.time())
            except Exception:  # supervised: without these checks no slow client is disconnected
                log.exception("slow connections could not be looked for")

    async def drain(self, timeout: float | None) -> None:
        """Wait up to `timeout` seconds until all answers are sent, also to clients that just connected."""
        self.is_ending = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.sleep(END_LOOK_SECS)  # until connections accepted just now are registered
                while any(one.awaits_answer or to.get_write_buffer_size() for one, to in self._open.items()):
                    await asyncio.sleep(END_LOOK_SECS)

    def end_all(self) -> None:
        """Close all connections, without counting them in `ended`."""
        for transport in self._open.values():
            transport.abort()

    def _close_overdue(self, now: float) -> None:
        cutoff = now - HEAD_SECS
        self._unsent = {
            one: self._unsent.get(one, now)
            for one, transport in self._open.items()
            if transport.get_write_buffer_size()
        }
        for one in list(self._open):
            if one.head_since is not None and one.head_since < cutoff:
                self._end(one, SLOW_HEAD)
            elif max(self._unsent.get(one, now), one.answered_at) < cutoff:
                self._end(one, SLOW_READER)
            elif one.answered_at < now - self._limits.idle_secs:
                self._end(one, IDLE)

    def make_room(self, size: int) -> None:
        """Close the connections with the oldest unread answers if `size` more bytes exceed the limit."""
        if size < LARGE_BYTES:
            return
        sizes = {
            one: unsent
            for one, transport in self._open.items()
            if (unsent := transport.get_write_buffer_size())
        }
        size += sum(sizes.values())
        for one in sorted(sizes, key=attrgetter("answered_at")):
            if size <= MAX_UNSENT_BYTES:
                break
            size -= sizes[one]
            self._end(one, SLOW_READER)

    def _forget(self, one: OpenConnection) -> asyncio.Transport | None:
        transport = self._open.pop(one, None)
        if not self._open:
            self._is_any.clear()
        return transport

    def _end(self, one: OpenConnection, reason: str) -> None:
        transport = self._forget(one)
        if transport is not None:
            self.ended[reason] += 1
            transport.abort()  # close() would wait for a client that does not read


def client_of(transport: asyncio.BaseTransport) -> Hashable:
    """Return the client's IP address, empty if it has none."""
    peer = transport.get_extra_info("peername")
    return peer[0] if isinstance(peer, tuple) else ""
