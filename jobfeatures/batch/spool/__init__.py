"""Reads jobs from a folder of SSS job objects, for sites whose batch system cannot be queried.

A site's scripts rename ``NAME.xml`` into the folder when a job starts or changes, and remove it or write
State Completed when the job ends. Other names are ignored. Scripts are not trusted: only regular files of
bounded size are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, node_option


@dataclass(frozen=True, kw_only=True)
class SpoolSettings:
    """The setting for the location of the spool folder."""

    directory: str | None = node_option(
        PATH, None, "folder of SSS job objects, one file a job, for the spool source", is_common=True
    )
