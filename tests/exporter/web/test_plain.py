"""Scrapes are answered without a web server, and exactly as one would answer them."""

import asyncio
import base64
import contextlib
import gzip
import re

import pytest
from aiohttp.http_parser import HttpRequestParser
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobfeatures.publish.http import opening
from jobfeatures.publish.http.connections import Connections
from jobfeatures.publish.http.connectiontable import ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.opening import accepting
from jobfeatures_exporter.web import listener
from jobfeatures_exporter.web.app import make_app, running
from jobfeatures_exporter.web.config import WebSettings
from jobfeatures_exporter.web.guard import Guard
from jobfeatures_exporter.web.listener import Listeners
from jobfeatures_exporter.web.plain import parse_request
from tests.exporter.web.standins import HASH, PASSWORD, StandInDaemon

PROMETHEUS = (
    b"GET /metrics HTTP/1.1\r\n"
    b"Host: localhost:9819\r\n"
    b"User-Agent: Prometheus/3.5.0\r\n"
    b"Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5\r\n"
    b"Accept-Encoding: gzip\r\n"
    b"X-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n"
)
CURL = b"GET /metrics HTTP/1.1\r\nHost: localhost:9819\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"


class LongPage(StandInDaemon):
    """A page that is worth compressing."""

    def exposition(self, *, openmetrics, web=None):
        return b"some_metric 1\n" * 5000 + (b"# EOF\n" if openmetrics else b"")


