"""Listeners take as many connections as come, a few at once: a flood leaves descriptors to all else.

Who connects as one ends is answered by it, or by the next one on the same socket.
"""

import asyncio
import contextlib
import errno
import os
import socket

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish.http.connectiontable import ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.opening import AT_ONCE, BACKLOG, accepting
from jobfeatures.system import filelimit

LIMIT, MANY = 8, 20 * AT_ONCE


class Silent(asyncio.Protocol):
    """A connection on which nothing is said."""

    awaits_answer = False

    def __init__(self, table):
        self.table, self.head_since, self.answered_at = table, None, 0.0

    def connection_made(self, transport):
        self.table.count_in(self, transport)

    def connection_lost(self, exc):
        self.table.count_out(self)


class Echo(Silent):
    """A connection on which what is said is repeated, once."""

    awaits_answer = True

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


async def test_where_few_files_can_be_open_few_connections_are_and_the_longest_idle_makes_room(monkeypatch):
    monkeypatch.setattr(filelimit, "limits", lambda: (256, 256))
    made = Connections()
    made.table = ConnectionTable(ConnectionLimits(connections=512))
    async with accepting(made, "127.0.0.1:0", key="listen") as bound:
        host, _, port = bound.rpartition(":")
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            async with asyncio.timeout(60):
                while made.table.ended.total() < 192:
                    await asyncio.sleep(0)
            assert (made.table.count, made.table.ended) == (8, {"too_many_connections": 192})


async def answers(host, port):
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        return True
    return False


@pytest.mark.parametrize(
    ("where", "families"),
    [("[::]:0", [True, True]), ("127.0.0.1:0", [True, False]), ("[::1]:0", [False, True])],
)
async def test_all_addresses_of_version_6_are_all_addresses(where, families):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    async with accepting(Connections(Echo), where, key="listen") as bound:
        port = bound.rpartition(":")[2]
        assert [await answers(host, port) for host in ("127.0.0.1", "::1")] == families


@pytest.mark.parametrize("where", ["[::]:0", "[::1]:0"])
async def test_an_address_of_version_6_on_a_machine_without_it_is_refused_by_name(monkeypatch, where):
    real = socket.socket

    def make(family=socket.AF_INET, *rest, **more):
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return real(family, *rest, **more)

    monkeypatch.setattr(socket, "socket", make)
    with pytest.raises(
        ConfigurationError, match=r"^listen: cannot listen on \[::1?\]:0: (Address family|Cannot)"
    ):
        async with accepting(Connections(), where, key="listen"):
            pass
    async with accepting(Connections(), ":0", key="listen") as bound:
        assert bound.startswith("0.0.0.0:")
