"""`jobfeatures-exporter demo`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from jobfeatures.errors import ConfigurationError
from jobfeatures.settings import POSITIVE_DURATION
from jobfeatures.settingsflags import add_flags
from jobfeatures_exporter.commands.common import config_of
from jobfeatures_exporter.config import ExporterConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the duration and all settings."""
    parser.add_argument(
        "--duration",
        metavar="SECONDS",
        help="end after this time (default: at Ctrl-C)",
    )
    add_flags(parser, ExporterConfig)


def run(arguments: argparse.Namespace) -> int:
    """Serve with a few jobs that are started for show."""
    duration_secs = None
    if arguments.duration is not None:
        try:
            duration_secs = POSITIVE_DURATION.parse(arguments.duration)
        except ValueError as error:
            raise ConfigurationError("--duration", str(error)) from None
    from jobfeatures_exporter.demo import run_demo

    def config_for(changes: Mapping[str, str]) -> ExporterConfig:
        return config_of(arguments, changes)

    return run_demo(config_for, duration_secs)
