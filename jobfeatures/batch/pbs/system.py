"""Declares PBS and Torque for `jobfeatures.batch.SYSTEMS`, the table of supported batch systems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from jobfeatures.batch.pbs import VARIABLES, QstatSettings
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.system import LIST_OF_NODES, ClusterSystem, LogKind

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.groups import BatchHierarchy
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.errors import Rejected
    from jobfeatures.joblogs.logformat import LogReader
    from jobfeatures.records.model import Job
    from jobfeatures.system.clock import Clock

PBS_KEY_SOURCES = {
    "allocated_cpu": "ncpus of this host in exec_vnode, else exec_host",
    "jobstart_secs": "stime (qstat), or the time of the hook",
    "job_id": "the job's id without its server",
    "wall_limit_secs": "Resource_List.walltime",
    "cpu_limit_secs": "Resource_List.cput, else the wall limit * the job's CPUs",
    "max_rss_bytes": "mem of this host in exec_vnode, else Resource_List.mem of a job on one host,"
    " else Resource_List.pmem * CPUs",
}
TORQUE_KEY_SOURCES = {
    **PBS_KEY_SOURCES,
    "allocated_cpu": "slots of this host in exec_host (qstat), or its lines in aux/ID (prologue)",
    "jobstart_secs": "start_time (qstat), or the time of the prologue",
    "max_rss_bytes": "Resource_List.mem of a job on one host, else Resource_List.pmem * CPUs",
}


class PbsKind(LogKind):
    name = "pbs"
    meaning = "accounting files of PBS and Torque"
    is_zoned = True
    longest_line = LIST_OF_NODES
    is_by_line = True

    def reader(self) -> LogReader:
        from jobfeatures.batch.pbs import accounting

        return accounting


class QstatSystem(ClusterSystem[QstatSettings]):
    """Base class of PBS and Torque: what they have in common, such as queries by qstat; see `System`."""

    job_variable = "PBS_JOBID"
    daemon = "pbs_mom"
    variables = VARIABLES

    def is_here(self, config: SystemSettings[QstatSettings]) -> bool:
        from jobfeatures.batch.pbs.site import is_here

        return is_here(config)

    def job_id_of(self, environ: Mapping[str, str]) -> str:
        from jobfeatures.batch.pbs.values import job_id_of

        return job_id_of(environ)

    def make_source(self, config: SystemSettings[QstatSettings], clock: Clock, node_name: str) -> BatchSource:
        from jobfeatures.batch.pbs.source import QstatSource

        return QstatSource(self.name, config, clock, node_name)

    def make_cluster_source(
        self, config: SystemSettings[QstatSettings], clock: Clock, timeout_secs: float
    ) -> ClusterSource:
        from jobfeatures.batch.pbs.clustersource import PbsCluster

        return PbsCluster(self.name, config, clock, timeout_secs)


class Pbs(QstatSystem):
    """PBS Pro and OpenPBS as a batch system; `System` says what the attributes and methods mean."""

    name = "pbs"
    command = "pbs.qstat"
    log_kinds = (PbsKind(),)
    key_sources = PBS_KEY_SOURCES

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        from jobfeatures.batch.pbs.openpbs import job_from_prolog

        return job_from_prolog(environ, node_name=node_name, note=note)

    def read_parents(self, config: SystemSettings[QstatSettings]) -> Collection[str]:
        from jobfeatures.batch.pbs.site import read_parents

        return read_parents(config)

    def hierarchy(self) -> BatchHierarchy:
        from jobfeatures.batch.pbs.openpbs import HIERARCHY

        return HIERARCHY


class Torque(QstatSystem):
    """Torque as a batch system; `System` says what the attributes and methods mean."""

    name = "torque"
    second_variable = "PBS_VERSION"
    command = "torque.qstat"
    key_sources = TORQUE_KEY_SOURCES

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        from jobfeatures.batch.pbs.torque import job_from_prolog

        return job_from_prolog(environ, node_name=node_name, note=note)

    def ask_in_prolog(
        self, job: Job, config: SystemSettings[QstatSettings], *, node_name: str, timeout_secs: float
    ) -> Job | None:
        from jobfeatures.batch.pbs.torque import ask_in_prolog

        return ask_in_prolog(job, config, node_name=node_name, timeout_secs=timeout_secs)

    def hierarchy(self) -> BatchHierarchy:
        from jobfeatures.batch.pbs.torque import HIERARCHY

        return HIERARCHY
