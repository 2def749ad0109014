"""LSF as an entry of `jobfeatures.batch.SYSTEMS`."""

from __future__ import annotations

from jobfeatures.batch.lsf import COMMAND, VARIABLES, LsfSettings
from jobfeatures.batch.system import LIST_OF_NODES, ClusterSystem, LogKind, part

KEY_SOURCES = {
    "allocated_cpu": "slots of this host in ALLOC_SLOT, else EXEC_HOST (bjobs), or LSB_MCPU_HOSTS (pre-exec)",
    "jobstart_secs": "START_TIME (bjobs)",
    "job_id": "JOBID and JOBINDEX (bjobs), or LSB_JOBID and LSB_JOBINDEX (pre-exec)",
    "wall_limit_secs": "RUNTIMELIMIT (bjobs), else RUNLIMIT of the queue (bqueues -l), / CPU factor (lshosts)"
    " unless ABS_RUNLIMIT",
    "cpu_limit_secs": "CPULIMIT of the queue (bqueues -l) / CPU factor (lshosts)",
    "max_rss_bytes": "MEMLIMIT (bjobs)",
    "cpufactor_lrms": "CPUF of this host (lshosts)",
}


class Lsf(ClusterSystem[LsfSettings]):
    """IBM Spectrum LSF, described in `jobfeatures.batch.lsf`."""

    name = "lsf"
    job_variable = "LSB_JOBID"
    daemon = "sbatchd"
    command = COMMAND
    variables = VARIABLES
    log_kinds = (
        LogKind(
            "lsf",
            "LSF's lsb.acct",
            "jobfeatures.batch.lsf.accounting",
            longest_line=LIST_OF_NODES,
            is_by_line=True,
        ),
    )
    key_sources = KEY_SOURCES

    is_here = part("jobfeatures.batch.lsf.site", "is_here")
    job_id_of = part("jobfeatures.batch.lsf.prolog", "job_id_of")
    job_from_prolog = part("jobfeatures.batch.lsf.prolog", "job_from_prolog")
    ask_in_prolog = part("jobfeatures.batch.lsf.site", "ask_in_prolog")
    groups = "jobfeatures.batch.lsf.groups"
    make_source = part("jobfeatures.batch.lsf.source", "LsfSource")
    make_cluster_source = part("jobfeatures.batch.lsf.clustersource", "LsfCluster")
