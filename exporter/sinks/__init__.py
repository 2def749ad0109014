"""Where documents are sent: one file each, one line in `SINKS` each.

A file offers `make_sink(config, role)`, which returns a `Sink` or raises
ConfigurationError. It is imported only where it is asked for.
"""

from __future__ import annotations

from importlib import import_module

from exporter.sinks.message import Sink
from exporter.sonar.config import SINKS, SonarConfig


def make_sink(name: str, config: SonarConfig) -> Sink:
    """Return a sink of this name. Raises ConfigurationError."""
    made: Sink = import_module(f"exporter.sinks.{SINKS[name]}").make_sink(config)
    return made
