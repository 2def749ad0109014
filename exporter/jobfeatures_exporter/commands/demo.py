"""`jobfeatures-exporter demo`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from jobfeatures.settings.flags import parse_duration_flag
from jobfeatures_exporter.commands.common import add_settings, config_of
from jobfeatures_exporter.config import ExporterConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the duration and all settings."""
    parser.add_argument("--duration", metavar="SECONDS", help="end after this time (default: at Ctrl-C)")
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve, with a few demonstration jobs running."""
    duration_secs = None
    if arguments.duration is not None:
        duration_secs = parse_duration_flag("--duration", arguments.duration)
    from jobfeatures_exporter.demo import run_demo

    def config_for(changes: Mapping[str, str]) -> ExporterConfig:
        return config_of(arguments, changes)

    return run_demo(config_for, duration_secs)
