"""`jobfeatures get`."""

from __future__ import annotations

import argparse
import sys

from jobfeatures.client import Features, FeaturesError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("key", metavar="KEY")


def run(arguments: argparse.Namespace) -> int:
    """Print the value of a key of this job, else of this machine."""
    try:
        value = Features.from_environment().find(arguments.key)
    except FeaturesError as error:
        print(f"jobfeatures: {error}", file=sys.stderr)
        return 1
    if value is None:
        print(f"jobfeatures: {arguments.key} is not known here", file=sys.stderr)
        return 1
    print(value)
    return 0
