"""What clients of the metrics listener may try, with and without a web server behind it: it costs little, and nobody else."""

import asyncio
import contextlib
import gzip
import logging
import socket
import struct
import threading

import pytest

from jobfeatures.publish.http import connectiontable, opening
from jobfeatures_exporter.web import listener
from jobfeatures_exporter.web.answers import MAX_SCRAPES
from tests.exporter.web.standins import StandInDaemon

from .test_plain import CURL, PROMETHEUS, answer_to, ask, is_web_server_up, served

MIB = 2**20
WITH_SERVER = CURL.replace(b"\r\n\r\n", b"\r\nX-Other: 1\r\n\r\n")
PAGE = CURL.replace(b"/metrics", b"/")
both = pytest.mark.parametrize("request_bytes", [CURL, WITH_SERVER], ids=["plain", "aiohttp"])


class Counted(StandInDaemon):
    """Large pages, made when it is let, and counted."""

    def __init__(self, size):
        self.made, self.size, self.go = 0, size, threading.Event()
        self.go.set()

    def exposition(self, *, openmetrics, web=None):
        self.made += 1
        assert self.go.wait(60)
        return bytes(self.size)

    def html(self, asked=None):
        self.made += 1
        assert self.go.wait(60)
        return f"page of {asked.find}".ljust(self.size)


@contextlib.asynccontextmanager
async def attacked(daemon, first=CURL):
    """Give the listeners, and a function that opens a socket which takes little and has asked."""
    async with served(daemon) as (listeners, connect):
        _, writer = await connect()
        address = writer.get_extra_info("peername")
        writer.close()
        await until(lambda: not listeners.table.count)
        with contextlib.ExitStack() as stack:

            async def client(request=first):
                loop = asyncio.get_running_loop()
                made = stack.enter_context(socket.socket())
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                made.setblocking(False)
                await loop.sock_connect(made, address)
                await loop.sock_sendall(made, request)
                return made

            yield listeners, client


