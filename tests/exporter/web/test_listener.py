"""What the metrics listener grants, to whom, and what it says of it."""

import asyncio
import base64
import contextlib
import socket

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish.http import connectiontable, webserver
from jobfeatures_exporter.web import listener
from jobfeatures_exporter.web.config import WebSettings
from jobfeatures_exporter.web.listener import Listeners, check_web
from tests.exporter.web.standins import HASH, PASSWORD, StandInDaemon

USERS = f"basic_auth_users:\n  alice: {HASH}\n"


def basic(password):
    return {"Authorization": "Basic " + base64.b64encode(f"alice:{password}".encode()).decode()}


async def test_users_are_asked_for_their_password_everywhere(serve):
    async with serve(USERS) as site:
        for path in ("/metrics", "/", "/-/healthy", "/absent"):
            answer = await site.get(path)
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        assert (await site.get(**basic("wrong"))).status == 401
        answer = await site.get(**basic(PASSWORD))
        assert (answer.status, answer.body) == (200, "some_metric 1\n")
        assert site.rejected("password") == 5
        assert site.listeners.status().listeners[0].answers == {401: 5, 200: 1}


async def test_new_users_count_from_the_next_request_on(serve, write_config):
    async with serve(USERS) as site:
        assert (await site.get(**basic(PASSWORD))).status == 200
        write_config(USERS.replace("alice", "bob"))
        assert (await site.get(**basic(PASSWORD))).status == 401
        write_config(USERS)
        assert (await site.get(**basic(PASSWORD))).status == 200


async def test_users_do_not_vanish_with_a_file_that_names_none(serve, write_config):
    async with serve(USERS) as site:
        write_config("http_server_config: {}")
        assert (await site.get()).status == 401
        assert not site.listeners.status().file_is_good


async def test_guesses_are_slowed_down(serve):
    async with serve(USERS) as site:
        answers = [(await site.get(**basic(f"guess {number}"))).status for number in range(12)]
        assert answers.count(429) == site.rejected("password_check") > 0
        assert answers[:4] == [401] * 4


async def test_pages_carry_headers_that_keep_browsers_in(serve):
    async with serve() as site:
        headers = (await site.get("/")).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Frame-Options"] == "deny"
        assert headers["Referrer-Policy"] == "no-referrer"
        for path in ("/", "/metrics", "/absent"):
            answer = await site.get(path)
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "Python" not in answer.headers["Server"]


async def test_the_files_headers_come_with_every_answer(serve):
    config = "http_server_config:\n  headers:\n    X-Frame-Options: sameorigin\n    X-XSS-Protection: '0'\n"
    async with serve(config + USERS) as site:
        for answer in (await site.get("/", **basic(PASSWORD)), await site.get("/metrics")):
            assert answer.headers.get_all("X-Frame-Options") == ["sameorigin"]
            assert answer.headers["X-XSS-Protection"] == "0"


async def test_one_address_has_a_limit_of_its_own_before_that_of_all(serve, monkeypatch, no_refill):
    monkeypatch.setattr(listener, "CLIENT_RATE", 5)
    monkeypatch.setattr(listener, "RATE", 8)
    async with serve() as site:
        reader, writer = await asyncio.open_connection(site.host, site.port)
        statuses = []
        for _ in range(30):
            writer.write(b"HEAD /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
            statuses.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        assert statuses.count(b"429") == site.rejected("client_rate") > 10
        assert site.rejected("rate") == 0
        writer.close()


async def test_one_address_has_a_limit_of_connections_too(serve, monkeypatch, no_refill):
    monkeypatch.setattr(listener, "CLIENT_RATE", 5)
    async with serve() as site:
        opened = [await asyncio.open_connection(site.host, site.port) for _ in range(20)]
        while site.rejected("connection_rate") == 0:
            await asyncio.sleep(0)
        for _, writer in opened:
            writer.close()


async def test_all_together_have_a_limit(serve, monkeypatch, no_refill):
    monkeypatch.setattr(listener, "CLIENT_RATE", 1000)
    monkeypatch.setattr(listener, "RATE", 2)
    async with serve() as site:
        answers = [await site.get() for _ in range(12)]
        refused = [each for each in answers if each.status == 429]
        assert len(refused) == site.rejected("rate") > 0
        assert refused[0].headers["Retry-After"] == "1"


async def test_the_files_rate_limit_is_a_bucket_for_all(serve):
    async with serve("rate_limit: {interval: 1h, burst: 3}") as site:
        assert [(await site.get()).status for _ in range(5)] == [200, 200, 200, 429, 429]
        assert site.rejected("rate_limit") == 2


@contextlib.contextmanager
def clients_that_do_not_read(site, count):
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((site.host, site.port))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield


async def test_who_does_not_read_an_answer_is_ended(serve, monkeypatch):
    monkeypatch.setattr(StandInDaemon, "exposition", lambda _self, **_: bytes(32 * 2**20))
    monkeypatch.setattr(connectiontable, "HEAD_SECS", 0.2)
    monkeypatch.setattr(connectiontable, "LOOK_SECS", 0.05)
    async with serve() as site:
        with clients_that_do_not_read(site, 1):
            async with asyncio.timeout(60):
                while site.rejected("slow_reader") == 0:
                    await asyncio.sleep(0.01)


async def test_a_body_is_not_taken(serve, monkeypatch):
    monkeypatch.setattr(webserver, "LINGER_SECS", 0.0)
    async with serve() as site:
        reader, writer = await asyncio.open_connection(site.host, site.port)
        writer.write(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\nx")
        assert (await asyncio.wait_for(reader.readline(), 60)).split()[1] == b"405"
        await asyncio.wait_for(reader.read(), 60)
        writer.close()


async def test_on_loopback_names_from_elsewhere_are_refused(serve):
    async with serve() as site:
        assert (await site.get(Host="evil.example")).status == 421
        assert (await site.get(Host="localhost:9819")).status == 200
        assert site.rejected("host") == 1


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://evil.example/metrics", "127.0.0.1", b"421"),
        ("http://localhost:9819/metrics", "evil.example", b"200"),
    ],
)
async def test_of_an_absolute_target_the_host_counts(serve, target, host, status):
    async with serve() as site:
        reader, writer = await asyncio.open_connection(site.host, site.port)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.readline(), 60)).split()[1] == status
        writer.close()


