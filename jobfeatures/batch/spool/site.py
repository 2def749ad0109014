"""Whether there is a spool folder."""

from __future__ import annotations

from jobfeatures.config import Config


def is_here(config: Config) -> bool:
    """Return whether this node has a spool folder, for automatic choice of sources."""
    return config.spool_directory is not None
