"""Posts documents over HTTP or HTTPS: to ROOT/sample and so on, with basic authentication.

The standard library's client, in a thread of its own, is enough for a document every few minutes. No redirect
is followed, and proxies are taken from the environment.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection

from jobfeatures.errors import ConfigurationError, SinkError
from jobfeatures_exporter.sinks.config import SinksSettings
from jobfeatures_exporter.sinks.message import SEND_TIMEOUT_SECS, Message, Sink, read_secret

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 65536
# The receiver rejects this document for good: a retry would not help.
FINAL = frozenset({400, 413, 415, 422})


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a POST would become a GET, and send the password to another host."""

    def redirect_request(self, *_arguments: object) -> None:
        """Follow no redirect: the response is final."""


class _Deadline:
    """Aborts a request's network traffic at its deadline: a socket's timeout bounds only one call.

    Name lookups are not aborted: the resolver has its own limits.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._connection: HTTPConnection | None = None
        self._socket: socket.socket | None = None

    def handlers(self, context: ssl.SSLContext) -> tuple[urllib.request.BaseHandler, ...]:
        """Return handlers whose connections can be aborted."""
        deadline = self

        class Plain(HTTPConnection):
            def connect(self) -> None:
                deadline.watch(self, super().connect)

        class Encrypted(HTTPSConnection):
            def connect(self) -> None:
                deadline.watch(self, super().connect)

        class PlainHandler(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> HTTPResponse:
                return self.do_open(Plain, req)

        class EncryptedHandler(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> HTTPResponse:
                return self.do_open(Encrypted, req, context=context)

        return PlainHandler(), EncryptedHandler(context=context)

    def watch(self, connection: HTTPConnection, connect: Callable[[], None]) -> None:
        """Connect, and keep the socket, which the connection drops when a response begins."""
        self._connection = connection
        connect()
        self._socket = connection.sock
        if self.is_over:
            raise TimeoutError("timed out")

    def end(self) -> None:
        """Abort the request: shut down its open sockets."""
        self.is_over = True
        connecting = None if self._connection is None else self._connection.sock
        for each in (self._socket, connecting):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class HttpSink(Sink):
    """Posts documents to one address. A whole request may take `SEND_TIMEOUT_SECS` at most."""

    def __init__(self, config: SinksSettings, url: str, context: ssl.SSLContext) -> None:
        self._url = url
        self._user = config.http_user or config.cluster
        self._password_file = config.http_password_file
        self._prefix = f"{config.topic_prefix}." if config.topic_prefix else ""
        self._context = context

    def send(self, message: Message) -> None:
        """Post one document. Raises SinkError unless the answer has a status below 300."""
        address = f"{self._url}/{self._prefix}{message.kind}"
        request = urllib.request.Request(  # noqa: S310  # from a setting, and only http or https
            address, data=message.body, headers=self._headers(), method="POST"
        )
        deadline = _Deadline()
        opener = urllib.request.build_opener(_NoRedirects, *deadline.handlers(self._context))
        timer = threading.Timer(SEND_TIMEOUT_SECS, deadline.end)
        timer.start()
        try:
            with opener.open(request, timeout=SEND_TIMEOUT_SECS) as answer:
                answer.read(MAX_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                raise SinkError(
                    f"{address}: HTTP status {error.code}", is_final=error.code in FINAL
                ) from error
        except (OSError, HTTPException) as error:
            if deadline.is_over:
                raise SinkError(f"{address}: sending took longer than {SEND_TIMEOUT_SECS:g} s") from error
            raise SinkError(f"{address}: {error}") from error
        finally:
            timer.cancel()

    def _headers(self) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "jobfeatures-exporter"}
        if self._password_file is not None:
            known = f"{self._user}:{read_secret(self._password_file)}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(known).decode("ascii")
        return headers


def make_sink(config: SinksSettings) -> HttpSink:
    """Return the sink that the settings describe, without connecting.

    Raises ConfigurationError if no address is set, or the file of CA certificates is missing or invalid.
    """
    if config.http_url is None:
        raise ConfigurationError("sonar.http_url", "must be set, because sonar.sinks names http")
    ca_file = config.http_ca_file
    if ca_file is not None and not os.path.isfile(ca_file):
        raise ConfigurationError("sonar.http_ca_file", f"there is no file {ca_file}")
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError("sonar.http_ca_file", str(error)) from error
    if config.http_password_file is not None and config.http_url.startswith("http:"):
        log.warning("the password for %s is sent unencrypted: use https in sonar.http_url", config.http_url)
    return HttpSink(config, config.http_url, context)
