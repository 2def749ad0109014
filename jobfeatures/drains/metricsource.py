"""Fetches the series that plans need from a daemon or a Prometheus server, within bounds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import ProxyHandler, build_opener

from jobfeatures.drains.nodemetrics import NAMES, Series, parse_answer, parse_page
from jobfeatures.errors import SourceError, shown

DAEMON_URL = "http://127.0.0.1:9819/metrics"
TIMEOUT_SECS = 30.0
MAX_PAGE_BYTES = 256 * 2**20


def read_daemon(url: str = DAEMON_URL) -> list[Series]:
    """Return the series of one daemon. Raises SourceError without an answer, ParseError if it is no page."""
    return parse_page(_fetch(url, {}), source=url)


def read_prometheus(url: str, instances: str | None = None) -> list[Series]:
    """Return the series of all nodes that a Prometheus server scrapes, now.

    `url` is the server's address without ``/api/v1``; `instances` is a regular
    expression in Prometheus's syntax for the label instance. Raises SourceError
    and ParseError.
    """
    selector = f'__name__=~"{"|".join(NAMES)}"'
    if instances is not None:
        escaped = instances.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        selector += f',instance=~"{escaped}"'
    address = f"{url.rstrip('/')}/api/v1/query"
    return parse_answer(_fetch(address, {"query": f"{{{selector}}}"}), source=address)


def _fetch(url: str, query: Mapping[str, str]) -> str:
    if urlsplit(url).scheme not in ("http", "https"):
        raise SourceError(f"{shown(url)} is not an http or https address")
    opener = build_opener(ProxyHandler({}))  # a proxy would take 127.0.0.1 for itself
    deadline = time.monotonic() + TIMEOUT_SECS
    content = bytearray()
    try:
        with opener.open(f"{url}?{urlencode(query)}" if query else url, timeout=TIMEOUT_SECS) as response:
            while chunk := response.read1(2**20):
                content += chunk
                if len(content) > MAX_PAGE_BYTES:
                    raise SourceError(f"{url}: more than {MAX_PAGE_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise SourceError(f"{url}: no end after {TIMEOUT_SECS:g} s")
    except HTTPError as error:
        with error:
            said = error.read(200).decode("utf-8", "replace")
        raise SourceError(f"{url}: {error.code} {error.reason}: {shown(said)}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{url}: {error}") from error
    return content.decode("utf-8", "replace")
