"""What the metrics listener answers: /metrics, health, and the page for people."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from aiohttp import web

from jobfeatures_exporter.cluster.discovery import TargetGroup
from jobfeatures_exporter.exposition import choose_format
from jobfeatures_exporter.web.documentation import documentation_routes
from jobfeatures_exporter.web.front import Front, Shown


class Page(Protocol):
    """What makes metrics."""

    def exposition(self, *, openmetrics: bool) -> bytes:
        """Return the metrics as text; may take until the deadline."""


class Scraped(Page, Shown, Protocol):
    """What the listener serves: the daemon of a node, or the controller's."""

    @property
    def is_ready(self) -> bool:
        """Tell whether a scrape would show what it is there for, or tell why it does not."""

    def problems(self) -> Collection[str]:
        """Return what has not been read yet, and what fails: a line each."""


Routes = Iterable[web.RouteDef]
COMPRESS_FROM_BYTES = 32 * 1024
SCRAPED: web.AppKey[Scraped] = web.AppKey("scraped")
SCRAPES: web.AppKey[asyncio.Semaphore] = web.AppKey("scrapes", asyncio.Semaphore)
MAX_SCRAPES = 4  # at once; more wait: each waits for the same look at the node


def make_app(scraped: Scraped, routes: Routes = ()) -> web.Application:
    """Return the application that serves a running daemon, and what else it has to offer."""
    app = web.Application(client_max_size=1024)
    app[SCRAPED] = scraped
    app[SCRAPES] = asyncio.Semaphore(MAX_SCRAPES)
    app.add_routes([*Front(scraped).routes(), *documentation_routes()])
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/-/healthy", _healthy)
    app.router.add_get("/-/ready", _ready)
    app.add_routes(routes)
    return app


async def _metrics(request: web.Request) -> web.Response:
    async with request.app[SCRAPES]:
        return await answer_metrics(request, request.app[SCRAPED])


async def answer_metrics(request: web.Request, page: Page) -> web.Response:
    """Return the metrics in the format, and compressed where, the request asks for it; made in a thread."""
    openmetrics, content_type = choose_format(request.headers.get("Accept", ""))
    body = await asyncio.to_thread(page.exposition, openmetrics=openmetrics)
    headers = {"Content-Type": content_type}
    if len(body) >= COMPRESS_FROM_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
        body = await asyncio.to_thread(zlib.compress, body, 1, 31)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="healthy\n")


async def _ready(request: web.Request) -> web.Response:
    scraped = request.app[SCRAPED]
    is_ready = scraped.is_ready
    lines = ["ready" if is_ready else "not ready", *scraped.problems()]
    return web.Response(status=200 if is_ready else 503, text="\n".join(lines) + "\n")


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
