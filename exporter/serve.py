"""Runs the daemon and its listener until a signal or a given time ends them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

from exporter.config import DaemonConfig
from exporter.daemon import Daemon
from exporter.web.app import make_app, serving

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
    daemon = Daemon(config)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with serving(make_app(daemon), config.web_listen_address) as address:
        try:
            daemon.start()
            log.info("listening", extra={"address": address})
            on_listening(address)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), duration_secs)
        finally:
            await asyncio.to_thread(daemon.stop)
    log.info("stopped")
