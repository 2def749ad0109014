"""`jobfeatures-exporter check-config`: prints the settings that the daemon would use."""

from __future__ import annotations

import argparse

from jobfeatures.settings.resolve import settings_of, value_of
from jobfeatures_exporter.commands.common import add_settings, config_of
from jobfeatures_exporter.config import ExporterConfig

add_arguments = add_settings


def run(arguments: argparse.Namespace) -> int:
    """Print each setting as the daemon would use it; return the exit status."""
    config = config_of(arguments)
    from jobfeatures_exporter.startup.serve import make_ingest, make_served

    make_ingest(config)
    make_served(config)  # finds settings that contradict each other
    for each in settings_of(ExporterConfig):
        value = value_of(config, each)
        print(f"{each.key} = {'(not set)' if value is None else value}")
    return 0
