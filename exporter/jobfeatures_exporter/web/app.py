"""Makes the metrics listener's web application: /metrics, health, pages for people, service discovery."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Final, NamedTuple

from aiohttp import web

from jobfeatures.publish.http.connectiontable import ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.webserver import Handler, make_server
from jobfeatures_exporter.cluster.discovery import TargetGroup
from jobfeatures_exporter.families.exposition import takes
from jobfeatures_exporter.web.answers import (
    ANSWERED_BY,
    Answerer,
    Scraped,
    WebAnswer,
    make_answerers,
    pack,
    share_calls,
)
from jobfeatures_exporter.web.asked import AskedPage, parse_asked
from jobfeatures_exporter.web.documentation import documentation_routes
from jobfeatures_exporter.web.guard import Guard
from jobfeatures_exporter.web.hosts import host_asked

MIN_INTERVAL_SECS = 1.0  # requests within this time share one page
OF_PAGES: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "deny",
}
KINDS: Final = {"page.css": "text/css", "page.js": "text/javascript", "page.svg": "image/svg+xml"}


class RenderedPage(NamedTuple):
    """A rendered page: when it was made (monotonic seconds), its HTTP status, its HTML, plain and gzipped."""

    at_secs: float
    status: int
    text: bytes
    packed: bytes

    def answer(self, request: web.Request) -> web.Response:
        """Return the page as the response to a request, gzipped if the client accepts gzip."""
        from jobfeatures_exporter.web.pages import CONTENT_SECURITY_POLICY

        headers = {
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Cache-Control": "no-store",
            "Vary": "Accept-Encoding",
        }
        body = self.text
        if takes(request.headers.get("Accept-Encoding", ""), "gzip"):
            headers["Content-Encoding"] = "gzip"
            body = self.packed
        return web.Response(
            body=body, status=self.status, content_type="text/html", charset="utf-8", headers=headers
        )


def make_page(text: str | None, asked: AskedPage) -> RenderedPage:
    """Return a rendered page with the HTML `text`; if that is None, the 404 page on an unknown job."""
    status = 200
    if text is None:
        from jobfeatures_exporter.web.pages.job import render_unknown

        text, status = render_unknown(asked.job_id), 404
    return RenderedPage(time.monotonic(), status, text.encode(), pack(text.encode()))


def asked_of(request: web.Request) -> AskedPage:
    """Return which page a request asks for."""
    return parse_asked(request.query, request.match_info.get("job", ""))


def page_routes(answer: Callable[[web.Request], Awaitable[web.Response]]) -> list[web.RouteDef]:
    """Return the routes of HTML pages, handled by `answer`, and of the style and script they refer to."""
    return [
        web.get("/", answer),
        web.get("/job/{job}", answer),
        web.get("/{name:page\\.(?:css|js|svg)}", _asset),
    ]


async def _asset(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    text = await asyncio.to_thread(read_asset, name)
    return web.Response(text=text, content_type=KINDS[name], headers={"Cache-Control": "max-age=300"})


def front_routes(shown: Scraped) -> list[web.RouteDef]:
    """Return the routes of the HTML pages of a daemon, and of the files they refer to.

    Pages are rendered in a thread, one at a time and each at most once per `MIN_INTERVAL_SECS`. The renderer
    is imported when a page is first opened.
    """
    lock = asyncio.Lock()
    kept: dict[AskedPage, RenderedPage] = {}

    async def answer(request: web.Request) -> web.Response:
        asked = asked_of(request)
        async with lock:
            if request.transport is None:  # disconnected while it waited
                raise web.HTTPServiceUnavailable
            oldest_secs = time.monotonic() - MIN_INTERVAL_SECS
            for each in [each for each, made in kept.items() if made.at_secs <= oldest_secs]:
                del kept[each]
            if asked not in kept:
                kept[asked] = await asyncio.to_thread(lambda: make_page(shown.html(asked), asked))
            return kept[asked].answer(request)

    return page_routes(answer)


@cache
def read_asset(name: str) -> str:
    """Return the text of a file (style, script, icon) in `KINDS`. Raises OSError if it is not installed."""
    from importlib.resources import files  # pages may never be opened

    return files("jobfeatures_exporter.web.pages").joinpath(name).read_text(encoding="utf-8")


Routes = Iterable[web.RouteDef]


def make_app(
    scraped: Scraped, routes: Routes = (), answerers: Mapping[str, Answerer] | None = None
) -> web.Application:
    """Return the web application that serves a running daemon: its pages, and what programs request.

    `answerers` are the functions that answer programs, by path (None: made for this daemon); `routes` are
    added.
    """
    app = web.Application(client_max_size=1024)
    app.add_routes([*front_routes(scraped), *documentation_routes()])
    for path, answerer in (answerers or make_answerers(scraped)).items():
        app.router.add_get(path, handler_of(answerer))
    app.add_routes(routes)
    return app


def guarded(answer: Handler, guard: Guard) -> Handler:
    """Return a handler that passes requests to `answer` if `guard` admits them.

    It answers other requests with the guard's refusal.
    """

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        host = host_asked(request.raw_path, request.headers.get("Host"))
        refusal = await guard.refusal(request.remote, host, request.headers.get("Authorization", ""))
        response: web.StreamResponse
        try:
            response = _response(refusal) if refusal else await answer(request)
        except web.HTTPException as raised:
            response = raised
        if response.content_type == "text/html":
            for name, value in OF_PAGES.items():
                response.headers.setdefault(name, value)
        response.headers.update(guard.headers)
        return response

    return handle


@asynccontextmanager
async def running(
    app: web.Application, limits: ConnectionLimits, table: ConnectionTable, guard: Guard | None = None
) -> AsyncIterator[web.Server]:
    """Run an application in an ``async with`` block; yields its aiohttp server.

    `table` counts the connections, `limits` bounds them. `guard`, if given, checks each request first.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    made = runner.server
    assert made is not None  # noqa: S101  # after its setup
    answer = made.request_handler if guard is None else guarded(made.request_handler, guard)
    try:
        yield make_server(answer, limits, table, request_factory=made.request_factory)
    finally:
        await runner.cleanup()


def handler_of(answerer: Answerer) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return an aiohttp handler that responds with what `answerer` makes of a request's headers."""

    async def answer(request: web.Request) -> web.Response:
        asked = {name: ", ".join(request.headers.getall(name, ())) for name in ANSWERED_BY}
        return _response(await answerer(asked))

    return answer


def _response(answer: WebAnswer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


def discovery_route(targets: Callable[[], Sequence[TargetGroup] | None]) -> web.RouteDef:
    """Return the route of Prometheus' HTTP service discovery.

    `targets` returns the nodes to scrape, None while they are unknown. The response is then an error, upon
    which Prometheus keeps its last list; an empty list would make it drop all targets.
    """

    def make_body(_kind: str) -> str | None:
        found = targets()
        return None if found is None else json.dumps(found)

    make = share_calls(make_body, 1)

    async def answer(_request: web.Request) -> web.Response:
        body = await make("")
        if body is None:
            return web.Response(status=503, text="no batch system has reported its nodes yet\n")
        return web.Response(text=body, content_type="application/json")

    return web.get("/sd", answer)
