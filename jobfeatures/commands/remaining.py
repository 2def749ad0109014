"""`jobfeatures remaining`."""

from __future__ import annotations

import argparse
import math
import time

from jobfeatures.client import Features, FeaturesError, FeaturesUnreachableError
from jobfeatures.settings.usage import complain
from jobfeatures.system.exitstatus import DONE, FAILED, NOT_ASKED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--explain", action="store_true", help="print what the answer is based on")


def run(arguments: argparse.Namespace) -> int:
    """Print the remaining whole seconds; with `--explain` also those of each basis."""
    try:
        remaining = Features.from_environment().remaining(time.time())
    except FeaturesUnreachableError as error:
        complain(f"no features can be read: {error}")
        return NOT_ASKED
    except FeaturesError as error:
        complain(error)
        return FAILED
    for note in remaining.notes:
        complain(note)
    if remaining.seconds is None:
        complain("no limit is known for this job; jobfeatures show lists what is known")
        return FAILED
    print(remaining.seconds)
    if arguments.explain:
        whole = {basis: math.floor(secs) for basis, secs in remaining.bases.items()}
        for basis in sorted(whole, key=lambda basis: (whole[basis], basis)):
            detail = f" ({remaining.details[basis]})" if basis in remaining.details else ""
            print(f"{basis} {whole[basis]}{detail}")
    return DONE
