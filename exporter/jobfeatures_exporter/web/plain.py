"""Answers requests of the simple form that scrapers send, without a web framework.

A connection's first request of another form is passed on to aiohttp, and so are all that follow it. aiohttp
takes 16 MiB and 0.2 s to import, so it is imported for the first such request: most nodes are only ever
scraped. Requests are read by one regular expression, which matches only what is surely one whole request:
httptools does not say where a request ends, h11 lets folded lines and bare line feeds pass, and both would
need the checks below. Sources: RFC 9110, RFC 9112 (a subset of them).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple

from jobfeatures.publish.http.connections import WholeAnswer, format_answer
from jobfeatures.publish.http.connectiontable import ConnectionTable, client_of
from jobfeatures_exporter.web.answers import TEXT, Answerer, WebAnswer
from jobfeatures_exporter.web.guard import Guard

log = logging.getLogger(__name__)

# One read from the socket yields exactly one whole request; no header is repeated.
_REQUEST = re.compile(
    rb"GET (/[!-~]*) HTTP/1\.1\r\n((?:[A-Za-z-]{1,64}: [!-~](?:[ -~]*[!-~])?\r\n){1,16})\r\n"
)
_FIELDS = frozenset(
    ("host", "user-agent", "accept", "accept-encoding", "authorization", "connection",
     "x-prometheus-scrape-timeout-seconds")
)  # fmt: skip
_CONNECTION = {"": False, "keep-alive": False, "close": True}  # whether it closes after the answer


class PlainRequest(NamedTuple):
    """A request that needs no framework: its path, and its headers by name in lower case.

    `is_last` says that the client asks to close the connection after the answer.
    """

    path: str
    headers: Mapping[str, str]
    is_last: bool


def parse_request(data: bytes, header_bytes: int) -> PlainRequest | None:
    """Return the request in `data` if it has a scraper's simple form; None if aiohttp has to parse it.

    A request's head may have at most `header_bytes`.
    """
    found = _REQUEST.fullmatch(data) if len(data) <= header_bytes else None
    if found is None:
        return None
    lines = found[2].decode("ascii").split("\r\n")[:-1]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    is_last = _CONNECTION.get(headers.get("connection", "").lower())
    if len(headers) < len(lines) or "host" not in headers or is_last is None or not headers.keys() <= _FIELDS:
        return None
    return PlainRequest(found[1].decode("ascii"), headers, is_last)


class Plain:
    """Answers simple requests for the paths in `answerers`, if `guard` admits them."""

    def __init__(
        self, answerers: Mapping[str, Answerer], guard: Guard, table: ConnectionTable, header_bytes: int
    ) -> None:
        self._answerers = answerers
        self._guard = guard
        self._table = table
        self._header_bytes = header_bytes

    def quick(self, data: bytes, transport: asyncio.Transport) -> Coroutine[Any, Any, WholeAnswer] | None:
        """Return a coroutine that makes the answer to the request in `data`; None: it is for aiohttp."""
        request = parse_request(data, self._header_bytes)
        answerer = None if request is None else self._answerers.get(request.path)
        if request is None or answerer is None:
            return None
        return self._answer(request, answerer, transport)

    async def _answer(
        self, request: PlainRequest, answerer: Answerer, transport: asyncio.Transport
    ) -> WholeAnswer:
        try:
            refusal = await self._guard.refusal(
                client_of(transport), request.headers["host"], request.headers.get("authorization", "")
            )
            answer = refusal or await answerer(request.headers)
        except Exception:
            log.exception("request failed")
            answer = WebAnswer(500, b"", TEXT)
        self._table.answers[answer.status] += 1
        self._table.make_room(len(answer.body))
        is_last = request.is_last or answer.status == 500 or self._table.is_ending
        fields = {**answer.headers, **self._guard.headers}
        return format_answer(answer.status, fields, answer.body, is_last=is_last), is_last
