"""What HTCondor calls the values of keys: for the reference page and for `jobfeatures show --origin`."""

KEY_SOURCES = {
    "allocated_cpu": "CpusProvisioned (job ad), else Cpus (machine ad)",
    "jobstart_secs": "JobCurrentStartDate (job ad)",
    "job_id": "ClusterId.ProcId (job ad)",
    "wall_limit_secs": "the least of AllowedJobDuration and AllowedExecuteDuration, else the first of"
    " htcondor.wall_limit_attributes (job ad)",
    "cpu_limit_secs": "the wall limit * allocated_cpu",
    "max_rss_bytes": "MemoryProvisioned (job ad), else Memory (machine ad), MiB",
    "scratch_limit_bytes": "DiskProvisioned (job ad), else Disk (machine ad), KiB",
}
