"""`jobfeatures run`: runs a program and gives it notice of the job's end, as `jobfeatures.client` does."""

from __future__ import annotations

import argparse

from jobfeatures.client import add_run_arguments as add_arguments
from jobfeatures.client import run_command
from jobfeatures.settings.usage import complain

__all__ = ["add_arguments", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the program that the arguments name, and return its exit status."""
    return run_command(arguments, complain)
