"""PBS and Torque as entries of `jobfeatures.batch.SYSTEMS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobfeatures.batch.pbs import VARIABLES, QstatSettings
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.system import LIST_OF_NODES, ClusterSystem, LogKind, part

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.source import BatchSource, ClusterSource
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


class QstatSystem(ClusterSystem[QstatSettings]):
    """Base class of PBS and Torque, which are both queried by a qstat."""

    job_variable = "PBS_JOBID"
    daemon = "pbs_mom"
    variables = VARIABLES

    is_here = part("jobfeatures.batch.pbs.site", "is_here")
    job_id_of = part("jobfeatures.batch.pbs.values", "job_id_of")

    def make_source(self, config: SystemSettings[QstatSettings], clock: Clock, node_name: str) -> BatchSource:
        from jobfeatures.batch.pbs.source import QstatSource

        return QstatSource(self.name, config, clock, node_name)

    def make_cluster_source(
        self, config: SystemSettings[QstatSettings], clock: Clock, timeout_secs: float
    ) -> ClusterSource:
        from jobfeatures.batch.pbs.clustersource import PbsCluster

        return PbsCluster(self.name, config, clock, timeout_secs)


class Pbs(QstatSystem):
    """PBS Pro and OpenPBS, described in `jobfeatures.batch.pbs`."""

    name = "pbs"
    command = "pbs.qstat"
    log_kinds = (
        LogKind(
            "pbs",
            "accounting files of PBS and Torque",
            "jobfeatures.batch.pbs.accounting",
            is_zoned=True,
            longest_line=LIST_OF_NODES,
            is_by_line=True,
        ),
    )
    key_sources = PBS_KEY_SOURCES

    job_from_prolog = part("jobfeatures.batch.pbs.openpbs", "job_from_prolog")
    read_parents = part("jobfeatures.batch.pbs.site", "read_parents")
    groups = "jobfeatures.batch.pbs.openpbs"


class Torque(QstatSystem):
    """Torque, described in `jobfeatures.batch.pbs`."""

    name = "torque"
    beside = "PBS_VERSION"
    command = "torque.qstat"
    key_sources = TORQUE_KEY_SOURCES

    job_from_prolog = part("jobfeatures.batch.pbs.torque", "job_from_prolog")
    ask_in_prolog = part("jobfeatures.batch.pbs.torque", "ask_in_prolog")
    groups = "jobfeatures.batch.pbs.torque"
