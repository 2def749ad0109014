"""What OAR calls the values of keys: for the reference page and for `jobfeatures show --origin`."""

_FILES = "in OAR's folder on the node"

KEY_SOURCES = {
    "allocated_cpu": f"this host's lines in the job's node file {_FILES}, or assigned_resources (oarstat)",
    "jobstart_secs": f"the time of USER_ID.env {_FILES}, startTime (oarstat), or the time of the prologue",
    "job_id": "OAR_JOB_ID, Job_Id (oarstat)",
    "wall_limit_secs": "OAR_JOB_WALLTIME_SECONDS, or walltime (oarstat), which follows oarwalltime",
    "cpu_limit_secs": "the wall limit * the job's CPUs",
}
