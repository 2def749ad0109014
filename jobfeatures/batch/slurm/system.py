"""Declares Slurm for `jobfeatures.batch.SYSTEMS`, the table of supported batch systems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.slurm import COMMAND, VARIABLES, SlurmSettings
from jobfeatures.batch.system import DOCUMENT, LIST_OF_NODES, ClusterSystem, LogKind

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.groups import BatchHierarchy
    from jobfeatures.batch.processes import Failures, GroupNames
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.errors import Rejected
    from jobfeatures.joblogs.logformat import LogReader
    from jobfeatures.records.model import Job
    from jobfeatures.system.clock import Clock

KEY_SOURCES = {
    "allocated_cpu": "CPU_IDs of this node (scontrol -d), or SLURM_JOB_CPUS_PER_NODE (prolog)",
    "jobstart_secs": "StartTime (scontrol), or SLURM_JOB_START_TIME (prolog)",
    "job_id": "JobId (scontrol), or SLURM_JOB_ID (prolog)",
    "wall_limit_secs": "TimeLimit (scontrol), or SLURM_JOB_END_TIME - SLURM_JOB_START_TIME (prolog)",
    "cpu_limit_secs": "the wall limit * NumCPUs (scontrol), or * the sum of SLURM_JOB_CPUS_PER_NODE (prolog)",
    "max_rss_bytes": "Mem of this node (scontrol -d), else MinMemoryCPU * CPUs, else MinMemoryNode",
    "scratch_limit_bytes": "MinTmpDiskNode (scontrol)",
    "shutdowntime_job": "EndTime of a job with PreemptTime (scontrol): the end of its GraceTime",
}


class SacctKind(LogKind):
    name = "sacct"
    meaning = "what sacct -P of Slurm prints, with a header"
    is_zoned = True
    has_steps = True
    longest_line = LIST_OF_NODES

    def reader(self) -> LogReader:
        from jobfeatures.batch.slurm.sacct import records

        return records


class SlurmJsonKind(LogKind):
    name = "slurmjson"
    meaning = "what sacct --json, squeue --json and slurmrestd of Slurm print, v0.0.37 to v0.0.43"
    longest_line = DOCUMENT

    def reader(self) -> LogReader:
        from jobfeatures.batch.slurm.json import log

        return log


class Slurm(ClusterSystem[SlurmSettings]):
    """Slurm as a batch system; `System` says what the attributes and methods mean."""

    name = "slurm"
    job_variable = "SLURM_JOB_ID"
    hooks_know_start = True
    suspension_extends_limit = True
    node_variable = "SLURMD_NODENAME"
    cluster_variable = "SLURM_CLUSTER_NAME"
    has_gpustat = True
    supervisor = "slurmstepd"
    daemon = "slurmd"
    command = COMMAND
    variables = VARIABLES
    log_kinds = (SacctKind(), SlurmJsonKind())
    key_sources = KEY_SOURCES

    def is_here(self, config: SystemSettings[SlurmSettings]) -> bool:
        from jobfeatures.batch.slurm.site import is_here

        return is_here(config)

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        from jobfeatures.batch.slurm.prolog import job_from_prolog

        return job_from_prolog(environ, node_name=node_name, note=note)

    def needs_server(self, job: Job, config: SystemSettings[SlurmSettings]) -> bool:
        from jobfeatures.batch.slurm.site import needs_server

        return needs_server(job, config)

    def ask_in_prolog(
        self, job: Job, config: SystemSettings[SlurmSettings], *, node_name: str, timeout_secs: float
    ) -> Job | None:
        from jobfeatures.batch.slurm.site import ask_in_prolog

        return ask_in_prolog(job, config, node_name=node_name, timeout_secs=timeout_secs)

    def read_parents(self, config: SystemSettings[SlurmSettings]) -> Collection[str]:
        from jobfeatures.batch.slurm.site import read_parents

        return read_parents(config)

    def hierarchy(self) -> BatchHierarchy:
        from jobfeatures.batch.slurm.groups import HIERARCHY

        return HIERARCHY

    def make_group_names(self, config: SystemSettings[SlurmSettings], failures: Failures) -> GroupNames:
        from jobfeatures.batch.slurm.groupnames import SluidResolver

        return SluidResolver(config, failures)

    def make_source(self, config: SystemSettings[SlurmSettings], clock: Clock, node_name: str) -> BatchSource:
        from jobfeatures.batch.slurm.source import make_source

        return make_source(config, clock, node_name)

    def make_cluster_source(
        self, config: SystemSettings[SlurmSettings], clock: Clock, timeout_secs: float
    ) -> ClusterSource:
        from jobfeatures.batch.slurm.clustersource import make_cluster_source

        return make_cluster_source(config, clock, timeout_secs)
