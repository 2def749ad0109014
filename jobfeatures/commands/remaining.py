"""`jobfeatures remaining`: prints how long this job may still run, as `jobfeatures.client` computes it."""

from __future__ import annotations

import argparse

from jobfeatures.client import add_remaining_arguments as add_arguments
from jobfeatures.client import print_remaining
from jobfeatures.settings.usage import complain

__all__ = ["add_arguments", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Print how long the job may still run, and return the exit status."""
    return print_remaining(arguments, complain)
