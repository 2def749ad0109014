"""What Torque calls the values of keys: for the reference page and for `jobfeatures show --origin`."""

KEY_SOURCES = {
    "allocated_cpu": "slots of this host in exec_host (qstat), or its lines in aux/ID (prologue)",
    "jobstart_secs": "start_time (qstat), or the time of the prologue",
    "job_id": "the job's id without its server",
    "wall_limit_secs": "Resource_List.walltime",
    "cpu_limit_secs": "Resource_List.cput, else the wall limit * the job's CPUs",
    "max_rss_bytes": "Resource_List.mem of a job on one host, else Resource_List.pmem * CPUs",
}
