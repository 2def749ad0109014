"""``/sd``: the nodes, for Prometheus' ``http_sd_configs``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

from aiohttp import web

from exporter.cluster.discovery import TargetGroup


def discovery_route(targets: Callable[[], Sequence[TargetGroup] | None]) -> web.RouteDef:
    """Return the route. `targets` gives None as long as no batch system has told of its nodes.

    Prometheus keeps its last list while it is answered with an error, so an
    empty one is never given for want of knowledge.
    """

    def make_body() -> str | None:
        found = targets()
        return None if found is None else json.dumps(found)

    async def answer(_request: web.Request) -> web.Response:
        body = await asyncio.to_thread(make_body)
        if body is None:
            return web.Response(status=503, text="no batch system has told of its nodes yet\n")
        return web.Response(text=body, content_type="application/json")

    return web.get("/sd", answer)
