"""Where documents are sent: one file each, one line in `SINKS` each.

A file offers `make_sink(config, role)`, which returns a `Sink` or raises
ConfigurationError. It is imported only where it is asked for.
"""

from __future__ import annotations

from importlib import import_module

from jobfeatures_exporter.sinks.message import Sink
from jobfeatures_exporter.sonar.config import SINKS, SonarConfig


def make_sink(name: str, config: SonarConfig) -> Sink:
    """Return a sink of this name. Raises ConfigurationError."""
    made: Sink = import_module(f"jobfeatures_exporter.sinks.{SINKS[name]}").make_sink(config)
    return made
