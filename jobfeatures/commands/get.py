"""`jobfeatures get`: prints one value of the job's or the machine's features."""

from __future__ import annotations

import argparse

from jobfeatures.client import Features, FeaturesError, FeaturesUnreachableError
from jobfeatures.errors import shown
from jobfeatures.settings.usage import complain
from jobfeatures.system.exitstatus import DONE, FAILED, NOT_ASKED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures get` to its parser."""
    parser.add_argument("key", metavar="KEY")


def run(arguments: argparse.Namespace) -> int:
    """Print the value of a key of this job, or else of this machine; return the exit status."""
    features = Features.from_environment()
    try:
        value = features.find(arguments.key)
    except FeaturesUnreachableError as error:
        complain(f"no features can be read: {error}")
        return NOT_ASKED
    except FeaturesError as error:
        complain(error)
        return FAILED
    if value is None:
        complain(_why(arguments.key, features))
        return FAILED
    print(value)
    return DONE


def _why(key: str, features: Features) -> str:
    """Return why a key has no value: it is not a key, has no value here, or has one by its other name."""
    from difflib import get_close_matches

    from jobfeatures.features.keys import KEYS

    names = sorted({each.name for each in KEYS})
    if key in names:
        for other in (each for each in names if each != key and each.lower() == key.lower()):
            value = _found(features, other)
            if value is not None:
                return f"{key} is not published, but {other} of the other specification is: {shown(value)}"
        return f"{key} is unknown or unlimited here; jobfeatures show lists what is known"
    near = get_close_matches(key, names, n=1)
    return f"{shown(key)} is not a machine/job features key" + (f"; did you mean {near[0]}?" if near else "")


def _found(features: Features, key: str) -> str | None:
    try:
        return features.find(key)
    except FeaturesError:
        return None
