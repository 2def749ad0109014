"""Certificates made for the tests, and a listener that they can ask."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import ipaddress
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import bcrypt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.web.listener import Listeners
from tests.certificates import make_extensions

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
PASSWORD = "correct horse"
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()


class Authority:
    """Signs certificates and writes them into a folder: NAME.pem and NAME.key."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name(name)
        certificate = self._sign(self.name, self.key, [], is_authority=True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(certificate)

    def make(self, name: str, *names: x509.GeneralName) -> tuple[Path, Path]:
        """Return the paths of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        sans = names or (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        certificate = self._sign(_name(name), key, [x509.SubjectAlternativeName(sans)])
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate)
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    def _sign(self, subject, key, extensions, *, is_authority=False) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - DAY)
            .not_valid_after(NOW + DAY)
        )
        usual = make_extensions(key.public_key(), self.key.public_key(), is_authority=is_authority)
        for each, critical in [*((each, False) for each in extensions), *usual]:
            builder = builder.add_extension(each, critical=critical)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """An authority with a server's certificate, and those of two clients."""
    made = Authority(tmp_path_factory.mktemp("certificates"))
    made.make("server")
    made.make(
        "client",
        x509.DNSName("scraper.example"),
        x509.RFC822Name("ops@example.org"),
        x509.IPAddress(ipaddress.ip_address("2001:db8::1")),
        x509.UniformResourceIdentifier("spiffe://site/scraper"),
    )
    made.make("visitor", x509.DNSName("visitor.example"))
    return made


@pytest.fixture(scope="session")
def stranger(tmp_path_factory):
    """A client whom another authority knows."""
    made = Authority(tmp_path_factory.mktemp("elsewhere"), "elsewhere")
    made.make("client", x509.DNSName("scraper.example"))
    return made


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: str
    peer: dict = field(default_factory=dict)
    version: str = ""
    cipher: str = ""


class StandInDaemon:
    is_ready = True

    def problems(self):
        return []

    def exposition(self, *, openmetrics):
        return b"some_metric 1\n"

    def html(self, asked=None):
        return "<!DOCTYPE html><title>page</title>"


class Site:
    """A listener, and how it answers."""

    def __init__(self, listeners: Listeners, address: str, authority: Authority) -> None:
        self.listeners, self.address, self.authority = listeners, address, authority
        self.host, _, port = address.rpartition(":")
        self.port = int(port)

    def client(self, name: str | None = None, *, signer: Authority | None = None) -> ssl.SSLContext:
        """Return how a client speaks TLS, with a certificate of its own or without."""
        context = ssl.create_default_context(cafile=str(self.authority.path))
        if name is not None:
            folder = (signer or self.authority).folder
            context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        return context

    async def get(self, path: str = "/metrics", tls: ssl.SSLContext | None = None, **headers: str) -> Answer:
        """Ask in a thread; underscores in headers' names stand for dashes."""
        return await asyncio.to_thread(self._get, path, tls, headers)

    def _get(self, path, tls, headers):
        if tls is None:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        else:
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=60, context=tls)
        try:
            connection.connect()
            peer, version, cipher = {}, "", ""
            if tls is not None:
                peer, version = connection.sock.getpeercert(), connection.sock.version()
                cipher = connection.sock.cipher()[0]
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("GET", path, headers=named)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode(), peer, version, cipher)
        finally:
            connection.close()

    def rejected(self, reason: str) -> int:
        [status] = [each for each in self.listeners.status().listeners if each.name == "metrics"]
        return status.rejected[reason]


@pytest.fixture
def write_config(tmp_path, authority):
    """Return a function that writes a web configuration; the certificates lie beside it."""
    for each in authority.folder.iterdir():
        (tmp_path / each.name).write_bytes(each.read_bytes())

    def write(text: str) -> str:
        (tmp_path / "web.yml").write_text(text)
        return str(tmp_path / "web.yml")

    return write


@pytest.fixture
def serve(write_config, authority):
    """Return a context manager that serves with the text of a web configuration and with settings."""

    @asynccontextmanager
    async def serve_with(text: str | None = None, *, inherited=None, address="127.0.0.1:0", **settings):
        path = None if text is None else write_config(text)
        listeners = Listeners(ExporterConfig(web_config_file=path, **settings), inherited)
        async with listeners.serving(StandInDaemon(), address) as bound:
            yield Site(listeners, bound, authority)

    return serve_with
