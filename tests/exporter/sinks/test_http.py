"""Documents posted to a real server."""

import asyncio
import base64
import shutil
import socket
import ssl
import subprocess
import threading

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from jobfeatures.errors import ConfigurationError, SinkError
from jobfeatures_exporter.sinks import http
from jobfeatures_exporter.sinks.config import SinksSettings
from jobfeatures_exporter.sinks.http import make_sink


class Receiver:
    """Keeps what is posted, and answers what it is told to."""

    def __init__(self) -> None:
        self.requests = []
        self.answer = 200
        self.app = web.Application()
        self.app.router.add_route("*", "/{tail:.*}", self._take)

    async def _take(self, request):
        self.requests.append((request.method, request.path, dict(request.headers), await request.read()))
        if self.answer == 302:
            raise web.HTTPFound("/elsewhere")
        return web.Response(status=self.answer, text="x" * 100_000)


@pytest.fixture
async def receiver():
    found = Receiver()
    server = TestServer(found.app)
    await server.start_server()
    found.url = str(server.make_url("/api")).rstrip("/")
    yield found
    await server.close()


def config(**settings):
    return SinksSettings(cluster="c.example.org", **settings)


def sink_to(url, **settings):
    return make_sink(config(http_url=url, **settings))


async def send(sink, message):
    await asyncio.to_thread(sink.send, message)


async def test_a_document_is_posted_below_its_type(receiver, make_message):
    message = make_message(7)
    await send(sink_to(receiver.url), message)
    [(method, path, headers, body)] = receiver.requests
    assert (method, path, body) == ("POST", "/api/sample", message.body)
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers


async def test_a_prefix_stands_before_the_type(receiver, make_message):
    await send(sink_to(receiver.url, topic_prefix="test"), make_message(kind="sysinfo"))
    assert receiver.requests[0][1] == "/api/test.sysinfo"


async def test_the_password_is_read_anew_at_each_request(receiver, make_message, tmp_path):
    file = tmp_path / "password"
    sink = sink_to(receiver.url, http_user="hpc.example.org", http_password_file=str(file))
    for secret in ("first:ü", "second"):
        file.write_text(f"{secret}\n")
        await send(sink, make_message())
        known = base64.b64decode(receiver.requests[-1][2]["Authorization"].removeprefix("Basic ")).decode()
        assert known == f"hpc.example.org:{secret}"


@pytest.mark.parametrize("content", [None, "", b"\xff"])
async def test_without_its_password_nothing_is_posted(receiver, make_message, tmp_path, content):
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(SinkError, match="password"):
        await send(sink_to(receiver.url, http_password_file=str(file)), make_message())
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("answer", "is_final"), [(400, True), (413, True), (401, False), (404, False), (503, False)]
)
async def test_an_answer_that_says_no_is_an_error_for_good_or_for_now(
    receiver, make_message, answer, is_final
):
    receiver.answer = answer
    with pytest.raises(SinkError, match=str(answer)) as raised:
        await send(sink_to(receiver.url), make_message())
    assert raised.value.is_final is is_final


async def test_a_redirect_is_not_followed(receiver, make_message):
    receiver.answer = 302
    with pytest.raises(SinkError, match="302"):
        await send(sink_to(receiver.url), make_message())
    assert len(receiver.requests) == 1


def test_a_server_that_is_away_is_an_error_for_now(make_message, unused_tcp_port):
    with pytest.raises(SinkError) as raised:
        sink_to(f"http://127.0.0.1:{unused_tcp_port}").send(make_message())
    assert not raised.value.is_final


async def test_a_server_that_never_answers_costs_the_timeout(make_message, monkeypatch):
    monkeypatch.setattr(http, "SEND_TIMEOUT_SECS", 0.2)
    release = asyncio.Event()

    async def hang(_reader, writer):
        await release.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        with pytest.raises(SinkError, match=r"timed out|sending took longer than 0\.2 s"):
            await send(sink_to(f"http://127.0.0.1:{port}"), make_message())
    finally:
        release.set()
        server.close()
        await server.wait_closed()


async def test_what_is_no_http_is_an_error_for_now(make_message):
    async def babble(_reader, writer):
        writer.write(b"SSH-2.0-OpenSSH\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        with pytest.raises(SinkError) as raised:
            await send(sink_to(f"http://127.0.0.1:{port}"), make_message())
    finally:
        server.close()
        await server.wait_closed()
    assert not raised.value.is_final


@pytest.mark.program
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
async def test_a_certificate_is_checked(make_message, tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    subprocess.run([*argv, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    receiver = Receiver()
    server = TestServer(receiver.app, scheme="https", host="localhost")
    await server.start_server(ssl=context)
    url = f"https://localhost:{server.port}"
    try:
        with pytest.raises(SinkError, match="certificate"):
            await send(sink_to(url), make_message())
        assert receiver.requests == []
        trusting = make_sink(config(http_url=url, http_ca_file=certificate))
        await send(trusting, make_message())
        assert len(receiver.requests) == 1
        with pytest.raises(SinkError, match="certificate"):  # right authority, other name
            await send(
                make_sink(config(http_url=url.replace("localhost", "127.0.0.1"), http_ca_file=certificate)),
                make_message(),
            )
    finally:
        await server.close()


def test_a_password_without_tls_is_warned_of(caplog):
    make_sink(config(http_url="http://a:1", http_password_file="/etc/secret"))
    assert "unencrypted" in caplog.text


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, "sonar.http_url"),
        ({"http_url": "http://a:1", "http_ca_file": "/no/such/file"}, "sonar.http_ca_file"),
        ({"http_url": "http://a:1", "http_ca_file": __file__}, "sonar.http_ca_file"),
    ],
)
def test_wrong_settings_are_named(settings, key):
    with pytest.raises(ConfigurationError) as raised:
        make_sink(config(**settings))
    assert raised.value.key == key


@pytest.mark.parametrize("slow", ["answering", "reading", "shaking hands"])
def test_a_far_side_that_drips_holds_a_document_no_longer_than_the_limit(slow, make_message, monkeypatch):
    """Each of its steps is quick enough; all of them would take hours."""
    monkeypatch.setattr(http, "SEND_TIMEOUT_SECS", 0.5)
    ended = threading.Event()

    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            while not ended.wait(0.05):
                if slow == "answering":
                    connection.sendall(b"H" if ended.is_set() else b"HTTP/1.1 200 OK\r\nX: y"[:1])
                elif slow == "reading":
                    connection.recv(10)
                else:
                    connection.sendall(b"\x16\x03\x03\x40\x00"[:1])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        scheme = "https" if slow == "shaking hands" else "http"
        sink = sink_to(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        body = b"x" * (50_000_000 if slow == "reading" else 10)
        with pytest.raises(SinkError):
            sink.send(make_message(body=body))
        ended.set()
        thread.join(60)
        assert not thread.is_alive()
