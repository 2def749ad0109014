"""Reads jobs from a folder of SSS job objects, for sites whose batch system cannot be queried.

There is one file per job. A site's scripts write ``NAME.xml`` when a job starts or changes (elsewhere, then
renamed into the folder), and remove it or write State Completed when the job ends. Names with a leading dot
or another suffix are ignored.

The scripts may have fewer rights than the reader: only regular files directly in the folder are opened, and
no file is read beyond the size limit.
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
