"""``/``: the page for people, and its files."""

from __future__ import annotations

import asyncio
import time
import zlib
from typing import Protocol

from aiohttp import web

MIN_INTERVAL_SECS = 1.0  # pages that are asked for sooner are the same one


class Shown(Protocol):
    """What makes the page."""

    def html(self) -> str:
        """Return the page as it is now."""


class Front:
    """Makes the page in a thread, one at a time and at most once in `MIN_INTERVAL_SECS`.

    What it is made with is imported when somebody first opens it.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._lock = asyncio.Lock()
        self._text = b""
        self._packed = b""  # the same, compressed
        self._made_at: float | None = None  # monotonic

    def routes(self) -> list[web.RouteDef]:
        """Return the page and the files that it refers to."""
        return [web.get("/", self._page), web.get("/{name:page\\.(?:css|js|svg)}", self._asset)]

    async def _page(self, request: web.Request) -> web.Response:
        from jobfeatures_exporter.web.pages import CONTENT_SECURITY_POLICY

        async with self._lock:
            if self._made_at is None or time.monotonic() - self._made_at >= MIN_INTERVAL_SECS:
                self._text, self._packed = await asyncio.to_thread(self._make)
                self._made_at = time.monotonic()
            text, packed = self._text, self._packed
        headers = {
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Cache-Control": "no-store",
            "Vary": "Accept-Encoding",
        }
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            text = packed
        return web.Response(body=text, content_type="text/html", charset="utf-8", headers=headers)

    def _make(self) -> tuple[bytes, bytes]:
        text = self._shown.html().encode()
        return text, zlib.compress(text, 1, 31)

    async def _asset(self, request: web.Request) -> web.Response:
        from jobfeatures_exporter.web.pages.assets import KINDS, read_asset

        name = request.match_info["name"]
        text = await asyncio.to_thread(read_asset, name)
        headers = {"Cache-Control": "max-age=300"}
        return web.Response(text=text, content_type=KINDS[name], headers=headers)
