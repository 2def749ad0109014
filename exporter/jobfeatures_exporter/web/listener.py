"""Opens the metrics listener, and has what all listeners share: web configuration, sockets and counts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from importlib import import_module
from typing import TYPE_CHECKING

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish.http.connections import Connections, Tls
from jobfeatures.publish.http.connectiontable import ENDINGS, ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.opening import Where, accepting
from jobfeatures_exporter.model.statuses import ListenerStatus, WebStatus
from jobfeatures_exporter.web.answers import Scraped, make_answerers
from jobfeatures_exporter.web.config import FEATURES, NODES, SONAR, WebSettings
from jobfeatures_exporter.web.guard import REFUSALS, Guard
from jobfeatures_exporter.web.hosts import is_loopback, parse_names
from jobfeatures_exporter.web.plain import Plain
from jobfeatures_exporter.web.sockets import take_sockets

if TYPE_CHECKING:  # a node may never need these
    from aiohttp.web import Server

    from jobfeatures.publish.http.webserver import Listener
    from jobfeatures_exporter.web.app import Routes
    from jobfeatures_exporter.web.configfile.options import TlsOptions

METRICS = "metrics"
MAX_CONNECTIONS = 512
RATE = 1000.0  # requests per second
CLIENT_RATE = 200.0  # requests, and connections, per second from one address
IDLE_SECS = 120.0  # between two scrapes
_CLIENTS = "RequireAndVerifyClientCert"
HEADER_BYTES = 8190  # browsers send one machine's cookies to all its ports


class Listeners:
    """Opens the listeners of a process with its web configuration, and counts connections and answers.

    `inherited` are sockets that already listen, by the listener's name. All methods run in one event loop.
    """

    def __init__(
        self, config: WebSettings | None = None, inherited: Mapping[str, list[socket.socket]] | None = None
    ) -> None:
        """Load the web configuration file, if any. Raises ConfigurationError if it cannot be used."""
        self._config = config = config or WebSettings()
        self._inherited = inherited or {}
        self._servers: dict[str, tuple[ConnectionTable, Mapping[str, int], Collection[str]]] = {}
        self.file = None
        self._tls: Tls | None = None
        if config.config_file is not None:
            from jobfeatures_exporter.web.configfile.reloaded import FileTls, WebFile

            self.file = WebFile(config.config_file)
            self._tls = FileTls(self.file) if self.file.context is not None else None

    @classmethod
    def from_config(cls, config: WebSettings, others: Mapping[str, str | None]) -> Listeners:
        """Return listeners for these settings, on sockets passed by systemd if so configured.

        `others` are the addresses of the listeners besides that of metrics, by name (None: not configured).
        Raises ConfigurationError if web.config_file is invalid, or a socket is for no configured listener.
        """
        if not config.systemd_socket:
            return cls(config)
        inherited = take_sockets()
        for name, address in others.items():
            if name in inherited and address is None:
                reported = (
                    f"systemd passed a socket named {name}, but that listener has no address in the settings"
                )
                raise ConfigurationError("web.systemd_socket", reported)
        return cls(config, inherited)

    def where(self, name: str, address: str) -> Where:
        """Return where the listener `name` listens: on its inherited sockets, else at `address`."""
        return self._inherited.get(name) or address

    def listening(self, name: str, listener: Listener, address: str) -> AbstractAsyncContextManager[str]:
        """Keep a listener other than that of metrics open in an ``async with`` block; yields HOST:PORT.

        It uses TLS if `web.config_for` names it. Raises ConfigurationError if the address cannot be bound.
        """
        from jobfeatures.publish.http.webserver import listening

        table = ConnectionTable(listener.limits)
        self._servers[name] = table, {}, ()
        tls = self._tls if name in self._config.config_for else None
        return listening(listener, self.where(name, address), tls, table=table)

    def reread(self) -> None:
        """Reload the web configuration file.

        Raises ConfigurationError if it is invalid; the old one then stays.
        """
        if self.file is not None and (problem := self.file.reload()):
            raise ConfigurationError("web.config_file", problem)

    def status(self) -> WebStatus:
        """Return each listener's connections and answers so far, and the state of web.config_file."""
        return WebStatus(
            listeners=tuple(
                ListenerStatus(
                    name=name,
                    connections=table.count,
                    answers=dict(table.answers),
                    rejected={
                        **{reason: refused.get(reason, 0) for reason in known},
                        **{reason: table.ended[reason] for reason in ENDINGS},
                    },
                )
                for name, (table, refused, known) in self._servers.items()
            ),
            file_failures=None if self.file is None else self.file.failures,
            file_is_good=self.file is None or not self.file.problem,
        )

    @asynccontextmanager
    async def serving(
        self, scraped: Scraped, address: str, routes: Callable[[], Routes] = tuple
    ) -> AsyncIterator[str]:
        """Serve metrics until the ``with`` block ends; yields the listening address as HOST:PORT.

        `routes` returns further routes. Raises ConfigurationError if the address cannot be bound.
        """
        config = self._config
        where = self.where(METRICS, address)
        limits = ConnectionLimits(
            connections=MAX_CONNECTIONS,
            idle_secs=IDLE_SECS,
            header_bytes=HEADER_BYTES,
            client_rate=CLIENT_RATE,
        )
        answerers = make_answerers(scraped, self.status)
        table = ConnectionTable(limits)
        names = _names(config.hosts, where)
        guard = Guard(rate=RATE, client_rate=CLIENT_RATE, names=names, file=self.file)
        self._servers[METRICS] = table, guard.refused, REFUSALS
        async with AsyncExitStack() as stack:
            stack.enter_context(closing(guard))

            async def make_server() -> Server:
                await asyncio.to_thread(
                    import_module, "jobfeatures_exporter.web.app"
                )  # in a thread: other requests go on
                from jobfeatures_exporter.web.app import make_app, running

                app = make_app(scraped, routes(), answerers)
                return await stack.enter_async_context(running(app, limits, table, guard))

            quick = Plain(answerers, guard, table, HEADER_BYTES).quick
            connections = Connections(table, self._tls, make=make_server, quick=quick)
            async with accepting(connections, where, key="web.listen_address") as bound:
                yield bound


