"""Makes the metrics listener's responses to programs: /metrics, health and readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from jobfeatures_exporter.families.exposition import choose_format, takes
from jobfeatures_exporter.model.statuses import WebStatus
from jobfeatures_exporter.web.asked import AskedPage

try:
    from isal import isal_zlib as zlib  # six times as fast
except ImportError:  # on other processors than x86-64 and ARM
    import zlib  # type: ignore[no-redef]

COMPRESS_FROM_BYTES = 32 * 1024
MAX_SCRAPES = 4  # made at the same time
TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_GZIP = 31  # window bits, plus 16 for a gzip header
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Scraped(Protocol):
    """The daemon that the listener serves: a node's, or the controller's."""

    def exposition(self, *, openmetrics: bool, web: WebStatus | None = None) -> bytes:
        """Return the metrics page, with the listeners' status `web`; may block until the scrape deadline.

        It is in the OpenMetrics format if `openmetrics`, else in Prometheus' text format.
        """

    @property
    def is_ready(self) -> bool:
        """Return whether each source, except accounting, has been read or has failed at least once."""

    def problems(self) -> Collection[str]:
        """Return a line for each source (the node, batch systems) that has not been read yet or fails."""

    def html(self, asked: AskedPage) -> str | None:
        """Return the HTML page that is asked for, None if its job is not known."""


class WebAnswer(NamedTuple):
    """An HTTP response: status, body, and the headers besides those that every response has."""

    status: int
    body: bytes
    headers: Mapping[str, str]


ANSWERED_BY = ("accept", "accept-encoding")  # the request headers that answers depend on
Answerer = Callable[
    [Mapping[str, str]], Awaitable[WebAnswer]
]  # from a request's headers, names in lower case


class MetricsFormat(NamedTuple):
    """The format and compression that a request asks for.

    Concurrent requests for the same format and compression share one answer.
    """

    openmetrics: bool
    content_type: str
    takes_gzip: bool


def choose_kind(headers: Mapping[str, str]) -> MetricsFormat:
    """Return the format and compression that a request's headers ask for."""
    return MetricsFormat(
        *choose_format(headers.get("accept", "")), takes(headers.get("accept-encoding", ""), "gzip")
    )


def make_metrics(kind: MetricsFormat, exposition: Callable[..., bytes]) -> WebAnswer:
    """Return the response with the metrics page, in the format and compression that the client asks for.

    `exposition` makes the page: in the OpenMetrics format if its argument `openmetrics` is true, else in
    Prometheus' text format. The page is compressed by gzip if the client accepts gzip and the page has at
    least 32 KiB.
    """
    body = exposition(openmetrics=kind.openmetrics)
    if kind.takes_gzip and len(body) >= COMPRESS_FROM_BYTES:
        return WebAnswer(200, pack(body), {"Content-Type": kind.content_type, "Content-Encoding": "gzip"})
    return WebAnswer(200, body, {"Content-Type": kind.content_type})


def pack(body: bytes) -> bytes:
    """Return a body compressed by gzip at a low level: fast rather than small."""
    return zlib.compress(body, 1, _GZIP)


def share_calls(make: Callable[[K], T], at_once: int) -> Callable[[K], Awaitable[T]]:
    """Return a coroutine function that runs `make` in a thread, at most `at_once` calls at a time.

    Callers with the same key that wait for a thread share the next call, and its result or exception. However
    many callers come, or disconnect before they are answered, at most one call per key is waiting. No caller
    gets a result whose computation began before the caller asked.
    """
    threads = asyncio.Semaphore(at_once)
    awaited: dict[K, asyncio.Task[T]] = {}

    async def make_next(kind: K) -> T:
        async with threads:
            del awaited[kind]  # later callers share a later call
            return await asyncio.to_thread(make, kind)

    async def ask(kind: K) -> T:
        if kind not in awaited:
            awaited[kind] = asyncio.create_task(make_next(kind))
        return await asyncio.shield(awaited[kind])

    return ask


def make_scrapes(exposition: Callable[..., bytes], at_once: int) -> Answerer:
    """Return a coroutine function that answers scrapes, given a request's headers.

    `exposition` renders a metrics page; at most `at_once` pages are rendered in parallel.
    """
    shared = share_calls(partial(make_metrics, exposition=exposition), at_once)

    async def answer(headers: Mapping[str, str]) -> WebAnswer:
        return await shared(choose_kind(headers))

    return answer


def make_answerers(
    scraped: Scraped, status: Callable[[], WebStatus | None] = lambda: None
) -> dict[str, Answerer]:
    """Return, for each path that programs request, the coroutine function that makes the answer.

    The paths are those of metrics, health and readiness. `status` returns the listeners' status.
    """

    def exposition(*, openmetrics: bool) -> bytes:
        return scraped.exposition(openmetrics=openmetrics, web=status())

    async def healthy(_headers: Mapping[str, str]) -> WebAnswer:
        return WebAnswer(200, b"healthy\n", TEXT)

    async def ready(_headers: Mapping[str, str]) -> WebAnswer:
        is_ready = scraped.is_ready
        lines = ["ready" if is_ready else "not ready", *scraped.problems()]
        return WebAnswer(200 if is_ready else 503, ("\n".join(lines) + "\n").encode(), TEXT)

    metrics = make_scrapes(exposition, MAX_SCRAPES)
    return {"/metrics": metrics, "/-/healthy": healthy, "/-/ready": ready}
