"""Declares Grid Engine for `jobfeatures.batch.SYSTEMS`, the table of supported batch systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobfeatures.batch.gridengine import COMMAND, VARIABLES, GridEngineSettings
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.system import ClusterSystem, LogKind

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.processes import Failures, JobProcesses
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.errors import Rejected
    from jobfeatures.joblogs.logformat import LogReader
    from jobfeatures.records.model import Job
    from jobfeatures.system.clock import Clock

_CONFIG = "config of the job's spool directory"
KEY_SOURCES = {
    "allocated_cpu": f"host_slots ({_CONFIG}), else pe_hostfile",
    "jobstart_secs": f"when {_CONFIG} was made",
    "job_id": "JOB_ID, and SGE_TASK_ID of an array; the name of the job's spool directory",
    "wall_limit_secs": "the least of h_rt and s_rt, requested (qstat -j) or of the queue (qstat -F)",
    "cpu_limit_secs": f"h_cpu * pe_slots ({_CONFIG})",
    "max_rss_bytes": f"h_rss, else h_vmem * host_slots ({_CONFIG})",
}


class GridEngineKind(LogKind):
    name = "gridengine"
    meaning = "Grid Engine's accounting file"
    is_by_line = True

    def reader(self) -> LogReader:
        from jobfeatures.batch.gridengine import accounting

        return accounting


class QacctKind(LogKind):
    name = "qacct"
    meaning = "what qacct -j of Grid Engine prints"
    is_zoned = True

    def reader(self) -> LogReader:
        from jobfeatures.batch.gridengine import qacct

        return qacct


class GridEngine(ClusterSystem[GridEngineSettings]):
    """Grid Engine as a batch system; `System` says what the attributes and methods mean."""

    name = "gridengine"
    job_variable = "JOB_ID"
    second_variable = "SGE_TASK_ID"
    supervisor = "sge_shepherd"
    daemon = "sge_execd"
    command = COMMAND
    variables = VARIABLES
    log_kinds = (GridEngineKind(), QacctKind())
    key_sources = KEY_SOURCES

    def is_here(self, config: SystemSettings[GridEngineSettings]) -> bool:
        from jobfeatures.batch.gridengine.site import is_here

        return is_here(config)

    def job_id_of(self, environ: Mapping[str, str]) -> str:
        from jobfeatures.batch.gridengine.prolog import job_id_of

        return job_id_of(environ)

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        from jobfeatures.batch.gridengine.prolog import job_from_prolog

        return job_from_prolog(environ, node_name=node_name, note=note)

    def needs_server(self, job: Job, config: SystemSettings[GridEngineSettings]) -> bool:
        from jobfeatures.batch.gridengine.site import needs_server

        return needs_server(job, config)

    def ask_in_prolog(
        self, job: Job, config: SystemSettings[GridEngineSettings], *, node_name: str, timeout_secs: float
    ) -> Job | None:
        from jobfeatures.batch.gridengine.site import ask_in_prolog

        return ask_in_prolog(job, config, node_name=node_name, timeout_secs=timeout_secs)

    def make_job_processes(
        self, config: SystemSettings[GridEngineSettings], failures: Failures
    ) -> JobProcesses:
        from jobfeatures.batch.gridengine.processes import GridEngineJobs

        return GridEngineJobs(config, failures)

    def make_source(
        self, config: SystemSettings[GridEngineSettings], clock: Clock, node_name: str
    ) -> BatchSource:
        from jobfeatures.batch.gridengine.source import GridEngineSource

        return GridEngineSource(config, clock, node_name)

    def make_cluster_source(
        self, config: SystemSettings[GridEngineSettings], clock: Clock, timeout_secs: float
    ) -> ClusterSource:
        from jobfeatures.batch.gridengine.clustersource import GridEngineCluster

        return GridEngineCluster(config, clock, timeout_secs)
