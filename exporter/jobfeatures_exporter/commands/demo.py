"""`jobfeatures-exporter demo`."""

from __future__ import annotations

import argparse
from functools import partial

from jobfeatures.settings.flags import parse_duration_flag
from jobfeatures_exporter.commands.common import add_settings, config_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the duration and all settings."""
    parser.add_argument("--duration", metavar="SECONDS", help="end after this time (default: at Ctrl-C)")
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve, with a few demonstration jobs running."""
    text = arguments.duration
    duration_secs = None if text is None else parse_duration_flag("--duration", text)
    from jobfeatures_exporter.demo import run_demo

    return run_demo(partial(config_of, arguments), duration_secs)
