"""Runs the daemon and its listener until a signal or a given time ends them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from exporter.collectors import CONTROLLER
from exporter.config import DaemonConfig
from exporter.daemon import Daemon
from exporter.ingest.config import check_ingest
from exporter.snapshot import Kind
from exporter.web.app import Routes, make_app
from exporter.web.listener import serving
from jobfeatures.errors import ConfigurationError

# What a daemon does only where it is asked to is imported only then: it runs
# on every node, and its memory is the jobs'.
if TYPE_CHECKING:
    from exporter.controller import Controller
    from exporter.ingest.serve import Ingest

log = logging.getLogger(__name__)


def serve(
    config: DaemonConfig,
    *,
    duration_secs: float | None = None,
    on_listening: Callable[[str], None] = lambda _address: None,
) -> None:
    """Serve until SIGINT, SIGTERM or for `duration_secs`.

    `on_listening` is called with HOST:PORT once the port is open. Raises
    ConfigurationError before anything has started.
    """
    asyncio.run(_serve(config, duration_secs, on_listening))


async def _serve(
    config: DaemonConfig, duration_secs: float | None, on_listening: Callable[[str], None]
) -> None:
    served = make_served(config)
    ingest = make_ingest(config)
    routes = [*_routes(served), *(() if ingest is None else ingest.routes())]
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with (
        serving(make_app(served, routes), config.web_listen_address) as address,
        _serving_features(config, served),
        contextlib.nullcontext() if ingest is None else ingest.running(),
    ):
        try:
            served.start()
            log.info("listening", extra={"address": address})
            on_listening(address)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), duration_secs)
        finally:
            await asyncio.to_thread(served.stop)
    log.info("stopped")


def make_served(config: DaemonConfig) -> Daemon | Controller:
    """Return what the role asks for, not started. Raises ConfigurationError."""
    if config.role == CONTROLLER:
        from exporter.controller import Controller

        return Controller(config)
    check_listener(config)
    return Daemon(config)


def _routes(served: Daemon | Controller) -> Routes:
    """Return what the metrics listener has to offer beside its own pages."""
    if isinstance(served, Daemon):
        return []
    from exporter.web.discovery import discovery_route

    return [discovery_route(served.targets)]


def make_ingest(config: DaemonConfig) -> Ingest | None:
    """Return what takes documents of other agents, not started, None where none are awaited.

    Raises ConfigurationError.
    """
    check_ingest(config)
    if not config.awaits_documents:
        return None
    from exporter.ingest.serve import Ingest

    return Ingest(config, frozenset(map(Kind, config.jobs_kinds)), config.metrics_max_series)


def check_listener(config: DaemonConfig) -> None:
    """Raise ConfigurationError if the settings of the features' listener contradict each other."""
    if config.features_listen_address is None:
        if config.features_form != "local":
            raise ConfigurationError("features.form", "needs features.listen_address")
        return
    if (config.features_tls_certificate is None) != (config.features_tls_key is None):
        raise ConfigurationError(
            "features.tls_certificate", "certificate and key are needed both, or neither of them"
        )
    if config.features_listen_address.endswith(":0") and config.features_url is None:
        raise ConfigurationError("features.listen_address", "needs a port that jobs can be told")
    for key in ("max_connections", "rate", "job_rate"):
        if getattr(config, f"features_{key}") == 0:
            raise ConfigurationError(f"features.{key}", "must be 1 or more")


@contextlib.asynccontextmanager
async def _serving_features(config: DaemonConfig, daemon: Daemon | Controller) -> AsyncIterator[None]:
    """Serve the features of a node as well, where that is asked for."""
    if config.features_listen_address is None or not isinstance(daemon, Daemon):
        yield
        return
    from jobfeatures.publish.http import FeatureServer, ServerLimits, listening
    from jobfeatures.publish.tls import TlsFiles
    from jobfeatures.publish.tree import FeatureTree

    tls = None
    if config.features_tls_certificate is not None and config.features_tls_key is not None:
        tls = TlsFiles(config.features_tls_certificate, config.features_tls_key)
    limits = ServerLimits(
        connections=config.features_max_connections,
        rate=config.features_rate,
        job_rate=config.features_job_rate,
    )
    server = FeatureServer(FeatureTree(config.features_root), job_of=daemon.job, limits=limits)
    daemon.feature_answers = server.counts
    async with listening(server, config.features_listen_address, tls) as address:
        log.info("serving features", extra={"address": address, "tls": str(tls is not None).lower()})
        yield
