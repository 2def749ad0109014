"""The elements of a job object that give the values of keys; see `jobfeatures.formats.sss.job`."""

KEY_SOURCES = {
    "allocated_cpu": "Processors, of a job on one node",
    "jobstart_secs": "StartTime",
    "job_id": "Id",
    "wall_limit_secs": "Duration: ResourceLimit, else Requested, else uncategorized",
    "cpu_limit_secs": "ResourceLimit CPUTime",
    "max_rss_bytes": "ResourceLimit MaxMemory or MaxMemorySize, else Memory",
    "max_swap_bytes": "ResourceLimit Swap, else Swap",
    "scratch_limit_bytes": "ResourceLimit MaxDisk, else Disk",
}
