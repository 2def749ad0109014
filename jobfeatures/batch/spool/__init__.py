"""A folder of SSS job objects, one file per job, for sites without a batch system that can be queried.

A site's scripts write ``NAME.xml`` when a job starts or changes (elsewhere, then
renamed into the folder), and remove it or write State Completed when the job
ends. Names with a leading dot or another suffix are ignored.

The scripts may have fewer rights than the reader: only regular files directly
in the folder are opened, and no file is read beyond the size limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.batch.settings import AskingSettings
from jobfeatures.batch.system import System
from jobfeatures.settings.resolve import PATH, node_option


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SpoolSettings(AskingSettings):
    """The location of the spool folder."""

    spool_directory: str | None = node_option(
        PATH, None, "folder of SSS job objects, one file a job, for the spool source", is_common=True
    )


KEY_SOURCES = {
    "allocated_cpu": "Processors, or those of its task groups, of a job on one node",
    "jobstart_secs": "StartTime",
    "job_id": "Id",
    "wall_limit_secs": "Duration: ResourceLimit, else Requested, else uncategorized",
    "cpu_limit_secs": "ResourceLimit CPUTime",
    "max_rss_bytes": "ResourceLimit MaxMemory or MaxMemorySize, else Memory, also of its task groups",
    "max_swap_bytes": "ResourceLimit Swap, else Swap",
    "scratch_limit_bytes": "ResourceLimit MaxDisk, else Disk",
}

SYSTEM = System(name="spool", room=__name__, has_cluster=False, has_groups=False, key_sources=KEY_SOURCES)
