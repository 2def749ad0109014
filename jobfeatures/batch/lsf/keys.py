"""What LSF calls the values of keys: for the reference page and for `jobfeatures show --origin`."""

KEY_SOURCES = {
    "allocated_cpu": "slots of this host in ALLOC_SLOT, else EXEC_HOST (bjobs), or LSB_MCPU_HOSTS (pre-exec)",
    "jobstart_secs": "START_TIME (bjobs)",
    "job_id": "JOBID and JOBINDEX (bjobs), or LSB_JOBID and LSB_JOBINDEX (pre-exec)",
    "wall_limit_secs": "RUNTIMELIMIT (bjobs), else RUNLIMIT of the queue (bqueues -l), / CPU factor (lshosts)"
    " unless ABS_RUNLIMIT",
    "cpu_limit_secs": "CPULIMIT of the queue (bqueues -l) / CPU factor (lshosts)",
    "max_rss_bytes": "MEMLIMIT (bjobs)",
}