async def test_names_may_be_given(serve):
    async with serve(hosts="node1, Node1.example") as site:
        assert [(await site.get(Host=name)).status for name in ("node1:80", "node1.EXAMPLE", "node2")] == [
            200,
            200,
            421,
        ]


async def test_sockets_that_are_handed_over_are_listened_on(serve, sockets):
    first = socket.create_server(("127.0.0.1", 0))
    second = socket.create_server(("127.0.0.1", 0))
    path = socket.socket(socket.AF_UNIX)
    path.bind(str(sockets / "metrics.sock"))
    path.listen()
    port = second.getsockname()[1]
    async with serve(inherited={"metrics": [first, second, path]}, address="127.0.0.1:1") as site:
        assert site.port == first.getsockname()[1]
        assert (await site.get()).status == 200
        site.port = port
        assert (await site.get()).status == 200
        reader, writer = await asyncio.open_unix_connection(str(sockets / "metrics.sock"))
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert (await reader.read()).endswith(b"some_metric 1\n")
        writer.close()


NO_OTHERS = {"features": None, "sonar": None}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"config_for": ("sonar",)}, r"web\.config_for: can be set only with web\.config_file"),
        ({"config_file": "/absent/web.yml"}, r"web\.config_file: /absent/web\.yml: cannot be read"),
    ],
)
def test_settings_that_contradict_each_other_are_told(settings, said):
    with pytest.raises(ConfigurationError, match=said):
        check_web(WebSettings(**settings), NO_OTHERS, None)


TLS = "tls_server_config: {cert_file: server.pem, key_file: server.key}"
MUTUAL = TLS[:-1] + ", client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert}"
OTHERS, URL = {"features": "127.0.0.1:9820", "sonar": None}, "https://node1:9820"


@pytest.mark.parametrize(
    ("text", "name", "others", "said"),
    [
        ("{}", "sonar", (NO_OTHERS, None), "must have tls_server_config"),
        (TLS, "sonar", (NO_OTHERS, None), r"cannot include sonar: sonar\.listen is not set"),
        (MUTUAL, "nodes", (NO_OTHERS, None), "cannot include nodes: nodes send tokens"),
        (TLS, "features", (NO_OTHERS, None), r"features\.listen_address is not set"),
        (TLS, "features", (OTHERS, None), r"features\.url must be"),
        (MUTUAL, "features", (OTHERS, URL), "jobs have no client certificate"),
    ],
)
def test_other_listeners_take_tls_only_where_it_fits(write_config, text, name, others, said):
    with pytest.raises(ConfigurationError, match=said):
        check_web(WebSettings(config_file=write_config(text), config_for=(name,)), *others)


def test_what_fits_is_accepted(write_config):
    check_web(WebSettings(), NO_OTHERS, None)
    check_web(WebSettings(config_file=write_config(TLS), config_for=("features",)), OTHERS, URL)


@pytest.mark.parametrize("name", ["features", "sonar"])
def test_a_socket_for_a_listener_that_is_not_set_is_refused(monkeypatch, name):
    monkeypatch.setattr(listener, "take_sockets", lambda: {"metrics": [], name: []})
    with pytest.raises(
        ConfigurationError, match=rf"web\.systemd_socket: systemd passed a socket named {name}"
    ):
        Listeners.from_config(WebSettings(systemd_socket=True), NO_OTHERS)


def test_sockets_are_taken_only_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(listener, "take_sockets", lambda: {"metrics": ["a socket"]})
    assert Listeners.from_config(WebSettings(), NO_OTHERS).where("metrics", "h:1") == "h:1"
    made = Listeners.from_config(WebSettings(systemd_socket=True), NO_OTHERS)
    assert made.where("metrics", "h:1") == ["a socket"]
