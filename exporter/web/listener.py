"""Listens for requests: on an address, or on sockets that somebody else has opened."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from jobfeatures.errors import ConfigurationError

Where = str | Sequence[socket.socket]  # HOST:PORT, or sockets that listen already


@asynccontextmanager
async def serving(
    app: web.Application, where: Where, *, key: str = "web.listen_address"
) -> AsyncIterator[str]:
    """Serve until the context is left; gives the address that is listened on as HOST:PORT.

    `key` is the setting that `where` comes from. Raises ConfigurationError if it cannot be had.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        for site in _sites(runner, where):
            try:
                await site.start()
            except OSError as error:
                raise ConfigurationError(key, f"cannot listen on {where}: {error.strerror}") from error
        bound = runner.addresses[0]
        yield f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
    finally:
        await runner.cleanup()


def _sites(runner: web.AppRunner, where: Where) -> list[web.BaseSite]:
    if not isinstance(where, str):
        return [web.SockSite(runner, each) for each in where]
    host, _, port = where.rpartition(":")
    return [web.TCPSite(runner, host.strip("[]") or None, int(port))]
