"""`jobfeatures-exporter node-token`: prints the tokens with which nodes query the controller role."""

from __future__ import annotations

import argparse

from jobfeatures.batch.basics import is_host_name
from jobfeatures.batch.controller.protocol import make_token
from jobfeatures.errors import ConfigurationError
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures_exporter.commands.common import add_settings, config_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `node-token` to its parser."""
    parser.add_argument(
        "nodes", nargs="+", metavar="NODES", help="names in the batch system, e.g. n1 gpu[01-16]"
    )
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print each node's token, after the node's name if several nodes are given; return the exit status."""
    from jobfeatures_exporter.web.nodelistener import read_secrets

    names = [name for text in arguments.nodes for name in expand_nodes(text)]
    for name in names:
        if not is_host_name(name):
            raise ConfigurationError("NODES", f"{name!r} is not a valid node name")
    config = config_of(arguments)
    if config.cluster.secret_file is None:
        raise ConfigurationError(
            "controller.secret_file", "is not set, but tokens are derived from this file's secret"
        )
    secret = read_secrets(config.cluster.secret_file)[0]
    for name in names:
        print(make_token(secret, name) if len(names) == 1 else f"{name} {make_token(secret, name)}")
    return 0
