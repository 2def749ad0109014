"""Declares OAR for `jobfeatures.batch.SYSTEMS`, the table of supported batch systems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from jobfeatures.batch.oar import COMMAND, OarSettings
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.system import DOCUMENT, ClusterSystem, LogKind

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.groups import BatchHierarchy
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.errors import Rejected
    from jobfeatures.joblogs.logformat import LogReader
    from jobfeatures.records.model import Job
    from jobfeatures.system.clock import Clock

_FILES = "in OAR's folder on the node"
KEY_SOURCES = {
    "allocated_cpu": f"this host's lines in the job's node file {_FILES}, or assigned_resources (oarstat)",
    "jobstart_secs": f"the time of USER_ID.env {_FILES}, startTime (oarstat), or the time of the prologue",
    "job_id": "OAR_JOB_ID, Job_Id (oarstat)",
    "wall_limit_secs": "OAR_JOB_WALLTIME_SECONDS, or walltime (oarstat), which follows oarwalltime",
    "cpu_limit_secs": "the wall limit * the job's CPUs",
}


class OarKind(LogKind):
    name = "oar"
    meaning = "what oarstat -J -f of OAR prints"
    longest_line = DOCUMENT

    def reader(self) -> LogReader:
        from jobfeatures.batch.oar import log

        return log


class Oar(ClusterSystem[OarSettings]):
    """OAR as a batch system; `System` says what the attributes and methods mean."""

    name = "oar"
    job_variable = "OAR_JOB_ID"
    reports_suspension = False
    suspension_extends_limit = True
    command = COMMAND
    log_kinds = (OarKind(),)
    key_sources = KEY_SOURCES

    def is_here(self, config: SystemSettings[OarSettings]) -> bool:
        from jobfeatures.batch.oar.site import is_here

        return is_here(config)

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        from jobfeatures.batch.oar.prolog import job_from_prolog

        return job_from_prolog(environ, node_name=node_name, note=note)

    def read_parents(self, config: SystemSettings[OarSettings]) -> Collection[str]:
        from jobfeatures.batch.oar.site import read_parents

        return read_parents(config)

    def hierarchy(self) -> BatchHierarchy:
        from jobfeatures.batch.oar.groups import HIERARCHY

        return HIERARCHY

    def make_source(self, config: SystemSettings[OarSettings], clock: Clock, node_name: str) -> BatchSource:
        from jobfeatures.batch.oar.source import make_source

        return make_source(config, clock, node_name)

    def make_cluster_source(
        self, config: SystemSettings[OarSettings], clock: Clock, timeout_secs: float
    ) -> ClusterSource:
        from jobfeatures.batch.oar.clustersource import OarCluster

        return OarCluster(config, clock, timeout_secs)
