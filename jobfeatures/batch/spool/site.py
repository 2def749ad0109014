"""Whether there is a spool folder."""

from __future__ import annotations

from jobfeatures.batch.spool import SpoolSettings


def is_here(config: SpoolSettings) -> bool:
    """Return whether this node has a spool folder, for automatic choice of sources."""
    return config.spool_directory is not None
