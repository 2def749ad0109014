"""The metrics listener over real TLS, as a web configuration asks for it."""

import asyncio
import contextlib
import os
import socket
import ssl
import time
from collections import Counter

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish.http import connections
from jobfeatures_exporter.web import listener
from jobfeatures_exporter.web.configfile import reloaded as webfile
from jobfeatures_exporter.web.configfile import tlscontext
from jobfeatures_exporter.web.configfile.reloaded import WebFile
from jobfeatures_exporter.web.configfile.tlscontext import names_of

TLS = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
CA = TLS + "  client_ca_file: ca.pem\n"
REQUIRED = CA + "  client_auth_type: RequireAndVerifyClientCert\n"
IF_GIVEN = CA + "  client_auth_type: VerifyClientCertIfGiven\n"


async def until(condition):
    """Wait for what the event loop does by and by."""
    async with asyncio.timeout(60):
        while not condition():  # nobody tells
            await asyncio.sleep(0.01)


async def refused(site, tls):
    with pytest.raises((ssl.SSLError, ConnectionError, OSError)):
        await site.get(tls=tls)


async def test_metrics_are_served_over_tls_and_not_without(serve):
    async with serve(TLS) as site:
        answer = await site.get(tls=site.client())
        assert (answer.status, answer.body, answer.version) == (200, "some_metric 1\n", "TLSv1.3")
        with pytest.raises(OSError, match=r".*"):
            await site.get()
        await until(lambda: site.rejected("tls_handshake") == 1)