async def answer_to(reader):
    """Return the status line, the headers and the body of the next answer."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).decode().split("\r\n")[:-2]
    headers = dict(sorted(line.split(": ", 1) for line in head[1:]))
    return head[0], headers, await reader.readexactly(int(headers.get("Content-Length", 0)))


class Table(ConnectionTable):
    """A table whose connections are at hand."""

    def __init__(self, limits):
        super().__init__(limits)
        self.transports = {}

    def count_in(self, one, transport):
        self.transports[one] = transport
        super().count_in(one, transport)

    def count_out(self, one):
        self.transports.pop(one, None)
        super().count_out(one)


class Served(Listeners):
    """Listeners with the table of the one that is scraped."""

    def make_table(self, limits):
        self.table = Table(limits)
        return self.table


@contextlib.asynccontextmanager
async def served(daemon=None, **settings):
    """Give the listeners and a function that opens a connection."""
    listeners = Served(**settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listener, "ConnectionTable", listeners.make_table)
        async with listeners.serving(daemon or StandInDaemon(), "127.0.0.1:0") as address:
            host, _, port = address.rpartition(":")
            yield listeners, lambda: asyncio.open_connection(host, int(port))


@contextlib.asynccontextmanager
async def served_by_aiohttp(daemon=None):
    """Give what counts connections, and a function that opens one, of the same application behind nothing but aiohttp."""
    limits = ConnectionLimits(connections=listener.MAX_CONNECTIONS, header_bytes=listener.HEADER_BYTES)
    guard = Guard(rate=listener.RATE, client_rate=listener.CLIENT_RATE, names=frozenset())
    app, table = make_app(daemon or StandInDaemon()), ConnectionTable(limits)
    async with (
        running(app, limits, table, guard) as server,
        accepting(Connections(table, server=server), "127.0.0.1:0", key="test") as address,
    ):
        host, _, port = address.rpartition(":")
        yield table, lambda: asyncio.open_connection(host, int(port))


def is_web_server_up(listeners):
    return any(each.web is not None for each in listeners.table.transports)


async def ask(connect, *requests):
    """Return the answers to requests on one connection."""
    reader, writer = await connect()
    answers = []
    for request in requests:
        writer.write(request)
        answers.append(await answer_to(reader))
    writer.close()
    return answers


FORMATS = ["", "Accept: text/plain\r\n", "Accept: application/openmetrics-text; version=1.0.0\r\n"]
CODINGS = ["", "Accept-Encoding: gzip\r\n", "Accept-Encoding: identity\r\n", "accept-encoding: br, GZIP\r\n"]


@pytest.mark.parametrize("host", ["localhost:9819", "127.0.0.1", "evil.example"])
@pytest.mark.parametrize("path", ["/metrics", "/-/healthy", "/-/ready"])
async def test_the_web_server_would_answer_the_same(host, path):
    heads = [
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{accepted}{coding}"
        for accepted in FORMATS
        for coding in CODINGS
    ]
    async with served(LongPage()) as (listeners, connect):
        plain = await ask(connect, *[f"{head}\r\n".encode() for head in heads])
        assert not is_web_server_up(listeners)
        others = await ask(connect, *[f"{head}X-Other: 1\r\n\r\n".encode() for head in heads])
    for _, headers, _ in (*plain, *others):
        assert headers.pop("Date").endswith(" GMT")
    assert plain == others


@pytest.mark.parametrize("given", [None, f"alice:{PASSWORD}", "alice:wrong", "bob:x"])
async def test_the_web_server_would_ask_for_the_same_passwords(write_config, given):
    text = (
        f"basic_auth_users: {{alice: {HASH}}}\nhttp_server_config: {{headers: {{X-Frame-Options: deny}}}}\n"
    )
    credentials = b"" if given is None else b"Authorization: Basic %s\r\n" % base64.b64encode(given.encode())
    async with served(config=WebSettings(config_file=write_config(text))) as (listeners, connect):
        request = CURL[:-2] + credentials + b"\r\n"
        plain = await ask(connect, request)
        assert not is_web_server_up(listeners)
        others = await ask(connect, request.replace(b"curl/7", b"curl/7\r\nX-Other: 1"))
        assert is_web_server_up(listeners)
    for _, headers, _ in (*plain, *others):
        assert headers.pop("Date").endswith(" GMT")
    assert plain == others
    assert plain[0][0].split()[1] == ("200" if given == f"alice:{PASSWORD}" else "401")
    assert plain[0][1]["X-Frame-Options"] == "deny"


async def test_a_scrape_is_compressed_and_counted():
    async with served(LongPage()) as (listeners, connect):
        answers = await ask(connect, PROMETHEUS, CURL, PROMETHEUS)
        assert [status for status, _, _ in answers] == ["HTTP/1.1 200 OK"] * 3
        assert gzip.decompress(answers[0][2]).endswith(b"# EOF\n")
        assert answers[1][2] == b"some_metric 1\n" * 5000
        status = listeners.status().listeners[0]
        assert (status.connections, status.answers) == (1, {200: 3})
        assert not is_web_server_up(listeners)


async def test_a_connection_goes_on_with_the_web_server():
    async with served() as (listeners, connect):
        page = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answers = await ask(connect, CURL, page, CURL, page)
        assert [body for _, _, body in answers] == [
            b"some_metric 1\n",
            *[b"<!DOCTYPE html><title>page</title>", b"some_metric 1\n"] * 2,
        ][:4]
        assert is_web_server_up(listeners)
        assert listeners.status().listeners[0].connections == 1


async def test_requests_that_do_not_wait_for_answers_are_answered_in_turn(monkeypatch):
    async with served() as (_listeners, connect):
        reader, writer = await connect()
        for _ in range(5):  # each a reading of its own, most of them while the first is answered
            writer.write(CURL.replace(b"/metrics", b"/-/healthy"))
            writer.write(CURL)
            await asyncio.sleep(0)
        answers = [(await answer_to(reader))[2] for _ in range(10)]
        assert answers == [b"healthy\n", b"some_metric 1\n"] * 5
        writer.close()


@pytest.mark.parametrize("first", [CURL, CURL.replace(b"/metrics", b"/")])
async def test_what_comes_while_an_answer_is_made_is_not_lost(first):
    async with served() as (_, connect):
        reader, writer = await connect()
        writer.write(first)
        await asyncio.sleep(0.001)
        writer.write(CURL)
        await answer_to(reader)
        assert (await answer_to(reader))[2] == b"some_metric 1\n"
        writer.close()


async def test_a_page_that_cannot_be_made_is_an_error_and_scrapes_go_on(caplog):
    class Broken(StandInDaemon):
        def exposition(self, *, openmetrics, web=None):
            raise RuntimeError("ours")

    async with served(Broken()) as (listeners, connect):
        [(status, headers, body)] = await ask(connect, CURL)
        assert (status, headers["Connection"], body) == ("HTTP/1.1 500 Internal Server Error", "close", b"")
        assert (await ask(connect, CURL.replace(b"/metrics", b"/-/healthy")))[0][2] == b"healthy\n"
        assert listeners.status().listeners[0].answers == {500: 1, 200: 1}
    assert "ours" in caplog.text


async def test_a_web_server_that_cannot_be_had_leaves_scrapes_alone(monkeypatch, caplog):
    monkeypatch.setattr(listener, "import_module", lambda name: __import__("absent_module"))
    async with served() as (_, connect):
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert (await ask(connect, CURL))[0][2] == b"some_metric 1\n"
    assert "the web server cannot be started" in caplog.text


async def test_limits_hold_over_both(monkeypatch, no_refill):
    monkeypatch.setattr(listener, "CLIENT_RATE", 3.0)
    async with served() as (listeners, connect):
        with_server = CURL.replace(b"\r\n\r\n", b"\r\nX-Other: 1\r\n\r\n")
        answers = await ask(connect, *[CURL, CURL, CURL, with_server, with_server, with_server] * 2)
        statuses = [line.split()[1] for line, _, _ in answers]
        assert statuses == ["200"] * 6 + ["429"] * 6
        assert listeners.status().listeners[0].rejected["client_rate"] == 6


async def test_an_answer_under_way_ends_before_the_listener(monkeypatch):
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(StandInDaemon):
        def exposition(self, *, openmetrics, web=None):
            loop.call_soon_threadsafe(started.set)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1), loop).result()
            return b"late 1\n"

    async with served(Slow()) as (_, connect):
        reader, writer = await connect()
        writer.write(CURL)
        await started.wait()
    assert (await answer_to(reader))[2] == b"late 1\n"
    assert await reader.read() == b""
    writer.close()


async def closing(listeners_of, first=b""):
    """Give a connection, with a first request and its answer, whose listener is about to end."""
    async with contextlib.AsyncExitStack() as stack:
        listeners, connect = await stack.enter_async_context(listeners_of)
        reader, writer = await connect()
        while not listeners.status().listeners[0].connections:
            await asyncio.sleep(0)
        if first:
            writer.write(first)
            await answer_to(reader)
        return reader, writer, asyncio.create_task(stack.pop_all().aclose())


async def test_who_has_just_connected_is_answered_before_the_listener_ends(monkeypatch):
    monkeypatch.setattr(opening, "END_SECS", 60.0)  # the machine may be busy
    reader, writer, ending = await closing(served())
    await asyncio.sleep(0.05)
    writer.write(CURL)
    _, headers, body = await answer_to(reader)
    assert (headers["Connection"], body) == ("close", b"some_metric 1\n")
    assert await reader.read() == b""
    await ending
    writer.close()


async def test_an_answer_is_sent_to_its_end_before_the_listener_ends(monkeypatch):
    monkeypatch.setattr(opening, "END_SECS", 60.0)
    size = 16 * 2**20

    class Huge(StandInDaemon):
        def exposition(self, *, openmetrics, web=None):
            return bytes(size)

    async with served(Huge()) as (_, connect):
        reader, writer = await connect()
        writer.write(CURL)
        await reader.readuntil(b"\r\n\r\n")  # what is left waits in buffers, most of it ours
        left = asyncio.create_task(reader.readexactly(size))
    assert len(await asyncio.wait_for(left, 60)) == size
    writer.close()


async def test_who_has_been_answered_keeps_no_listener_from_its_end():
    reader, writer, ending = await closing(served(), CURL)
    async with asyncio.timeout(60):
        await ending
        assert await reader.read() == b""
    writer.close()


NAMES = ["Host", "host", "User-Agent", "Accept", "ACCEPT", "Accept-Encoding", "Connection", "Content-Length",
         "Transfer-Encoding", "Upgrade", "Expect", "X-Prometheus-Scrape-Timeout-Seconds", "X-Other", "Host "]  # fmt: skip
VALUES = st.sampled_from(["localhost", "*/*", "gzip", "close", "keep-alive", "Upgrade", "chunked", "5", "a b", " a", "a ", "", "é", "a\tb", "a\x00b", "a\nb"])  # fmt: skip
HEADS = st.builds(
    lambda method, path, version, fields, end, rest: (
        f"{method} {path} {version}{end}"
        + "".join(f"{name}: {value}{end}" for name, value in fields)
        + f"{end}{rest}"
    ).encode(),
    st.sampled_from(["GET", "GET", "HEAD", "POST", "get"]),
    st.sampled_from(
        ["/metrics", "/", "/metrics?x=1", "//metrics", "/me trics", "*", "http://x/metrics", "/é"]
    ),
    st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2", "http/1.1"]),
    st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=6),
    st.sampled_from(["\r\n", "\r\n", "\r\n", "\n"]),
    st.sampled_from(["", "", "", "x", "GET / HTTP/1.1\r\n\r\n"]),
)


@given(HEADS)
@example(PROMETHEUS)
@example(CURL)
async def test_what_is_taken_is_what_aiohttp_reads_there(data):
    found = parse_request(data, 8190)
    if found is None:
        return
    parser = HttpRequestParser(None, asyncio.get_running_loop(), 2**16)
    [(message, payload)], upgraded, tail = parser.feed_data(data)
    assert not upgraded
    assert tail == b""
    assert (message.method, message.path, message.version) == ("GET", found.path, (1, 1))
    assert {name.lower(): value for name, value in message.headers.items()} == found.headers
    assert len(message.headers) == len(found.headers)
    assert message.should_close == found.is_last
    assert payload.is_eof() or not payload._exception


@pytest.mark.parametrize("data", [PROMETHEUS, CURL])
def test_scrapers_requests_are_taken(data):
    found = parse_request(data, 8190)
    assert found.path == "/metrics"
    assert not found.is_last
    assert parse_request(data, len(data) - 1) is None


@pytest.mark.parametrize(
    "data",
    [
        CURL.replace(b"GET", b"HEAD"),
        CURL.replace(b"1.1", b"1.0"),
        CURL.replace(b"Host: localhost:9819\r\n", b""),
        CURL.replace(b"Accept: */*", b"Host: evil.example"),
        CURL.replace(b"Accept: */*", b"Content-Length: 1"),
        CURL.replace(b"Accept: */*", b"Transfer-Encoding: chunked"),
        CURL.replace(b"Accept: */*", b"Cookie: x=y"),
        CURL.replace(b"Accept: */*", b"Connection: upgrade"),
        CURL.replace(b"Accept: */*", b"Accept: */*\r\n folded"),
        CURL.replace(b"\r\n", b"\n"),
        CURL + CURL,
        CURL[:-1],
        b"",
    ],
)
def test_all_else_is_for_the_web_server(data):
    assert parse_request(data, 8190) is None


async def answers_to_pieces(connect, pieces):
    """Return all that a listener says to these pieces until it ends the connection, without dates."""
    reader, writer = await connect()
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0.001)
    said = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return re.sub(rb"Date: [^\r]*\r\n", b"", said)


def asking(line):
    """Return a request with this header in place of curl's Accept."""
    return CURL.replace(b"Accept: */*", line)


