"""`jobfeatures victims`: which jobs of this node to give up for some cores."""

from __future__ import annotations

import argparse
import sys

from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.settings import COUNT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--cores", required=True, metavar="N", help="how many cores are wanted")
    parser.add_argument(
        "--metrics", metavar="URL", help="this node's daemon (default: http://127.0.0.1:9819/metrics)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(arguments: argparse.Namespace) -> int:
    """Print the jobs in the order of giving up; exit status 1 if they do not free that many cores."""
    from jobfeatures.drains.metricsource import DAEMON_URL, read_daemon
    from jobfeatures.drains.nodemetrics import gather_nodes
    from jobfeatures.drains.report import format_victims, victims_document
    from jobfeatures.drains.victims import cores_found, rank_victims

    try:
        cores = COUNT.parse(arguments.cores)
    except ValueError as error:
        raise ConfigurationError("--cores", str(error)) from None
    if cores < 1:
        raise ConfigurationError("--cores", "must be at least 1")
    try:
        nodes = gather_nodes(read_daemon(arguments.metrics or DAEMON_URL))
    except JobfeaturesError as error:
        print(f"jobfeatures: {error}", file=sys.stderr)
        return 1
    victims = rank_victims([job for node in nodes for job in node.jobs], cores)
    make = victims_document if arguments.format == "json" else format_victims
    print(make(victims, cores), end="")
    return 0 if cores_found(victims) >= cores else 1
