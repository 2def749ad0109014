"""`jobfeatures-exporter sonar`."""

from __future__ import annotations

import argparse

from jobfeatures_exporter.commands import documents

ACTIONS = {
    "sample": "print the state of the node and its processes",
    "sysinfo": "print the node's configuration",
    "jobs": "print the cluster's jobs, from the batch system",
    "cluster": "print the cluster's partitions and states of nodes, from the batch system",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions with their arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, meaning in ACTIONS.items():
        description = meaning[0].upper() + meaning[1:] + "."
        made = actions.add_parser(name, help=meaning, description=description, allow_abbrev=False)
        documents.add_arguments(made)


def run(arguments: argparse.Namespace) -> int:
    """Print a document; return the exit status."""
    return documents.run(arguments)
