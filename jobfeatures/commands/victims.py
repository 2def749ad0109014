"""`jobfeatures victims`: says which jobs of a node to sacrifice in order to free cores."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

from jobfeatures.commands.common import number_flag
from jobfeatures.drains.metricsource import add_source_flags
from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.settings.usage import complain
from jobfeatures.system.exitstatus import DONE, FAILED, TOO_LITTLE_KNOWN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures victims` to its parser."""
    parser.add_argument(
        "--cores",
        type=number_flag(int, "a whole number, 1 or more", 1, 10**9),
        required=True,
        metavar="N",
        help="cores to free on one node",
    )
    add_source_flags(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(arguments: argparse.Namespace) -> int:
    """Print each node's jobs and which of them to sacrifice, the node with the least waste first.

    Exit status 1 if no node's jobs free that many cores, 3 if too little is known of them to decide.
    """
    from jobfeatures.drains.metricsource import read_nodes
    from jobfeatures.drains.plantext import format_victims, victims_document
    from jobfeatures.drains.victims import choose_victims

    try:
        nodes = read_nodes(arguments)
    except ConfigurationError:
        raise
    except JobfeaturesError as error:
        complain(error)
        return FAILED
    if not nodes:
        complain("there is no node on which to choose jobs")
        return FAILED
    found = []
    for node in nodes:
        victims = choose_victims(node.jobs, arguments.cores)
        found.append((node, replace(victims, chosen=None) if node.silent else victims))
    found.sort(key=lambda each: math.inf if each[1].chosen is None else each[1].core_secs)
    if arguments.format == "json":
        print(victims_document(found, arguments.cores), end="")
    else:
        print("\n".join(format_victims(node, victims) for node, victims in found), end="")
    if any(victims.chosen is not None for _, victims in found):
        return DONE
    return (
        TOO_LITTLE_KNOWN if any(node.silent or each.kept or each.unknown for node, each in found) else FAILED
    )
