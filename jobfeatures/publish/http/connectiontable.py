"""Connections that cost nobody else anything: bounded in number, time, and what waits to be read.

Whatever speaks HTTP on them counts them in and out here. Nothing of a web server is needed for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from jobfeatures.publish.rates import Rates

log = logging.getLogger(__name__)

IDLE_SECS = 15.0  # without an answer: a client that is slow, or silent, or does not read
HEAD_SECS = 10.0  # from the first byte of a request's head to its last
LOOK_SECS = 1.0
END_LOOK_SECS = 0.01  # how often a listener that ends looks whether all have been answered
MAX_HEADER_BYTES = 4096
MAX_UNSENT_BYTES = 64 * 2**20  # of all answers that wait for those who asked to read them
LARGE_BYTES = 64 * 1024  # smaller answers are not worth looking at all connections

# Why connections were ended.
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
    """What a listener grants. `client_rate` is connections a second of one address, 0: any number.

    `head_secs` is how long the head of a request may take, and the reading of an answer.
    """

    connections: int
    idle_secs: float = IDLE_SECS
    head_secs: float = HEAD_SECS
    header_bytes: int = MAX_HEADER_BYTES
    client_rate: float = 0.0


class Open(Protocol):
    """A connection."""

    answered_at: float  # the loop's time of its last answer, at first of its beginning
    head_since: float | None  # since when the head of a request is awaited that has begun

    @property
    def is_owed(self) -> bool:
        """Return whether an answer is still to come: one that was asked for, or the first one."""


class ConnectionTable:
    """The open connections of a listener. Of too many, the one that waits longest for nothing is ended.

    `answers` counts answers by status, `ended` connections that were ended here by reason.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.answers: Counter[int] = Counter()
        self.ended: Counter[str] = Counter()
        self._limits = limits
        self._rates = Rates(limits.client_rate) if limits.client_rate else None
        self._open: dict[Open, asyncio.Transport] = {}
        self._unsent: dict[Open, float] = {}  # since when there is something to send
        self._loop = asyncio.get_running_loop()
        self.is_ending = False  # the next answer of each connection is its last

    @property
    def count(self) -> int:
        """Return how many connections are open, those that agree on TLS included."""
        return len(self._open)

    def count_in(self, one: Open, transport: asyncio.Transport, *, is_new: bool) -> None:
        """Count a connection; end it, or another one, where there are too many."""
        self._open[one] = transport
        rates = self._rates if is_new else None
        if rates is not None and not rates.take(client_of(transport), self._loop.time()):
            self._end(one, RATE)
        elif len(self._open) > self._limits.connections:
            self._end(min(self._open, key=_answered_at), CROWD)

    def count_out(self, one: Open) -> None:
        """Count a connection no longer."""
        self._open.pop(one, None)

    async def watch(self) -> None:
        """End connections that take too long to ask, to read, or to do anything at all, for ever."""
        while True:
            await asyncio.sleep(min(LOOK_SECS, self._limits.idle_secs, self._limits.head_secs))
            try:
                self._look(self._loop.time())
            except Exception:  # supervised: without these looks nobody ends who is slow
                log.exception("connections could not be checked")

    async def drain(self, timeout: float | None) -> None:
        """Wait, so long, until all have been answered to the end, also those who have just connected."""
        self.is_ending = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.sleep(END_LOOK_SECS)  # until those that were accepted a moment ago are here
                while any(one.is_owed or to.get_write_buffer_size() for one, to in self._open.items()):
                    await asyncio.sleep(END_LOOK_SECS)

    def end_all(self) -> None:
        """End all connections without a reason."""
        for transport in self._open.values():
            transport.abort()

    def _look(self, now: float) -> None:
        patience = now - self._limits.head_secs
        self._unsent = {
            one: self._unsent.get(one, now)
            for one, transport in self._open.items()
            if transport.get_write_buffer_size()
        }
        for one in list(self._open):
            head_since = getattr(one, "head_since", None)
            if head_since is not None and head_since < patience:
                self._end(one, SLOW_HEAD)
            elif max(self._unsent.get(one, now), _answered_at(one)) < patience:
                self._end(one, SLOW_READER)
            elif _answered_at(one) < now - self._limits.idle_secs:
                self._end(one, IDLE)

    def make_room(self, size: int) -> None:
        """End those who have had their answers the longest, and not read them, where one more is too much."""
        if size < LARGE_BYTES:
            return
        sizes = {
            one: unsent
            for one, transport in self._open.items()
            if (unsent := transport.get_write_buffer_size())
        }
        size += sum(sizes.values())
        for one in sorted(sizes, key=_answered_at):
            if size <= MAX_UNSENT_BYTES:
                break
            size -= sizes[one]
            self._open[one].abort()  # at once: the next answer may follow this one at once
            self._end(one, SLOW_READER)

    def _end(self, one: Open, reason: str) -> None:
        transport = self._open.pop(one, None)
        if transport is not None:
            self.ended[reason] += 1
            # Not close(): that would wait for a client who does not read. And not now: aiohttp's task of
            # a connection that is just being made has to begin before it hears that the connection is lost.
            self._loop.call_soon(transport.abort)


def client_of(transport: asyncio.BaseTransport) -> Hashable:
    """Return the address of who connected, empty where there is none."""
    peer = transport.get_extra_info("peername")
    return peer[0] if isinstance(peer, tuple) else ""


def _answered_at(one: Open) -> float:
    answered_at: float = getattr(one, "answered_at", 0.0)
    return answered_at