def asking_for(target, method=b"GET"):
    return CURL.replace(b"GET /metrics", method + b" " + target)


KEPT = [
    CURL,
    PROMETHEUS,
    PROMETHEUS.replace(b": gzip", b": gzip;q=0"),
    *[asking_for(each) for each in (b"/-/healthy", b"/-/ready", b"/", b"/absent", b"//metrics", b"/metrics/")],
    *[asking_for(each) for each in (b"/metrics?x=1", b"/%6detrics", b"/x/../metrics", b"http://evil.example/metrics")],
    *[asking_for(b"/metrics", each) for each in (b"HEAD", b"OPTIONS", b"POST")],
    CURL.replace(b"localhost", b"evil.example"),
    CURL.replace(b"localhost:9819", b""),
    asking(b"Accept:*/*"),
    asking(b"accept: text/plain  "),
    asking("Accept: é".encode()),
    asking(b"Connection: Keep-Alive"),
    asking(b"Content-Length: 3") + b"abc",
    asking(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n",
    b"\r\n" + CURL,
]  # fmt: skip
LAST = [
    CURL.replace(b"Accept", b"Connection: close\r\nAccept"),
    CURL.replace(b"Accept", b"Connection: close\r\nX-Other: 1\r\nAccept"),
    CURL.replace(b"1.1", b"1.0"),
]
BAD = [
    *map(asking, [b"Host: localhost", b"User-Agent: x", b"Accept: a\0b", b"Accept: a\r\n b", b"Accept : b", b": b"]),
    asking(b"Content-Length: 0\r\nContent-Length: 1"),
    asking(b"Content-Length: 3\r\nTransfer-Encoding: chunked") + b"0\r\n\r\n",
    asking(b"Accept: " + b"a" * 9000),
    asking(b"\r\n".join(b"X%d: y" % number for number in range(65))),
    asking_for(b"/metrics?" + b"a" * 3000),
    asking_for(b"/metrics", b"get"),
    CURL.replace(b"1.1", b"9.9"),
    CURL.replace(b"Host: localhost:9819\r\n", b""),
    CURL.replace(b"\r\n", b"\n"),
    CURL.replace(b"*/*\r\n", b"*/*\r"),
    b"\x16\x03\x01\x02 TLS\r\n\r\n",
]  # fmt: skip
CUTS = st.lists(st.integers(min_value=1, max_value=150), max_size=4)


@given(kept=st.lists(st.sampled_from(KEPT), max_size=4), last=st.sampled_from(LAST), cuts=CUTS)
@settings(deadline=None)
async def test_however_requests_come_the_web_server_alone_would_answer_and_count_the_same(kept, last, cuts):
    """Oracle: the same application behind aiohttp from the first byte on."""
    data, pieces = b"".join([*kept, last]), []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]
    async with served(LongPage()) as (listeners, connect), served_by_aiohttp(LongPage()) as (table, other):
        plain = await answers_to_pieces(connect, [*pieces, data])
        assert plain == await answers_to_pieces(other, [*pieces, data])
        assert listeners.status().listeners[0].answers == table.answers
    assert plain.count(b"HTTP/1.") == len(kept) + 1


