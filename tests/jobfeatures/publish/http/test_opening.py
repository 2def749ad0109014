"""Listeners take as many connections as come, a few at once: a flood leaves descriptors to all else."""

import asyncio
import contextlib
import os
import socket

from jobfeatures.publish.http.connectiontable import ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.opening import AT_ONCE, BACKLOG, accepting

LIMIT, MANY = 8, 20 * AT_ONCE


class Silent(asyncio.Protocol):
    """A connection on which nothing is said."""

    def __init__(self, table):
        self.table, self.head_since, self.answered_at = table, None, 0.0

    def connection_made(self, transport):
        self.table.count_in(self, transport, is_new=True)

    def connection_lost(self, exc):
        self.table.count_out(self)


class Connections:
    def __init__(self):
        self.table = ConnectionTable(ConnectionLimits(connections=LIMIT))

    def __call__(self):
        return Silent(self.table)

    async def shutdown(self, timeout=None):
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
