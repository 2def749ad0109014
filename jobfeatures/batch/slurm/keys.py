"""What Slurm calls the values of keys: for the reference page and for `jobfeatures show --origin`."""

KEY_SOURCES = {
    "allocated_cpu": "CPU_IDs of this node (scontrol -d), or SLURM_JOB_CPUS_PER_NODE (prolog)",
    "jobstart_secs": "StartTime (scontrol), or SLURM_JOB_START_TIME (prolog)",
    "job_id": "JobId (scontrol), or SLURM_JOB_ID (prolog)",
    "wall_limit_secs": "TimeLimit (scontrol), or SLURM_JOB_END_TIME - SLURM_JOB_START_TIME (prolog)",
    "cpu_limit_secs": "the wall limit * NumCPUs (scontrol), or * the sum of SLURM_JOB_CPUS_PER_NODE (prolog)",
    "max_rss_bytes": "Mem of this node (scontrol -d), else MinMemoryCPU * CPUs, else MinMemoryNode",
    "scratch_limit_bytes": "MinTmpDiskNode (scontrol)",
}
