"""Grid Engine (SGE, Son of Grid Engine, Open Grid Scheduler, Univa's, Open Cluster Scheduler).

This node's jobs are read from the spool directory of its execution daemon, which
holds nearly everything that is reported; ``qstat`` is queried for the rest,
about these jobs only. The controller role queries ``qstat`` and ``qhost``.

This program treats each array task as a separate job, ``JOB.TASK``: several may run on one node.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, TEXT, node_option, option

COMMAND = "gridengine.qstat"  # the setting that names its command
VARIABLES = (
    "SGE_ROOT",
    "SGE_CELL",
    "SGE_QMASTER_PORT",
    "SGE_EXECD_PORT",
    "SGE_CLUSTER_NAME",
)  # of our environment, for its commands


@dataclass(frozen=True, kw_only=True)
class GridEngineSettings:
    """The settings that say where Grid Engine is installed, and how to query it."""

    spool_directory: str | None = option(PATH, None, "folder with active_jobs, if not sge_execd's own")
    qstat: str = node_option(TEXT, "qstat", "qstat command; qhost lies beside it")
    accounting_file: str | None = node_option(
        PATH, None, "controller role: Grid Engine's accounting file, if not that of $SGE_ROOT and $SGE_CELL"
    )
