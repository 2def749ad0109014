"""A daemon that says little, a password, and a listener that tests can ask."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from dataclasses import dataclass, field

import bcrypt

from jobfeatures_exporter.web.listener import Listeners
from tests.exporter.web.authority import Authority

PASSWORD = "correct horse"


HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()


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

    def exposition(self, *, openmetrics, web=None):
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
