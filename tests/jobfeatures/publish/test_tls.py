import shutil
import ssl
import subprocess
import urllib.request

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish.tls import TlsFiles

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


async def serial_of(site):
    import asyncio

    pem = await asyncio.to_thread(ssl.get_server_certificate, (site.host, site.port))
    argv = ["openssl", "x509", "-noout", "-serial"]
    done = await asyncio.to_thread(subprocess.run, argv, input=pem.encode(), capture_output=True)
    return int(done.stdout.decode().strip().removeprefix("serial="), 16)


@pytest.fixture
def serve_tls(tmp_path):
    from contextlib import asynccontextmanager
    from types import SimpleNamespace

    from jobfeatures.publish.http.server import FeatureServer, listening
    from jobfeatures.publish.tree import FeatureTree

    @asynccontextmanager
    async def serve(tls):
        tree = FeatureTree(str(tmp_path / "features"))
        tree.prepare()
        tree.write_machine({"total_cpu": "8"})
        async with listening(FeatureServer(tree), "127.0.0.1:0", tls) as address:
            host, _, port = address.rpartition(":")
            yield SimpleNamespace(host=host, port=int(port), url=f"https://{address}")

    return serve


@pytest.mark.program
async def test_features_are_read_over_https(make_pair, serve_tls):
    import asyncio

    certificate, key = make_pair(1)
    context = ssl.create_default_context(cafile=str(certificate))

    def read(url):
        with urllib.request.urlopen(url, context=context) as response:
            return response.read()

    async with serve_tls(TlsFiles(str(certificate), str(key))) as site:
        assert await asyncio.to_thread(read, f"{site.url}/machinefeatures/total_cpu") == b"8\n"


@pytest.mark.program
async def test_a_new_certificate_is_used_and_a_broken_one_is_not(make_pair, serve_tls, caplog, tmp_path):
    certificate, key = make_pair(1)
    tls = TlsFiles(str(certificate), str(key))
    async with serve_tls(tls) as site:
        assert await serial_of(site) == 1
        assert not tls.reload_if_changed()
        make_pair(2)
        assert tls.reload_if_changed()
        assert await serial_of(site) == 2
        make_pair(3, certificate=certificate, key=tmp_path / "other.pem")  # does not fit the key
        for broken in (None, "", "-----BEGIN CERTIFICATE-----\nx\n"):
            if broken is not None:
                certificate.write_text(broken)
            assert not tls.reload_if_changed()
            assert await serial_of(site) == 2
        certificate.unlink()
        assert not tls.reload_if_changed()
        assert await serial_of(site) == 2
        assert "the old one stays" in caplog.text
        make_pair(4)
        assert tls.reload_if_changed()
        assert await serial_of(site) == 4


@pytest.mark.program
def test_a_context_that_handshakes_may_be_at_work_with_is_not_changed(make_pair):
    tls = TlsFiles(*map(str, make_pair(1)))
    before = tls.context
    make_pair(2)
    assert tls.reload_if_changed()
    assert tls.context is not before


@pytest.mark.program
def test_wrong_files_at_the_start_are_a_wrong_setting(make_pair, tmp_path):
    certificate, key = make_pair(1)
    _, other = make_pair(2, tmp_path / "c2.pem", tmp_path / "k2.pem")
    encrypted = tmp_path / "encrypted.pem"
    subprocess.run(
        ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", encrypted],
        check=True,
        capture_output=True,
    )
    for pair in ((certificate, other), (certificate, encrypted), ("/nonexistent", key), (key, key)):
        with pytest.raises(ConfigurationError, match=r"features\.tls_certificate"):
            TlsFiles(*map(str, pair))
