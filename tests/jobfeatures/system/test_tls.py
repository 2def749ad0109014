import asyncio
import contextlib
import shutil
import ssl
import subprocess
import urllib.request

import pytest

from jobfeatures.publish.http import opening
from jobfeatures.system.tls import load_chain, new_context, read_pem

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture
def make_pair(tmp_path):
    """Return a function that writes a certificate for 127.0.0.1, with a number, and its key."""

    def make(number, certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem"):
        argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        argv += ["-nodes", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
        argv += ["-set_serial", str(number), "-out", str(certificate), "-keyout", str(key)]
        subprocess.run(argv, check=True, capture_output=True)
        return certificate, key

    return make


class FixedTls:
    """TLS with one pair of files."""

    def __init__(self, certificate, key):
        self.context = new_context()
        load_chain(self.context, read_pem(str(certificate)), read_pem(str(key)))

    def admits(self, spoken):
        return True


@pytest.fixture
def serve_tls(tmp_path):
    from contextlib import asynccontextmanager
    from types import SimpleNamespace

    from jobfeatures.publish.http.connectiontable import ConnectionTable
    from jobfeatures.publish.http.server import FeatureServer
    from jobfeatures.publish.http.webserver import listening
    from jobfeatures.publish.tree import FeatureTree

    @asynccontextmanager
    async def serve(tls):
        tree = FeatureTree(str(tmp_path / "features"))
        tree.prepare()
        tree.write_machine({"total_cpu": "8"})
        server = FeatureServer(tree)
        table = ConnectionTable(server.limits)
        async with listening(server, "127.0.0.1:0", tls, table=table) as address:
            host, _, port = address.rpartition(":")
            yield SimpleNamespace(host=host, port=int(port), url=f"https://{address}", connections=table)

    return serve


@pytest.mark.program
async def test_features_are_read_over_https(make_pair, serve_tls):
    certificate, key = make_pair(1)
    context = ssl.create_default_context(cafile=str(certificate))

    def read(url):
        with urllib.request.urlopen(url, context=context) as response:
            return response.read()

    async with serve_tls(FixedTls(certificate, key)) as site:
        assert await asyncio.to_thread(read, f"{site.url}/machinefeatures/total_cpu") == b"8\n"


@pytest.mark.program
def test_files_of_no_use_are_refused(make_pair, tmp_path):
    certificate, key = make_pair(1)
    _, other = make_pair(2, tmp_path / "c2.pem", tmp_path / "k2.pem")
    encrypted = tmp_path / "encrypted.pem"
    subprocess.run(
        ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", encrypted],
        check=True,
        capture_output=True,
    )
    for pair in ((certificate, other), (certificate, encrypted), ("/nonexistent", key), (key, key)):
        with pytest.raises((OSError, ValueError)):
            FixedTls(*pair)


@pytest.mark.program
@pytest.mark.parametrize("is_greeted", [False, True])
async def test_who_has_just_connected_is_answered_before_the_listener_ends(
    make_pair, serve_tls, is_greeted, monkeypatch
):
    monkeypatch.setattr(opening, "END_SECS", 60.0)
    certificate, key = make_pair(1)
    context = ssl.create_default_context(cafile=str(certificate))
    async with contextlib.AsyncExitStack() as stack:
        site = await stack.enter_async_context(serve_tls(FixedTls(certificate, key)))
        reader, writer = await asyncio.open_connection(site.host, site.port)
        while not site.connections.count:
            await asyncio.sleep(0)
        if is_greeted:
            await writer.start_tls(context, server_hostname=site.host)
        ending = asyncio.create_task(stack.pop_all().aclose())
    await asyncio.sleep(0.1)
    if not is_greeted:
        await writer.start_tls(context, server_hostname=site.host)
    writer.write(b"GET /machinefeatures/total_cpu HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(60):
        answer = await reader.read()
        await ending
    assert b"Connection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\n8\n")
    writer.close()
