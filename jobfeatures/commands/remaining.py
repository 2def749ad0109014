"""`jobfeatures remaining`."""

from __future__ import annotations

import argparse
import sys
import time

from jobfeatures.client import Features, FeaturesError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--explain", action="store_true", help="print what the answer is based on")


def run(arguments: argparse.Namespace) -> int:
    """Print whole seconds; with `--explain` also each basis. Exit status 1 if nothing is known."""
    try:
        remaining = Features.from_environment().remaining(time.time())
    except FeaturesError as error:
        print(f"jobfeatures: {error}", file=sys.stderr)
        return 1
    for note in remaining.notes:
        print(f"jobfeatures: {note}", file=sys.stderr)
    if remaining.seconds is None:
        print("jobfeatures: no limit is known for this job", file=sys.stderr)
        return 1
    print(remaining.seconds)
    if arguments.explain:
        for basis, secs in sorted(remaining.bases.items(), key=lambda item: item[1]):
            print(f"{basis} {secs:.0f}")
    return 0
