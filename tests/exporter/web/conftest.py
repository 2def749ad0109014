"""Authorities, and a listener with the text of a web configuration."""

from __future__ import annotations

import ipaddress
from contextlib import asynccontextmanager

import pytest
from cryptography import x509

from jobfeatures_exporter.web.config import WebSettings
from jobfeatures_exporter.web.listener import Listeners
from tests.exporter.web.authority import Authority
from tests.exporter.web.standins import Site, StandInDaemon


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
        listeners = Listeners(WebSettings(config_file=path, **settings), inherited)
        async with listeners.serving(StandInDaemon(), address) as bound:
            yield Site(listeners, bound, authority)

    return serve_with
