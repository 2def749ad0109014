"""Clients that are slow, silent, huge or many cost nobody else anything."""

import asyncio
import contextlib
import gc
import socket
from types import SimpleNamespace

import pytest
from aiohttp import web

from jobfeatures.publish.http import connections, connectiontable, opening, webserver
from jobfeatures.publish.http.connections import Connections
from jobfeatures.publish.http.opening import accepting


async def opened(site):
    return await asyncio.open_connection(site.host, site.port)


async def closed_by_server(reader):
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:
        return b""


def look_later(site, secs):
    """Let the server look at its connections as if so much time had passed: nobody waits, nobody is late."""
    site.connections._close_overdue(asyncio.get_running_loop().time() + secs)


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_client_that_never_ends_its_header_is_cut_off(site, is_kept):
    reader, writer = await opened(site)
    if is_kept:
        writer.write(b"GET /machinefeatures/total_cpu HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n8\n")
    writer.write(b"GET /machinefeatures/total_cpu HTTP/1.1\r\nHost: x\r\n")
    for _ in range(5):
        assert (await site.get("/machinefeatures/total_cpu")).status == 200
        writer.write(b"X: y\r\n")
    look_later(site, connectiontable.HEAD_SECS - 5)
    assert site.connections.ended[connectiontable.SLOW_HEAD] == 0
    look_later(site, connectiontable.HEAD_SECS)
    assert await closed_by_server(reader) == b""
    assert site.connections.ended[connectiontable.SLOW_HEAD] == 1
    writer.close()


async def test_a_silent_client_is_cut_off(serve):
    async with serve(idle_secs=0.3) as site:
        reader, writer = await opened(site)
        assert await closed_by_server(reader) == b""
        writer.close()


async def test_a_check_of_the_connections_that_fails_is_not_the_last(serve, monkeypatch, caplog):
    check, failed = connectiontable.ConnectionTable._close_overdue, []

    def fail_at_first(server, now):
        if not failed:
            failed.append(now)
            raise RuntimeError("ours")
        check(server, now)

    monkeypatch.setattr(connectiontable.ConnectionTable, "_close_overdue", fail_at_first)
    async with serve(idle_secs=0.1) as site:
        reader, writer = await opened(site)
        assert await closed_by_server(reader) == b""
        writer.close()
    assert failed
    assert "slow connections could not be looked for" in caplog.text


async def test_a_body_that_never_comes_ends_with_408(serve, monkeypatch):
    from jobfeatures.publish.http import server as module

    monkeypatch.setattr(module, "BODY_WAIT_SECS", 0.2)
    monkeypatch.setattr(webserver, "LINGER_SECS", 0.0)
    async with serve() as site:
        reader, writer = await opened(site)
        writer.write(f"PUT {site.status}/used_CPU HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n1".encode())
        assert (await asyncio.wait_for(reader.readline(), 60)).split()[1] == b"408"
        writer.close()


async def test_a_client_that_hangs_up_amid_its_body_costs_nothing(serve, caplog):
    async with serve() as site:
        for _ in range(5):
            _reader, writer = await opened(site)
            writer.write(
                f"PUT {site.status}/used_CPU HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n1".encode()
            )
            await writer.drain()
            writer.transport.abort()
        assert (await site.ask("PUT", f"{site.status}/used_CPU", b"1")).status == 204
        assert site.server.counts == {400: 5, 204: 1}
    assert caplog.records == []


async def test_a_connection_is_closed_once_whoever_asks_for_it():
    """Python 3.11.2 cannot abort what TLS has closed twice: a listener that ended did not end its connections."""
    closes = []
    transport = SimpleNamespace(is_closing=lambda: bool(closes), close=lambda: closes.append(1))
    connection = connections.Connection(None)
    connection.transport = transport
    connections._Outlet(connection).close()
    connections._Outlet(connection).close()
    connection.close()
    assert len(closes) == 1


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("more", [b"", b"GET /machinefe"])
async def test_a_half_closed_client_gets_all_answers_and_then_its_end(serve, count, more):
    async with serve() as site:
        reader, writer = await opened(site)
        writer.write(b"GET /machinefeatures/total_cpu HTTP/1.1\r\nHost: x\r\n\r\n" * count + more)
        writer.write_eof()
        answer = await closed_by_server(reader)
        assert answer.count(b"HTTP/1.1 200 OK\r\n") == answer.count(b"\r\n\r\n8\n") == count
        writer.close()
        assert (await site.get("/machinefeatures/total_cpu")).status == 200