async def test_a_connection_is_kept_between_requests(serve):
    async with serve(TLS) as site:
        reader, writer = await asyncio.open_connection(site.host, site.port, ssl=site.client())
        for _ in range(3):
            writer.write(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readuntil(b"healthy\n")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_request_right_behind_the_handshake_is_answered(serve, monkeypatch):
    """Its bytes come with the client's last words of the handshake, before the connection speaks HTTP."""
    monkeypatch.setattr(connections, "TLS_SHUTDOWN_SECS", 0.1)  # this client takes no leave
    async with serve(TLS) as site:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = site.client().wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection(site.host, site.port)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await asyncio.wait_for(reader.read(65536), 60))
        tls.write(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        writer.write(outgoing.read())  # both in one
        answer = b""
        while data := await asyncio.wait_for(reader.read(65536), 60):
            incoming.write(data)
            while incoming.pending:
                try:
                    answer += tls.read()
                except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                    break
        assert answer.endswith(b"healthy\n")
        writer.close()


@pytest.mark.parametrize(
    ("config", "client", "may"),
    [
        (TLS, None, True),
        (TLS, "client", True),
        (REQUIRED, None, False),
        (REQUIRED, "client", True),
        (REQUIRED, "stranger", False),
        (IF_GIVEN, None, True),
        (IF_GIVEN, "client", True),
        (IF_GIVEN, "stranger", False),
        (TLS + "  client_auth_type: RequestClientCert\n", None, True),
        (TLS + "  client_auth_type: RequestClientCert\n", "stranger", True),
        (REQUIRED + "  client_allowed_sans: [scraper.example]\n", "client", True),
        (REQUIRED + "  client_allowed_sans: [scraper.example]\n", "visitor", False),
        (REQUIRED + "  client_allowed_sans: ['2001:db8::1']\n", "client", True),
        (REQUIRED + "  client_allowed_sans: [ops@example.org]\n", "client", True),
        (REQUIRED + "  client_allowed_sans: ['spiffe://site/scraper']\n", "client", True),
        (REQUIRED + "  client_allowed_sans: [client, scraper]\n", "client", False),
    ],
)
async def test_clients_come_in_as_client_auth_type_says(serve, stranger, config, client, may):
    async with serve(config) as site:
        is_stranger = client == "stranger"
        tls = site.client("client", signer=stranger) if is_stranger else site.client(client)
        if may:
            assert (await site.get(tls=tls)).status == 200
        else:
            await refused(site, tls)
            await until(lambda: site.rejected("client_certificate") + site.rejected("tls_handshake") == 1)


@pytest.mark.parametrize("config", ["  min_version: TLS13\n", "  cipher_suites: [TLS_AES_256_GCM_SHA384]\n"])
async def test_an_older_version_is_refused(serve, config):
    async with serve(TLS + config) as site:
        old = site.client()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        await refused(site, old)
        assert (await site.get(tls=site.client())).version == "TLSv1.3"


async def test_a_newer_version_is_not_spoken_beyond_max_version(serve):
    async with serve(TLS + "  max_version: TLS12\n") as site:
        assert (await site.get(tls=site.client())).version == "TLSv1.2"


async def test_suites_are_those_of_the_file_in_its_order(serve):
    chosen = ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    async with serve(TLS + f"  max_version: TLS12\n  cipher_suites: [{', '.join(chosen)}]\n") as site:
        client = site.client()
        client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305")
        assert (await site.get(tls=client)).cipher == "ECDHE-ECDSA-CHACHA20-POLY1305"
        other = site.client()
        other.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
        await refused(site, other)


async def test_the_clients_order_counts_where_the_servers_does_not(serve):
    config = "  max_version: TLS12\n  prefer_server_cipher_suites: false\n"
    async with serve(TLS + config) as site:
        for name in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"):
            client = site.client()
            client.set_ciphers(f"{name}:ECDHE-ECDSA-AES256-GCM-SHA384")
            assert (await site.get(tls=client)).cipher == name


async def test_one_curve_is_the_only_one(serve):
    async with serve(TLS + "  curve_preferences: [CurveP384]\n") as site:
        fitting, other = site.client(), site.client()
        fitting.set_ecdh_curve("secp384r1")
        other.set_ecdh_curve("prime256v1")
        assert (await site.get(tls=fitting)).status == 200
        await refused(site, other)


async def test_a_new_certificate_is_used_from_the_next_connection_on(serve, authority, tmp_path):
    async with serve(TLS) as site:
        before = (await site.get(tls=site.client())).peer["serialNumber"]
        certificate, key = authority.make("server")
        for each in (certificate, key):
            os.replace(_copy(each, tmp_path / "new"), tmp_path / each.name)
        assert (await site.get(tls=site.client())).peer["serialNumber"] != before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "server.key").write_text(""),
        lambda folder: (folder / "server.pem").write_text("-----BEGIN CERTIFICATE-----\nhalf"),
        lambda folder: (folder / "server.key").write_bytes((folder / "client.key").read_bytes()),
        lambda folder: (folder / "server.key").unlink(),
        lambda folder: (folder / "web.yml").write_text(""),
        lambda folder: (folder / "web.yml").write_text("tls_server_config:\n  cert_file: ser"),
        lambda folder: (folder / "web.yml").write_text("{}"),
        lambda folder: (folder / "web.yml").unlink(),
    ],
)
async def test_what_is_broken_leaves_the_old_in_use_and_is_told_once(serve, tmp_path, caplog, spoil):
    async with serve(TLS) as site:
        await site.get(tls=site.client())
        spoil(tmp_path)
        for _ in range(3):
            assert (await site.get(tls=site.client())).status == 200
        status = site.listeners.status()
        assert not status.file_is_good
        assert status.file_failures == 1
        assert [each.levelname for each in caplog.records].count("ERROR") == 1
        with pytest.raises(ConfigurationError, match=r"web\.config_file"):
            site.listeners.reread()


async def test_a_certificate_that_comes_after_the_file_that_names_it_is_used(serve, authority, tmp_path):
    async with serve(TLS) as site:
        before = (await site.get(tls=site.client())).peer["serialNumber"]
        (tmp_path / "web.yml").write_text(TLS.replace("server.", "later."))
        assert (await site.get(tls=site.client())).peer["serialNumber"] == before
        assert not site.listeners.status().file_is_good
        certificate, key = authority.make("later")
        for each in (key, certificate):
            _copy(each, tmp_path / each.name)
        assert (await site.get(tls=site.client())).peer["serialNumber"] != before
        assert site.listeners.status().file_is_good


