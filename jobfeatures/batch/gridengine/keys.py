"""What Grid Engine calls the values of keys: for the reference page and for `jobfeatures show --origin`."""

_CONFIG = "config of the job's spool directory"

KEY_SOURCES = {
    "allocated_cpu": f"host_slots ({_CONFIG}), else pe_hostfile",
    "jobstart_secs": f"when {_CONFIG} was made",
    "job_id": "JOB_ID, and SGE_TASK_ID of an array; the name of the job's spool directory",
    "wall_limit_secs": "the least of h_rt and s_rt, asked for (qstat -j) or of the queue (qstat -F)",
    "cpu_limit_secs": f"h_cpu * pe_slots ({_CONFIG})",
    "max_rss_bytes": f"h_rss, else h_vmem * host_slots ({_CONFIG})",
}
