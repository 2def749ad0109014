"""What PBS calls the values of keys: for the reference page and for `jobfeatures show --origin`."""

KEY_SOURCES = {
    "allocated_cpu": "ncpus of this host in exec_vnode, else exec_host",
    "jobstart_secs": "stime (qstat), or the time of the hook",
    "job_id": "the job's id without its server",
    "wall_limit_secs": "Resource_List.walltime",
    "cpu_limit_secs": "Resource_List.cput, else the wall limit * the job's CPUs",
    "max_rss_bytes": "mem of this host in exec_vnode, else Resource_List.mem of a job on one host,"
    " else Resource_List.pmem * CPUs",
}
