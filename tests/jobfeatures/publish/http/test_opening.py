"""Listeners take as many connections as come, a few at once: a flood leaves descriptors to all else.

Who connects as one ends is answered by it, or by the next one on the same socket.
"""

import asyncio
import contextlib
import os
import socket

import pytest

from jobfeatures.publish.http.connectiontable import ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.opening import AT_ONCE, BACKLOG, accepting

LIMIT, MANY = 8, 20 * AT_ONCE


class Silent(asyncio.Protocol):
    """A connection on which nothing is said."""

    is_owed = False

    def __init__(self, table):
        self.table, self.head_since, self.answered_at = table, None, 0.0

    def connection_made(self, transport):
        self.table.count_in(self, transport, is_new=True)

    def connection_lost(self, exc):
        self.table.count_out(self)


class Echo(Silent):
    """A connection on which what is said is repeated, once."""

    is_owed = True

    def connection_made(self, transport):
        super().connection_made(transport)
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)
        self.transport.close()


class Connections:
    def __init__(self, kind=Silent):
        self.kind = kind
        self.table = ConnectionTable(ConnectionLimits(connections=LIMIT))

    def __call__(self):
        return self.kind(self.table)

    async def shutdown(self, timeout=None):
        await self.table.drain(timeout)
        self.table.end_all()


def opened():
    return len(os.listdir("/proc/self/fd"))


async def flood(where):
    """Return how many descriptors were taken at most, beside those of a flood of clients."""
    made = Connections()
    assert MANY < BACKLOG
    async with accepting(made, where, key="listen") as bound:
        host, _, port = bound.rpartition(":")
        with contextlib.ExitStack() as stack:
            for _ in range(MANY):  # nobody accepts meanwhile
                stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            before = most = opened()
            async with asyncio.timeout(60):
                while made.table.ended.total() < MANY - LIMIT:
                    await asyncio.sleep(0)
                    most = max(most, opened())
    return most - before


async def test_a_flood_takes_few_descriptors_and_nobody_is_turned_away_by_the_kernel():
    assert await flood("127.0.0.1:0") < LIMIT + 6 * AT_ONCE


async def test_so_it_is_on_a_socket_that_was_handed_over():
    with socket.create_server(("127.0.0.1", 0), backlog=1) as inherited:
        assert await flood([inherited]) < LIMIT + 6 * AT_ONCE


@pytest.mark.parametrize("turns", range(7))
async def test_who_is_accepted_in_the_turn_in_which_the_listener_ends_is_answered(turns):
    with socket.create_server(("127.0.0.1", 0)) as inherited:
        async with accepting(Connections(Echo), [inherited.dup()], key="listen"):
            await asyncio.sleep(0.01)  # it has been opened
            client = socket.create_connection(inherited.getsockname(), timeout=60)
            client.sendall(b"word")
            for _ in range(turns):  # of the event loop
                await asyncio.sleep(0)
        with client:
            async with accepting(Connections(Echo), [inherited.dup()], key="listen"):
                client.setblocking(False)
                async with asyncio.timeout(60):
                    assert await asyncio.get_running_loop().sock_recv(client, 100) == b"word"
