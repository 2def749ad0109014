"""Shared by several commands."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from jobfeatures.settings import load_config, settings_of
from jobfeatures.settingsflags import add_flags
from jobfeatures_exporter.config import ExporterConfig


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting."""
    add_flags(parser, ExporterConfig)


def config_of(arguments: argparse.Namespace, changes: Mapping[str, str] | None = None) -> ExporterConfig:
    """Return the settings: from flags, else from `changes`, else from the file. Raises ConfigurationError."""
    given = vars(arguments)
    flags = {each.key: given.get(each.key) for each in settings_of(ExporterConfig)}
    for key, value in (changes or {}).items():
        if flags.get(key) is None:
            flags[key] = value
    return load_config(ExporterConfig, flags=flags, file=given.get("config.file"))
