"""Declares IBM Spectrum LSF for `jobfeatures.batch.SYSTEMS`, the table of supported batch systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobfeatures.batch.lsf import COMMAND, VARIABLES, LsfSettings
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.system import LIST_OF_NODES, ClusterSystem, LogKind

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.groups import BatchHierarchy
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.errors import Rejected
    from jobfeatures.joblogs.logformat import LogReader
    from jobfeatures.records.model import Job
    from jobfeatures.system.clock import Clock

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


class LsfKind(LogKind):
    name = "lsf"
    meaning = "LSF's lsb.acct"
    longest_line = LIST_OF_NODES
    is_by_line = True

    def reader(self) -> LogReader:
        from jobfeatures.batch.lsf import accounting

        return accounting


class Lsf(ClusterSystem[LsfSettings]):
    """IBM Spectrum LSF as a batch system; `System` says what the attributes and methods mean."""

    name = "lsf"
    job_variable = "LSB_JOBID"
    daemon = "sbatchd"
    command = COMMAND
    variables = VARIABLES
    log_kinds = (LsfKind(),)
    key_sources = KEY_SOURCES

    def is_here(self, config: SystemSettings[LsfSettings]) -> bool:
        from jobfeatures.batch.lsf.site import is_here

        return is_here(config)

    def job_id_of(self, environ: Mapping[str, str]) -> str:
        from jobfeatures.batch.lsf.prolog import job_id_of

        return job_id_of(environ)

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        from jobfeatures.batch.lsf.prolog import job_from_prolog

        return job_from_prolog(environ, node_name=node_name, note=note)

    def ask_in_prolog(
        self, job: Job, config: SystemSettings[LsfSettings], *, node_name: str, timeout_secs: float
    ) -> Job | None:
        from jobfeatures.batch.lsf.site import ask_in_prolog

        return ask_in_prolog(job, config, node_name=node_name, timeout_secs=timeout_secs)

    def hierarchy(self) -> BatchHierarchy:
        from jobfeatures.batch.lsf.groups import HIERARCHY

        return HIERARCHY

    def make_source(self, config: SystemSettings[LsfSettings], clock: Clock, node_name: str) -> BatchSource:
        from jobfeatures.batch.lsf.source import LsfSource

        return LsfSource(config, clock, node_name)

    def make_cluster_source(
        self, config: SystemSettings[LsfSettings], clock: Clock, timeout_secs: float
    ) -> ClusterSource:
        from jobfeatures.batch.lsf.clustersource import LsfCluster

        return LsfCluster(config, clock, timeout_secs)