def unsent(listeners):
    return sum(each.get_write_buffer_size() for each in listeners.table.transports.values())


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def vanish(client):
    """End a connection as a program does that is killed with something unread."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def answered(client, body):
    """Wait for an answer with this body."""
    loop, said = asyncio.get_running_loop(), b""
    async with asyncio.timeout(60):
        while not said.endswith(body):
            said += await loop.sock_recv(client, 4096)


@both
async def test_who_asks_again_and_again_and_reads_nothing_is_not_answered_again(request_bytes):
    daemon = Counted(16 * MIB)
    async with attacked(daemon, request_bytes) as (listeners, client):
        one = await client()
        await until(lambda: unsent(listeners))
        for _ in range(4):
            await asyncio.get_running_loop().sock_sendall(one, request_bytes)
            await asyncio.sleep(0.05)
        assert daemon.made == 1


async def test_a_connection_whose_answer_is_not_read_yet_goes_to_the_web_server_when_it_is(caplog):
    daemon = Counted(8 * MIB)
    async with served(daemon) as (listeners, connect):
        reader, writer = await connect()
        writer.write(CURL)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(PAGE)
        await asyncio.sleep(0.05)
        assert not is_web_server_up(listeners)
        await reader.readexactly(8 * MIB)
        assert (await answer_to(reader))[2].strip() == b"page of"
        writer.close()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


@both
async def test_who_asks_and_goes_leaves_little_to_be_made(request_bytes):
    daemon = Counted(10)
    daemon.go.clear()
    async with attacked(daemon, request_bytes) as (listeners, client):
        for _ in range(100):
            vanish(await client())
        stays = await client()
        there = (1, 101)  # the web server notices who has gone, the plain listener does not
        await until(lambda: daemon.made and listeners.table.count in there)
        await asyncio.sleep(0.05)
        daemon.go.set()
        await answered(stays, bytes(10))
    assert daemon.made <= MAX_SCRAPES + 2


async def test_pages_that_all_differ_are_made_for_those_who_are_still_there():
    daemon = Counted(10)
    daemon.go.clear()
    async with attacked(daemon) as (listeners, client):
        held = await client(PAGE)
        await until(lambda: daemon.made)
        for number in range(100):
            vanish(await client(PAGE.replace(b"/ ", b"/?find=%d " % number)))
        await until(lambda: listeners.table.count == 1)
        daemon.go.set()
        await answered(held, b"page of".ljust(10))
    assert daemon.made == 1


@pytest.mark.parametrize("request_bytes", [CURL, WITH_SERVER, PAGE], ids=["plain", "aiohttp", "page"])
async def test_answers_to_many_at_once_are_bounded_before_anybody_looks(monkeypatch, request_bytes):
    monkeypatch.setattr(connectiontable, "LOOK_SECS", 3600.0)
    monkeypatch.setattr(connectiontable, "MAX_UNSENT_BYTES", 40 * MIB)
    daemon, most = Counted(16 * MIB), []
    daemon.go.clear()
    make_room = connectiontable.ConnectionTable.make_room
    async with attacked(daemon, request_bytes) as (listeners, client):
        monkeypatch.setattr(
            connectiontable.ConnectionTable,
            "make_room",
            lambda table, size: (make_room(table, size), most.append(unsent(listeners))),
        )
        for _ in range(12):
            await client()
        await until(lambda: listeners.table.count == 12)
        daemon.go.set()
        await until(lambda: len(most) == 12)
        assert max(most) <= 24 * MIB  # and the answer behind
        assert listeners.status().listeners[0].rejected["slow_reader"] >= 9


@both
async def test_who_says_no_more_gets_the_answer_all_the_same(request_bytes):
    daemon = Counted(10)
    daemon.go.clear()
    async with served(daemon) as (_, connect):
        reader, writer = await connect()
        writer.write(request_bytes)
        writer.write_eof()
        await until(lambda: daemon.made)
        daemon.go.set()
        assert (await asyncio.wait_for(reader.read(), 60)).endswith(bytes(10))
        writer.close()


@pytest.mark.parametrize("is_up", [True, False])
async def test_a_page_asked_for_just_before_the_listener_ends_is_sent_to_its_end(monkeypatch, is_up):
    monkeypatch.setattr(opening, "END_SECS", 60.0)
    daemon = Counted(16 * MIB)
    async with contextlib.AsyncExitStack() as stack:
        listeners, client = await stack.enter_async_context(attacked(daemon, PAGE))
        if is_up:
            greedy = await client()
            await until(lambda: unsent(listeners))
            # What the kernel takes, and a rest for which nobody who writes has to wait.
            daemon.size = 16 * MIB - unsent(listeners) + 30_000
            vanish(greedy)
        daemon.go.clear()
        last = await client(PAGE.replace(b"/ ", b"/?find=last "))
        made = daemon.made
        await until(lambda: daemon.made > made if is_up else listeners.table.count)
        left = socket.socket(fileno=last.detach())
        ending = asyncio.create_task(stack.pop_all().aclose())
    await until(lambda: daemon.made > made)
    await asyncio.sleep(0.05)
    daemon.go.set()
    await asyncio.sleep(0.2)
    with left:
        left.setblocking(False)
        left.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)  # by 4 KiB it took a busy machine a minute
        said = b""
        async with asyncio.timeout(60):
            while received := await asyncio.get_running_loop().sock_recv(left, MIB):
                said += received
    assert len(said.partition(b"\r\n\r\n")[2]) == daemon.size
    await ending


async def test_floods_of_resets_leave_neither_connections_nor_messages(caplog, monkeypatch):
    monkeypatch.setattr(listener, "CLIENT_RATE", 1e6)
    daemon = Counted(MIB)
    async with attacked(daemon) as (listeners, client):
        for number in range(300):
            one = await client([CURL, PAGE, CURL[:20], b"", WITH_SERVER, CURL + PAGE][number % 6])
            if number % 5:
                await asyncio.sleep(0)
            vanish(one)
        await until(lambda: listeners.table.count == 0)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("coding", "is_packed"),
    [
        (b"gzip", True),
        (b"deflate, GZIP;q=0.5", True),
        (b"gzip;q=0", False),
        (b"gzip; q=0.00, identity", False),
        (b"*", False),
        (b"x", False),
    ],
)
async def test_who_refuses_compression_gets_none(coding, is_packed):
    async with served(Counted(100_000)) as (_, connect):
        for path in (b"/metrics", b"/"):
            [(_, headers, body)] = await ask(
                connect, PROMETHEUS.replace(b"gzip", coding).replace(b"/metrics", path)
            )
            assert (headers.get("Content-Encoding") == "gzip") == is_packed
            assert len(gzip.decompress(body) if is_packed else body) >= 100_000
