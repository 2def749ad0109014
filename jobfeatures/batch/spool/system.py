"""The spool folder as an entry of `jobfeatures.batch.SYSTEMS`."""

from __future__ import annotations

from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.spool import SpoolSettings
from jobfeatures.batch.system import System, part

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


class Spool(System[SpoolSettings]):
    """A folder of SSS job objects, described in `jobfeatures.batch.spool`."""

    name = "spool"
    key_sources = KEY_SOURCES

    def is_here(self, config: SystemSettings[SpoolSettings]) -> bool:
        return config.own.directory is not None

    make_source = part("jobfeatures.batch.spool.source", "SpoolSource")
