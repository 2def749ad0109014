"""What the metrics listener answers: /metrics, health, and the page for people."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple, Protocol

from aiohttp import web

from jobfeatures_exporter.cluster.discovery import TargetGroup
from jobfeatures_exporter.exposition import choose_format
from jobfeatures_exporter.web.asked import Asked, parse_asked
from jobfeatures_exporter.web.documentation import documentation_routes

MIN_INTERVAL_SECS = 1.0  # pages that are asked for sooner are the same one
KINDS: Final = {"page.css": "text/css", "page.js": "text/javascript", "page.svg": "image/svg+xml"}


class Shown(Protocol):
    """What makes the page."""

    def html(self, asked: Asked) -> str | None:
        """Return the page as it is now, None where there is none of that job."""


class Made(NamedTuple):
    """A page, when it was made (monotonic), its status, and the same compressed."""

    at_secs: float
    status: int
    text: bytes
    packed: bytes

    def answer(self, request: web.Request) -> web.Response:
        """Return it as the request takes it."""
        from jobfeatures_exporter.web.pages import CONTENT_SECURITY_POLICY

        headers = {
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Cache-Control": "no-store",
            "Vary": "Accept-Encoding",
        }
        body = self.text
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            body = self.packed
        return web.Response(
            body=body, status=self.status, content_type="text/html", charset="utf-8", headers=headers
        )


def make_page(text: str | None, asked: Asked) -> Made:
    """Return the page with this text; None is a job that is not known."""
    status = 200
    if text is None:
        from jobfeatures_exporter.web.pages.job import render_unknown

        text, status = render_unknown(asked.job_id), 404
    return Made(time.monotonic(), status, text.encode(), zlib.compress(text.encode(), 1, 31))


def asked_of(request: web.Request) -> Asked:
    """Return which page a request asks for."""
    return parse_asked(request.query, request.match_info.get("job", ""))


def page_routes(answer: Callable[[web.Request], Awaitable[web.Response]]) -> list[web.RouteDef]:
    """Return the pages, which `answer` gives, and the files that they refer to."""
    return [
        web.get("/", answer),
        web.get("/job/{job}", answer),
        web.get("/{name:page\\.(?:css|js|svg)}", _asset),
    ]


async def _asset(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    text = await asyncio.to_thread(read_asset, name)
    return web.Response(text=text, content_type=KINDS[name], headers={"Cache-Control": "max-age=300"})


class Front:
    """Makes pages in a thread, one at a time and each at most once in `MIN_INTERVAL_SECS`.

    What they are made with is imported when somebody first opens one.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._lock = asyncio.Lock()
        self._made: dict[Asked, Made] = {}

    def routes(self) -> list[web.RouteDef]:
        """Return the pages and the files that they refer to."""
        return page_routes(self._page)

    async def _page(self, request: web.Request) -> web.Response:
        asked = asked_of(request)
        async with self._lock:
            oldest_secs = time.monotonic() - MIN_INTERVAL_SECS
            self._made = {each: made for each, made in self._made.items() if made.at_secs > oldest_secs}
            if asked not in self._made:
                self._made[asked] = await asyncio.to_thread(self._make, asked)
            made = self._made[asked]
        return made.answer(request)

    def _make(self, asked: Asked) -> Made:
        return make_page(self._shown.html(asked), asked)


@cache
def read_asset(name: str) -> str:
    """Return the text of a file of `KINDS`. Raises OSError where the installation is damaged."""
    from importlib.resources import files  # nobody may ever open the page

    return files("jobfeatures_exporter.web.pages").joinpath(name).read_text(encoding="utf-8")


class Page(Protocol):
    """What makes metrics."""

    def exposition(self, *, openmetrics: bool) -> bytes:
        """Return the metrics as text; may take until the deadline."""


class Scraped(Page, Shown, Protocol):
    """What the listener serves: the daemon of a node, or the controller's."""

    @property
    def is_ready(self) -> bool:
        """Return whether a scrape would show what it is there for, or say why it does not."""

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
    takes_gzip = "gzip" in request.headers.get("Accept-Encoding", "")

    def make() -> tuple[bytes, dict[str, str]]:
        body = page.exposition(openmetrics=openmetrics)
        headers = {"Content-Type": content_type}
        if takes_gzip and len(body) >= COMPRESS_FROM_BYTES:
            return zlib.compress(body, 1, 31), {**headers, "Content-Encoding": "gzip"}
        return body, headers

    body, headers = await asyncio.to_thread(make)
    return web.Response(body=body, headers=headers)


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="healthy\n")


async def _ready(request: web.Request) -> web.Response:
    scraped = request.app[SCRAPED]
    is_ready = scraped.is_ready
    lines = ["ready" if is_ready else "not ready", *scraped.problems()]
    return web.Response(status=200 if is_ready else 503, text="\n".join(lines) + "\n")


def discovery_route(targets: Callable[[], Sequence[TargetGroup] | None]) -> web.RouteDef:
    """Return the route. `targets` gives None as long as no batch system has reported its nodes.

    Prometheus keeps its last list while it is answered with an error, so an
    empty one is never given for lack of knowledge.
    """

    def make_body() -> str | None:
        found = targets()
        return None if found is None else json.dumps(found)

    async def answer(_request: web.Request) -> web.Response:
        body = await asyncio.to_thread(make_body)
        if body is None:
            return web.Response(status=503, text="no batch system has reported its nodes yet\n")
        return web.Response(text=body, content_type="application/json")

    return web.get("/sd", answer)
