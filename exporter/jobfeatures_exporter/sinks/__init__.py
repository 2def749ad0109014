"""Sends Sonar's documents to sinks (receivers): one file per kind of sink, named in `SINKS` in config.py.

A file offers `make_sink(config)`, which returns a `Sink` or raises ConfigurationError. It is imported only if
it is configured.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobfeatures_exporter.sinks.config import SinksSettings
    from jobfeatures_exporter.sinks.message import Sink


def make_sink(name: str, config: SinksSettings) -> Sink:
    """Return the sink of this name. Raises ConfigurationError if its settings are missing or wrong."""
    made: Sink = import_module(f"jobfeatures_exporter.sinks.{name}").make_sink(config)
    return made