@pytest.mark.parametrize(
    "head", ["GET /machinefea", "PUT {}/used_CPU HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n1"]
)
async def test_a_client_that_half_closes_amid_its_request_gets_its_end_alone(serve, head):
    async with serve() as site:
        reader, writer = await opened(site)
        writer.write(head.format(site.status).encode())
        writer.write_eof()
        assert await closed_by_server(reader) == b""
        writer.close()


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0", "9.9"])
async def test_other_versions_of_http_are_refused(site, version):
    reader, writer = await opened(site)
    writer.write(f"GET /machinefeatures/total_cpu HTTP/{version}\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await closed_by_server(reader)).partition(b"\r\n\r\n")
    assert (head.split()[1], body) == (b"400", b"")
    writer.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(50_000)) + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"NONSENSE\r\n\r\n",
        b"GET /machinefeatures/total_cpu\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
    ],
)
async def test_nonsense_and_huge_headers_get_an_empty_answer(site, request_bytes):
    reader, writer = await opened(site)
    writer.write(request_bytes)
    end = asyncio.create_task(closed_by_server(reader))
    await asyncio.wait([end], timeout=0.2)
    look_later(site, connectiontable.IDLE_SECS)  # it may wait for the end of a line
    head, _, body = (await end).partition(b"\r\n\r\n")
    assert body == b""
    assert head == b"" or head.split()[1] in (b"400", b"404")
    writer.close()
    assert (await site.get("/machinefeatures/total_cpu")).status == 200


@pytest.mark.parametrize(("headers", "status"), [(60, b"200"), (65, b"400")])
async def test_small_headers_beyond_number_are_refused_too(site, headers, status):
    reader, writer = await opened(site)
    lines = b"".join(b"X%d: y\r\n" % number for number in range(headers - 1))
    writer.write(b"GET /machinefeatures/total_cpu HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
    assert (await asyncio.wait_for(reader.readline(), 60)).split()[1] == status
    writer.close()


async def test_a_client_who_reads_nothing_is_cut_off(serve):
    """The server has ended it; the client's kernel may hear of that a minute later."""
    async with serve(idle_secs=0.3) as site:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_MAXSEG, 600
            )  # so that the server's buffer is small, too
            sock.connect((site.host, site.port))
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            request = b"GET /machinefeatures/total_cpu HTTP/1.1\r\nHost: x\r\n\r\n" * 500

            async def flood():
                while True:
                    await loop.sock_sendall(sock, request)

            flooding = asyncio.create_task(flood())
            async with asyncio.timeout(60):
                # On a busy machine it may be cut off before its first answer.
                while not site.connections.ended.total() or site.connections.count:
                    await asyncio.sleep(0.01)
            flooding.cancel()
            await asyncio.wait([flooding])
    async with serve() as site:
        assert (await site.get("/machinefeatures/total_cpu")).status == 200


async def test_too_many_connections_end_the_stalest_not_the_new(serve):
    async with serve(connections=8) as site:
        crowd = [await opened(site) for _ in range(30)]
        for _ in range(5):
            assert (await site.get("/machinefeatures/total_cpu")).body == b"8\n"
        ended = [asyncio.create_task(closed_by_server(reader)) for reader, _ in crowd]
        async with asyncio.timeout(60):
            for number, task in enumerate(asyncio.as_completed(ended), 1):
                await task
                if number == 22:
                    break
        assert site.connections.count <= 8
        for task in ended:
            task.cancel()
        for _, writer in crowd:
            writer.close()


