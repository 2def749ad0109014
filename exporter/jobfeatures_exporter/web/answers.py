"""What programs ask of the metrics listener, and what each gets: /metrics, and how the daemon is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from jobfeatures_exporter.exposition import choose_format, takes
from jobfeatures_exporter.web.asked import Asked
from jobfeatures_exporter.web.packing import pack
from jobfeatures_exporter.web.sharing import sharing

COMPRESS_FROM_BYTES = 32 * 1024
MAX_SCRAPES = 4  # at once
TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class Scraped(Protocol):
    """What the listener serves: the daemon of a node, or the controller's."""

    def exposition(self, *, openmetrics: bool) -> bytes:
        """Return the metrics as text; may take until the deadline."""

    @property
    def is_ready(self) -> bool:
        """Return whether a scrape would show what it is there for, or say why it does not."""

    def problems(self) -> Collection[str]:
        """Return what has not been read yet, and what fails: a line each."""

    def html(self, asked: Asked) -> str | None:
        """Return the page as it is now, None where there is none of that job."""


class Answer(NamedTuple):
    """Status, body, and the headers that are its own."""

    status: int
    body: bytes
    headers: Mapping[str, str]


ANSWERED_BY = ("accept", "accept-encoding")  # the headers that answers depend on
Answerer = Callable[[Mapping[str, str]], Awaitable[Answer]]  # of a request's headers, names in lower case


class Kind(NamedTuple):
    """Which metrics a request asks for: those of one kind are the same for all who ask at the same time."""

    openmetrics: bool
    content_type: str
    takes_gzip: bool


def choose_kind(headers: Mapping[str, str]) -> Kind:
    """Return what the headers of a request ask for."""
    return Kind(*choose_format(headers.get("accept", "")), takes(headers.get("accept-encoding", ""), "gzip"))


def make_metrics(kind: Kind, exposition: Callable[..., bytes]) -> Answer:
    """Return the metrics in the format, and compressed where, the request asks for it."""
    body = exposition(openmetrics=kind.openmetrics)
    if kind.takes_gzip and len(body) >= COMPRESS_FROM_BYTES:
        return Answer(200, pack(body), {"Content-Type": kind.content_type, "Content-Encoding": "gzip"})
    return Answer(200, body, {"Content-Type": kind.content_type})


def make_scrapes(exposition: Callable[..., bytes], at_once: int) -> Answerer:
    """Return what answers with metrics, made so many at once."""

    def make(kind: Kind) -> Answer:
        return make_metrics(kind, exposition)

    shared = sharing(make, at_once)

    async def answer(headers: Mapping[str, str]) -> Answer:
        return await shared(choose_kind(headers))

    return answer


def make_answerers(scraped: Scraped) -> dict[str, Answerer]:
    """Return what answers each path."""

    async def healthy(_headers: Mapping[str, str]) -> Answer:
        return Answer(200, b"healthy\n", TEXT)

    async def ready(_headers: Mapping[str, str]) -> Answer:
        is_ready = scraped.is_ready
        lines = ["ready" if is_ready else "not ready", *scraped.problems()]
        return Answer(200 if is_ready else 503, ("\n".join(lines) + "\n").encode(), TEXT)

    metrics = make_scrapes(scraped.exposition, MAX_SCRAPES)
    return {"/metrics": metrics, "/-/healthy": healthy, "/-/ready": ready}