def check_web(config: WebSettings, others: Mapping[str, str | None], features_url: str | None) -> None:
    """Raise ConfigurationError if web.config_file is invalid, or does not suit a listener in web.config_for.

    The latter also holds for a listener that is not configured. `others` are the addresses of the listeners
    besides that of metrics, by name; `features_url` is the URL of features that jobs are given.
    """
    if config.config_file is None:
        if config.config_for:
            raise ConfigurationError("web.config_for", "can be set only with web.config_file")
        return
    from jobfeatures_exporter.web.configfile.reloaded import WebFile

    tls = WebFile(config.config_file, quiet=True).options.tls
    for name in config.config_for:
        if tls is None:
            raise ConfigurationError(
                "web.config_for", "the file named by web.config_file must have tls_server_config"
            )
        if reason := _misfit(name, others, features_url, tls):
            raise ConfigurationError("web.config_for", f"cannot include {name}: {reason}")


def _misfit(name: str, others: Mapping[str, str | None], features_url: str | None, tls: TlsOptions) -> str:
    """Return why a listener cannot use the web configuration's TLS, empty if it can."""
    if name == SONAR:
        return "sonar.listen is not set" if others[SONAR] is None else ""
    if name == NODES:
        reported = "nodes send tokens, but web.config_file requires client certificates"
        return reported if tls.client_auth.value == _CLIENTS else ""
    if others[FEATURES] is None:
        return "features.listen_address is not set"
    if not (features_url or "").startswith("https://"):
        return "features.url must be the https:// address that jobs use"
    if tls.client_auth.value == _CLIENTS:
        return "jobs have no client certificate, but web.config_file requires one"
    return ""


def _names(text: str | None, where: Where) -> Collection[str] | None:
    """Return the host names that requests may use besides IP addresses and localhost; None: any."""
    if text is not None:
        return parse_names(text)
    if isinstance(where, str):
        return frozenset() if is_loopback(where.rpartition(":")[0]) else None
    bound = [each.getsockname() for each in where]
    return frozenset() if all(isinstance(each, tuple) and is_loopback(each[0]) for each in bound) else None