async def test_an_address_in_use_is_a_wrong_setting(serve, tree):
    from jobfeatures.errors import ConfigurationError
    from jobfeatures.publish.http.server import FeatureServer
    from jobfeatures.publish.http.webserver import listening

    async with serve() as site:
        with pytest.raises(ConfigurationError, match=r"features\.listen_address"):
            async with listening(FeatureServer(tree), site.address):
                pass


async def test_what_was_ended_is_counted_by_reason(serve):
    async with serve(connections=3) as site:
        crowd = [await opened(site) for _ in range(5)]
        async with asyncio.timeout(60):
            while site.connections.ended["too_many_connections"] < 2:
                await asyncio.sleep(0.01)
        look_later(site, connectiontable.IDLE_SECS)
        for reader, _ in crowd:
            await closed_by_server(reader)
        assert (await site.get("/machinefeatures/total_cpu")).status == 200
        assert site.connections.ended["too_many_connections"] == 2
        assert site.connections.ended["idle"] == 3
        assert site.connections.answers[200] == 1
        for _, writer in crowd:
            writer.close()


async def test_connections_that_are_ended_at_their_beginning_leave_no_trace_but_the_count(caplog, no_refill):
    async def answer(request):
        return web.Response(text="ok")

    gc.collect()
    caplog.clear()  # what other tests left behind
    limits = connectiontable.ConnectionLimits(connections=4, client_rate=1.0)
    table = connectiontable.ConnectionTable(limits)
    server = Connections(table, server=webserver.make_server(answer, limits, table))
    async with accepting(server, "127.0.0.1:0", key="listen") as address:
        host, _, port = address.rpartition(":")
        for _ in range(50):
            reader, writer = await asyncio.open_connection(host, int(port))
            await closed_by_server(reader) if server.table.ended["connection_rate"] else None
            writer.close()
        gc.collect()
        assert server.table.ended["connection_rate"] > 40
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("said", [b"", b"GET /machinefeatures/total_c"])
async def test_who_has_just_connected_is_answered_before_the_listener_ends(serve, said, monkeypatch):
    monkeypatch.setattr(opening, "END_SECS", 60.0)
    async with contextlib.AsyncExitStack() as stack:
        site = await stack.enter_async_context(serve())
        reader, writer = await asyncio.open_connection(site.host, site.port)
        while not site.connections.count:
            await asyncio.sleep(0)
        writer.write(said)
        ending = asyncio.create_task(stack.pop_all().aclose())
    await asyncio.sleep(0.1)
    writer.write(b"GET /machinefeatures/total_cpu HTTP/1.1\r\nHost: x\r\n\r\n"[len(said) :])
    async with asyncio.timeout(60):
        answer = await reader.read()
        await ending
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close\r\n" in answer
    writer.close()


async def test_who_says_nothing_keeps_a_listener_for_a_moment_only(serve, monkeypatch):
    monkeypatch.setattr(opening, "END_SECS", 0.1)
    async with asyncio.timeout(60):
        async with serve() as site:
            reader, writer = await asyncio.open_connection(site.host, site.port)
            while not site.connections.count:
                await asyncio.sleep(0)
        assert await reader.read() == b""
    writer.close()


async def test_a_listener_without_connections_looks_at_none(monkeypatch):
    class Client:
        head_since, answered_at, awaits_answer = None, 0.0, False

    class Transport(asyncio.Transport):
        def get_write_buffer_size(self):
            return 0

    looks = []
    monkeypatch.setattr(connectiontable, "LOOK_SECS", 0.0)
    table = connectiontable.ConnectionTable(connectiontable.ConnectionLimits(connections=9, idle_secs=1e9))
    monkeypatch.setattr(table, "_close_overdue", looks.append)
    watching = asyncio.create_task(table.watch())
    await asyncio.sleep(0.01)
    assert not looks
    table.count_in(one := Client(), Transport())
    while not looks:
        await asyncio.sleep(0)
    table.count_out(one)
    await asyncio.sleep(0.01)
    seen = len(looks)
    await asyncio.sleep(0.01)
    assert len(looks) == seen
    watching.cancel()
