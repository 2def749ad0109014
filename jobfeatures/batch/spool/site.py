"""Make the daemon's spool source from a site's settings."""

from __future__ import annotations

from jobfeatures.batch.spool.source import SpoolSource
from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError
from jobfeatures.system.clock import Clock


def is_here(config: Config) -> bool:
    """Return whether this node has a spool folder, for automatic choice of sources."""
    return config.spool_directory is not None


def make_source(config: Config, clock: Clock, node_name: str) -> SpoolSource:
    """Return the source that the configuration describes. Raises ConfigurationError without a folder."""
    if config.spool_directory is None:
        raise ConfigurationError("spool.directory", "is needed by the spool source")
    return SpoolSource(config.spool_directory, clock, node_name=node_name)
