"""Grid Engine (SGE, Son of Grid Engine, Open Grid Scheduler, Univa's, Open Cluster Scheduler).

This node's jobs are read from the spool directory of its execution daemon, which
holds nearly everything that is reported; ``qstat`` is queried for the rest,
about these jobs only. The controller role queries ``qstat`` and ``qhost``.

Each array task is a separate job here, ``JOB.TASK``: several may run on one node.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.batch.settings import AskingSettings
from jobfeatures.batch.system import LogKind, System
from jobfeatures.settings.resolve import PATH, TEXT, node_option, option


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class GridEngineSettings(AskingSettings):
    """Where Grid Engine is installed, and how to query it."""

    gridengine_spool_directory: str | None = option(
        PATH, None, "folder with active_jobs, if not sge_execd's own"
    )
    gridengine_qstat: str = node_option(TEXT, "qstat", "qstat command; qhost lies beside it")
    gridengine_accounting_file: str | None = node_option(
        PATH, None, "controller role: Grid Engine's accounting file, if not that of $SGE_ROOT and $SGE_CELL"
    )


_CONFIG = "config of the job's spool directory"
KEY_SOURCES = {
    "allocated_cpu": f"host_slots ({_CONFIG}), else pe_hostfile",
    "jobstart_secs": f"when {_CONFIG} was made",
    "job_id": "JOB_ID, and SGE_TASK_ID of an array; the name of the job's spool directory",
    "wall_limit_secs": "the least of h_rt and s_rt, requested (qstat -j) or of the queue (qstat -F)",
    "cpu_limit_secs": f"h_cpu * pe_slots ({_CONFIG})",
    "max_rss_bytes": f"h_rss, else h_vmem * host_slots ({_CONFIG})",
}

SYSTEM = System(
    name="gridengine",
    room=__name__,
    job_variable="JOB_ID",
    beside="SGE_TASK_ID",
    is_plain=False,
    has_groups=False,
    has_processes=True,
    shepherd="sge_shepherd",
    daemon="sge_execd",
    command="gridengine.qstat",
    variables=("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_CLUSTER_NAME"),
    log_kinds={
        "gridengine": LogKind(
            "Grid Engine's accounting file",
            reader="jobfeatures.batch.gridengine.accounting",
            is_by_line=True,
        ),
        "qacct": LogKind(
            "what qacct -j of Grid Engine prints",
            reader="jobfeatures.batch.gridengine.qacct",
            is_zoned=True,
        ),
    },
    key_sources=KEY_SOURCES,
)
