"""Fetches the metrics that drain plans need, from a daemon or a Prometheus server; defines its flags."""

from __future__ import annotations

import argparse
from dataclasses import replace
from urllib.parse import urlsplit

from jobfeatures.drains.nodemetrics import NAMES, SeenNode, gather_nodes
from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.records.series import parse_lines, parse_vector
from jobfeatures.settings.access import Access, access_of, add_access_flags

DAEMON_URL = "http://127.0.0.1:9819/metrics"


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where the metrics come from."""
    parser.add_argument("--metrics", metavar="URL", help=f"a node's daemon (default: {DAEMON_URL})")
    add_access_flags(parser, "--metrics")
    parser.add_argument("--prometheus", metavar="URL", help="many nodes, from a Prometheus server")
    add_access_flags(parser, "--prometheus")
    parser.add_argument(
        "--nodes", metavar="REGEX", help="with --prometheus: instances to include (default: all)"
    )


def read_nodes(arguments: argparse.Namespace) -> tuple[SeenNode, ...]:
    """Fetch the metrics from the source that the flags select, and return the nodes that they describe.

    Raises ConfigurationError for flags that do not go together, else as `read_daemon` or `read_prometheus`.
    """
    if arguments.prometheus is None:
        if arguments.nodes is not None:
            raise ConfigurationError("--nodes", "needs --prometheus")
        return read_daemon(access_of(arguments, "--metrics", arguments.metrics or DAEMON_URL))
    if arguments.metrics is not None:
        raise ConfigurationError("--metrics", "cannot be combined with --prometheus")
    return read_prometheus(access_of(arguments, "--prometheus", arguments.prometheus), arguments.nodes)


def read_daemon(access: Access) -> tuple[SeenNode, ...]:
    """Return the node that a daemon's metrics page describes.

    Raises SourceError if the daemon does not answer or the page has no metrics of a node, ParseError if the
    page cannot be parsed.
    """
    if urlsplit(access.url).path in {"", "/"}:
        access = replace(access, url=access.url.rstrip("/") + "/metrics")
    series = parse_lines(access.get(), NAMES, source=access.url)
    if not series:
        raise SourceError(f"{access.url}: not a metrics page of jobfeatures-exporter on a node")
    return gather_nodes(series, access.url)


def read_prometheus(access: Access, instances: str | None = None) -> tuple[SeenNode, ...]:
    """Return the current state of all nodes that a Prometheus server scrapes.

    The server's address must not include ``/api/v1``; `instances` is a regular expression in Prometheus's
    syntax for the label instance. Raises SourceError if the server does not answer, ParseError if its answer
    cannot be parsed.
    """
    selector = f'__name__=~"{"|".join(NAMES)}"'
    if instances is not None:
        escaped = instances.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        selector += f',instance=~"{escaped}"'
    path, access = "/api/v1/query", replace(access, url=access.url.rstrip("/"))
    source, text = access.url + path, access.get(path, {"query": f"{{{selector}}}"})
    return gather_nodes(parse_vector(text, source=source).series, source)
