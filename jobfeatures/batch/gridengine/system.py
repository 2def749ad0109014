"""Grid Engine as an entry of `jobfeatures.batch.SYSTEMS`."""

from __future__ import annotations

from jobfeatures.batch.gridengine import COMMAND, VARIABLES, GridEngineSettings
from jobfeatures.batch.system import ClusterSystem, LogKind, part

_CONFIG = "config of the job's spool directory"
KEY_SOURCES = {
    "allocated_cpu": f"host_slots ({_CONFIG}), else pe_hostfile",
    "jobstart_secs": f"when {_CONFIG} was made",
    "job_id": "JOB_ID, and SGE_TASK_ID of an array; the name of the job's spool directory",
    "wall_limit_secs": "the least of h_rt and s_rt, requested (qstat -j) or of the queue (qstat -F)",
    "cpu_limit_secs": f"h_cpu * pe_slots ({_CONFIG})",
    "max_rss_bytes": f"h_rss, else h_vmem * host_slots ({_CONFIG})",
}


class GridEngine(ClusterSystem[GridEngineSettings]):
    """Grid Engine, described in `jobfeatures.batch.gridengine`."""

    name = "gridengine"
    job_variable = "JOB_ID"
    beside = "SGE_TASK_ID"
    supervisor = "sge_shepherd"
    daemon = "sge_execd"
    command = COMMAND
    variables = VARIABLES
    log_kinds = (
        LogKind(
            "gridengine",
            "Grid Engine's accounting file",
            "jobfeatures.batch.gridengine.accounting",
            is_by_line=True,
        ),
        LogKind(
            "qacct",
            "what qacct -j of Grid Engine prints",
            "jobfeatures.batch.gridengine.qacct",
            is_zoned=True,
        ),
    )
    key_sources = KEY_SOURCES

    is_here = part("jobfeatures.batch.gridengine.site", "is_here")
    job_id_of = part("jobfeatures.batch.gridengine.prolog", "job_id_of")
    job_from_prolog = part("jobfeatures.batch.gridengine.prolog", "job_from_prolog")
    needs_server = part("jobfeatures.batch.gridengine.site", "needs_server")
    ask_in_prolog = part("jobfeatures.batch.gridengine.site", "ask_in_prolog")
    make_job_processes = part("jobfeatures.batch.gridengine.processes", "GridEngineJobs")
    make_source = part("jobfeatures.batch.gridengine.source", "GridEngineSource")
    make_cluster_source = part("jobfeatures.batch.gridengine.clustersource", "GridEngineCluster")