def test_what_is_written_while_a_file_is_read_is_read_at_the_next_look(write_config, monkeypatch):
    path = write_config("http_server_config: {headers: {X-Frame-Options: deny}}")
    file = WebFile(path)
    parse = webfile.parse_web_config

    def overtaken(content, source):
        monkeypatch.setattr(webfile, "parse_web_config", parse)
        write_config("basic_auth_users: {}\nhttp_server_config: {headers: {X-Frame-Options: sameorigin}}")
        return parse(content, source)

    monkeypatch.setattr(webfile, "parse_web_config", overtaken)
    file.reload()
    assert file.options.headers == {"X-Frame-Options": "deny"}
    file.refresh()
    assert file.options.headers == {"X-Frame-Options": "sameorigin"}


@pytest.mark.parametrize(
    ("method", "config", "key"),
    [
        ("set_ciphers", "  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]\n", "cipher_suites"),
        ("set_ecdh_curve", "  curve_preferences: [X25519]\n", "curve_preferences"),
    ],
)
def test_what_this_machines_openssl_does_not_allow_is_told_in_one_line(
    write_config, monkeypatch, method, config, key
):
    def refuse(context, _value):  # as OpenSSL refuses by a policy that this machine has not
        getattr(super(strict, context), method)("NONE-SUCH")

    strict = type("Strict", (ssl.SSLContext,), {method: refuse})
    monkeypatch.setattr(tlscontext, "new_context", lambda: strict(ssl.PROTOCOL_TLS_SERVER))
    with pytest.raises(ConfigurationError, match=rf"tls_server_config\.{key}: OpenSSL refuses it"):
        WebFile(write_config(TLS + config))


async def test_a_client_certificate_does_not_cease_to_be_needed(serve, write_config):
    async with serve(REQUIRED) as site:
        write_config(TLS)
        await refused(site, site.client())
        assert site.listeners.status().file_failures == 1
        write_config(REQUIRED + "  client_allowed_sans: [visitor.example]\n")
        await refused(site, site.client("client"))
        assert (await site.get(tls=site.client("visitor"))).status == 200
        assert site.listeners.status().file_is_good
        write_config(REQUIRED)
        await refused(site, site.client("client"))
        assert not site.listeners.status().file_is_good


