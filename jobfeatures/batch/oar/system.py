"""OAR as an entry of `jobfeatures.batch.SYSTEMS`."""

from __future__ import annotations

from jobfeatures.batch.oar import COMMAND, OarSettings
from jobfeatures.batch.system import DOCUMENT, ClusterSystem, LogKind, part

_FILES = "in OAR's folder on the node"
KEY_SOURCES = {
    "allocated_cpu": f"this host's lines in the job's node file {_FILES}, or assigned_resources (oarstat)",
    "jobstart_secs": f"the time of USER_ID.env {_FILES}, startTime (oarstat), or the time of the prologue",
    "job_id": "OAR_JOB_ID, Job_Id (oarstat)",
    "wall_limit_secs": "OAR_JOB_WALLTIME_SECONDS, or walltime (oarstat), which follows oarwalltime",
    "cpu_limit_secs": "the wall limit * the job's CPUs",
}


class Oar(ClusterSystem[OarSettings]):
    """OAR, described in `jobfeatures.batch.oar`."""

    name = "oar"
    job_variable = "OAR_JOB_ID"
    tells_suspension = False
    limit_waits = True
    command = COMMAND
    log_kinds = (
        LogKind(
            "oar", "what oarstat -J -f of OAR prints", "jobfeatures.batch.oar.log", longest_line=DOCUMENT
        ),
    )
    key_sources = KEY_SOURCES

    is_here = part("jobfeatures.batch.oar.site", "is_here")
    job_from_prolog = part("jobfeatures.batch.oar.prolog", "job_from_prolog")
    read_parents = part("jobfeatures.batch.oar.site", "read_parents")
    groups = "jobfeatures.batch.oar.groups"
    make_source = part("jobfeatures.batch.oar.source", "make_source")
    make_cluster_source = part("jobfeatures.batch.oar.clustersource", "OarCluster")
