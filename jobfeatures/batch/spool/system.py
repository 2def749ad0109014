"""Declares the spool folder for `jobfeatures.batch.SYSTEMS`, the table of supported batch systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.spool import SpoolSettings
from jobfeatures.batch.system import System

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.source import BatchSource
    from jobfeatures.system.clock import Clock

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
    """A folder of SSS job objects, as a source of jobs in place of a batch system; see `System`."""

    name = "spool"
    key_sources = KEY_SOURCES

    def is_here(self, config: SystemSettings[SpoolSettings]) -> bool:
        return config.own.directory is not None

    def make_source(self, config: SystemSettings[SpoolSettings], clock: Clock, node_name: str) -> BatchSource:
        from jobfeatures.batch.spool.source import SpoolSource

        return SpoolSource(config, clock, node_name)
