"""Serves the installed documentation at ``/docs/``, rendered from Markdown.

Alerts and the daemon's front page link to it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from functools import lru_cache
from html import escape

from aiohttp import web

ABSENT = "the documentation is not installed here: it is in the packages and in docs/ of the source\n"
_PICTURES = {"png": "image/png", "svg": "image/svg+xml"}
_DOCUMENT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{top}page.css"></head>
<body><main class="docs">
{body}</main></body></html>
"""


def documentation_routes() -> list[web.RouteDef]:
    """Return the routes of the documentation's pages, which answer 404 if the pages are not installed."""
    return [
        web.get("/docs", _index),
        web.get("/docs/", _index),
        web.get("/docs/{name:(?:[A-Za-z0-9_+-]+/)*[A-Za-z0-9_+-]+}.{kind:md|png|svg}", _answer),
    ]


async def _index(request: web.Request) -> web.Response:
    raise web.HTTPFound("docs/README.md" if request.path == "/docs" else "README.md")


async def _answer(request: web.Request) -> web.Response:
    name, kind = request.match_info["name"], request.match_info["kind"]
    try:
        return await asyncio.to_thread(_make, f"{name}.{kind}", kind)
    except OSError:
        return web.Response(status=404, text=ABSENT if not os.path.isdir(_folder()) else "no such page\n")


def _folder() -> str:
    from jobfeatures_exporter.web import pages  # nothing of them before somebody opens one

    return pages.DOCUMENTATION


def _make(name: str, kind: str) -> web.Response:
    from jobfeatures_exporter.web.pages import CONTENT_SECURITY_POLICY

    path = os.path.join(_folder(), name)
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "max-age=300"}
    if kind in _PICTURES:
        with open(path, "rb") as file:
            return web.Response(body=file.read(), content_type=_PICTURES[kind], headers=headers)
    try:
        text = _render(name, os.stat(path).st_mtime_ns)
    except ModuleNotFoundError:  # without the extra `web`: show the Markdown
        with open(path, encoding="utf-8") as file:
            return web.Response(text=file.read(), headers=headers)
    return web.Response(text=text, content_type="text/html", headers=headers)


@lru_cache(maxsize=16)
def _render(name: str, _changed_ns: int) -> str:
    """Return the page as HTML. Raises ModuleNotFoundError without the extra `web`, and OSError."""
    from markdown_it import MarkdownIt

    with open(os.path.join(_folder(), name), encoding="utf-8") as file:
        text = file.read()
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(text)
    title, known = name, set[str]()
    for heading, content in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            words = "".join(
                each.content for each in content.children or () if each.type in {"text", "code_inline"}
            )
            title = words if title == name else title
            heading.attrSet("id", _anchor(words, known))
        for each in content.children or ():
            if each.type == "link_open" and _leads_out(name, str(each.attrGet("href"))):
                each.attrs.pop("href")  # its target is not installed
    body = parser.renderer.render(tokens, parser.options, {})
    return _DOCUMENT.format(title=escape(title), top="../" * (name.count("/") + 1), body=body)


def _anchor(words: str, known: set[str]) -> str:
    """Return the anchor that links use for a heading; repeated headings get a number."""
    anchor = base = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    number = 0
    while anchor in known:
        number += 1
        anchor = f"{base}-{number}"
    known.add(anchor)
    return anchor


def _leads_out(name: str, address: str) -> bool:
    """Return whether an address relative to the page `name` leads out of the folder of all pages."""
    path = address.partition("#")[0]
    return "://" not in path and os.path.normpath(os.path.join(os.path.dirname(name), path)).startswith("..")