async def answers_in_turn(connect, *requests):
    """Return what is said to each request once the one before is answered, without dates; the last one ends it."""
    reader, writer = await connect()
    said = []
    for each in requests[:-1]:
        writer.write(each)
        status, headers, body = await answer_to(reader)
        headers.pop("Date", None)
        said.append((status, headers, body))
    writer.write(requests[-1])
    rest = b""
    with contextlib.suppress(ConnectionError):  # it has ended already
        rest = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return [*said, re.sub(rb"Date: [^\r]*\r\n", b"", rest)]


@pytest.mark.parametrize("first", [*BAD, asking(b"Expect: 100-continue")])
@pytest.mark.parametrize("before", [[], [CURL]])
async def test_what_is_no_request_is_refused_as_the_web_server_alone_would(first, before):
    async with served() as (listeners, connect), served_by_aiohttp() as (table, other):
        said = await answers_in_turn(connect, *before, first, LAST[0])
        assert said == await answers_in_turn(other, *before, first, LAST[0])
        # A request of HTTP/1.1 without a host is answered by aiohttp before 3.14.
        allowed = {"100"} if b"Expect" in first else {"400"} if b"Host:" in first else {"200", "400"}
        assert said[len(before)][0].split()[1] in allowed
        assert listeners.status().listeners[0].answers == table.answers