async def test_a_handshake_that_never_ends_is_counted_and_ended(serve, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_SECS", 0.3)
    async with serve(TLS) as site:
        silent = [socket.create_connection((site.host, site.port)) for _ in range(3)]
        await until(lambda: site.rejected("tls_handshake") == 3)
        assert site.listeners.status().listeners[0].connections == 0
        monkeypatch.setattr(connections, "HANDSHAKE_SECS", 60)  # however slow this machine is
        assert (await site.get(tls=site.client())).status == 200
        for each in silent:
            each.close()


async def test_of_many_that_come_at_once_none_is_cut_off_for_having_waited(serve, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_SECS", 10.0)  # they take longer together, and a turn far less
    monkeypatch.setattr(connections, "TURN_SECS", 10.0)
    monkeypatch.setattr(connections, "TURNS", 1)
    loop, taken = asyncio.get_running_loop(), []
    now = loop.time  # and each takes a second, as on a processor that others want, too
    monkeypatch.setattr(loop, "time", lambda: now() + len(taken))
    async with serve(TLS) as site:
        site.listeners.file.context.sni_callback = lambda *_: taken.append(1)
        tls = site.client()

        async def ask() -> bytes:
            reader, writer = await asyncio.open_connection(
                site.host, site.port, ssl=tls, server_hostname="localhost", ssl_handshake_timeout=3600
            )
            writer.write(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer[:12]

        answers = await asyncio.gather(*(ask() for _ in range(60)), return_exceptions=True)
        assert site.rejected("tls_handshake") == 0
        assert Counter(map(str, answers)) == {"b'HTTP/1.1 200'": 60}
        assert len(taken) == 60


async def test_clients_that_say_nothing_keep_others_waiting_for_a_turn_only(serve, monkeypatch):
    monkeypatch.setattr(connections, "TURNS", 2)
    monkeypatch.setattr(connections, "TURN_SECS", 0.2)
    monkeypatch.setattr(connections, "HANDSHAKE_SECS", 60)
    async with serve(TLS) as site:
        began = time.monotonic()
        silent = [socket.create_connection((site.host, site.port)) for _ in range(4)]
        await until(lambda: site.listeners.status().listeners[0].connections == 4)
        assert (await site.get(tls=site.client())).status == 200
        assert 0.3 < time.monotonic() - began < connections.HANDSHAKE_SECS
        for each in silent:
            each.close()


async def test_a_fault_of_ours_before_the_handshake_leaves_no_connection_open(serve, monkeypatch, caplog):
    async with serve(TLS) as site:

        def fail():
            raise RuntimeError("ours")

        monkeypatch.setattr(site.listeners.file, "refresh", fail)
        client = socket.create_connection((site.host, site.port), timeout=20)
        with client, contextlib.suppress(ConnectionResetError):
            assert await asyncio.to_thread(client.recv, 1) == b""
        assert "TLS handshake failed unexpectedly" in caplog.text


async def test_handshakes_count_among_the_connections_at_once(serve, monkeypatch):
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 5)
    async with serve(TLS) as site:
        silent = [socket.create_connection((site.host, site.port)) for _ in range(20)]
        await until(lambda: site.rejected("too_many_connections") == 15)
        assert (await site.get(tls=site.client())).status == 200
        for each in silent:
            each.close()


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ("tls_server_config: {cert_file: absent.pem, key_file: server.key}", "cert_file"),
        ("tls_server_config: {cert_file: server.pem, key_file: absent.key}", "key_file"),
        ("tls_server_config: {cert_file: server.pem, key_file: client.key}", "key_file"),
        ("tls_server_config: {cert_file: web.yml, key_file: server.key}", "key_file"),
        ("tls_server_config: {cert: nonsense, key_file: server.key}", "key_file"),
        (TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: web.yml\n", "client_ca_file"),
        (TLS + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca: é\n", "client_ca"),
    ],
)
def test_files_that_are_of_no_use_are_told_in_one_line(write_config, config, key):
    with pytest.raises(ConfigurationError) as caught:
        WebFile(write_config(config))
    assert f"web.yml:tls_server_config.{key}:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path):
    with pytest.raises(ConfigurationError, match=r"web\.config_file: .*absent\.yml: cannot be read: No such"):
        WebFile(str(tmp_path / "absent.yml"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="is empty"):
        WebFile(str(tmp_path / "pipe"))
    (tmp_path / "pem.yml").write_text(TLS.replace("server.", "pipe."))
    for name in ("pipe.pem", "pipe.key"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigurationError, match=r"cannot read .*pipe\.pem: the file is empty"):
        WebFile(str(tmp_path / "pem.yml"))
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        WebFile(str(tmp_path))


def test_secrets_that_everybody_can_read_are_a_warning(write_config, tmp_path, caplog):
    path = write_config(TLS)
    (tmp_path / "server.key").chmod(0o644)
    WebFile(path)
    assert "a file with secrets is readable by everybody" in caplog.text
    caplog.clear()
    (tmp_path / "server.key").chmod(0o640)
    WebFile(path)
    assert caplog.text == ""


def test_addresses_in_certificates_are_written_as_go_writes_them():
    certificate = {
        "subjectAltName": (
            ("DNS", "a"),
            ("IP Address", "2001:DB8:0:0:0:0:0:1"),
            ("IP Address", "nonsense"),
            ("DirName", ((("x", "y"),),)),
        )
    }
    assert list(names_of(certificate)) == ["a", "2001:db8::1"]


def _copy(source, target):
    target.write_bytes(source.read_bytes())
    return target
