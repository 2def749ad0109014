"""`jobfeatures-exporter demo`: runs the daemon with a few demonstration jobs."""

from __future__ import annotations

import argparse
from functools import partial

from jobfeatures_exporter.commands.common import add_settings, config_of

add_arguments = add_settings


def run(arguments: argparse.Namespace) -> int:
    """Serve, with a few demonstration jobs running, until Ctrl-C; return the exit status."""
    from jobfeatures_exporter.demo import run_demo

    return run_demo(partial(config_of, arguments))
