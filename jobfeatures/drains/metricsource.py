"""Fetches the series that plans need from a daemon or a Prometheus server, within bounds."""

from __future__ import annotations

from jobfeatures.drains.nodemetrics import NAMES, parse_answer, parse_page
from jobfeatures.httpget import fetch_text
from jobfeatures.series import Series

DAEMON_URL = "http://127.0.0.1:9819/metrics"


def read_daemon(url: str = DAEMON_URL) -> list[Series]:
    """Return the series of one daemon. Raises SourceError without an answer, ParseError if it is no page."""
    return parse_page(fetch_text(url), source=url)


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
    return parse_answer(fetch_text(address, {"query": f"{{{selector}}}"}), source=address)
