"""Declares HTCondor for `jobfeatures.batch.SYSTEMS`, the table of supported batch systems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from jobfeatures.batch.htcondor import COMMAND, VARIABLES, HTCondorSettings
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.system import DOCUMENT, ClusterSystem, LogKind

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.groups import BatchHierarchy
    from jobfeatures.batch.processes import Failures, GroupNames
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.errors import Rejected
    from jobfeatures.joblogs.logformat import LogReader
    from jobfeatures.records.model import Job
    from jobfeatures.system.clock import Clock

KEY_SOURCES = {
    "allocated_cpu": "CpusProvisioned (job ad), else Cpus (machine ad)",
    "jobstart_secs": "JobCurrentStartDate (job ad)",
    "job_id": "ClusterId and ProcId (job ad)",
    "wall_limit_secs": "the least of AllowedJobDuration and AllowedExecuteDuration, else the first of"
    " htcondor.wall_limit_attributes (job ad)",
    "cpu_limit_secs": "the wall limit * allocated_cpu",
    "max_rss_bytes": "MemoryProvisioned (job ad), else Memory (machine ad), MiB",
    "scratch_limit_bytes": "DiskProvisioned (job ad), else Disk (machine ad), KiB",
    "shutdowntime_job": "the end of RetirementTimeRemaining, of a vacating slot EnteredCurrentActivity +"
    " grace_secs_job (condor_status -direct)",
    "grace_secs_job": "MachineMaxVacateTime (machine ad), or JobMaxVacateTime (job ad) if that is less",
}


class HTCondorKind(LogKind):
    name = "htcondor"
    meaning = "HTCondor's history, as files and as condor_history prints it (long form, JSON)"
    longest_line = DOCUMENT

    def reader(self) -> LogReader:
        from jobfeatures.batch.htcondor import accounting

        return accounting


class HTCondor(ClusterSystem[HTCondorSettings]):
    """HTCondor as a batch system; `System` says what the attributes and methods mean."""

    name = "htcondor"
    job_variable = "_CONDOR_JOB_AD"
    reports_suspension = False
    supervisor = "condor_starter"
    daemon = "condor_startd"
    command = COMMAND
    variables = VARIABLES
    log_kinds = (HTCondorKind(),)
    key_sources = KEY_SOURCES

    def is_here(self, config: SystemSettings[HTCondorSettings]) -> bool:
        from jobfeatures.batch.htcondor.site import is_here

        return is_here(config)

    def job_id_of(self, environ: Mapping[str, str]) -> str:
        from jobfeatures.batch.htcondor.prolog import job_id_of

        return job_id_of(environ)

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        from jobfeatures.batch.htcondor.prolog import job_from_prolog

        return job_from_prolog(environ, node_name=node_name, note=note)

    def ask_in_prolog(
        self, job: Job, config: SystemSettings[HTCondorSettings], *, node_name: str, timeout_secs: float
    ) -> Job | None:
        from jobfeatures.batch.htcondor.site import ask_in_prolog

        return ask_in_prolog(job, config, node_name=node_name, timeout_secs=timeout_secs)

    def read_parents(self, config: SystemSettings[HTCondorSettings]) -> Collection[str]:
        from jobfeatures.batch.htcondor.site import read_parents

        return read_parents(config)

    def daemon_uids(self, config: SystemSettings[HTCondorSettings]) -> Collection[int]:
        from jobfeatures.batch.htcondor.site import daemon_uids

        return daemon_uids(config)

    def hierarchy(self) -> BatchHierarchy:
        from jobfeatures.batch.htcondor.groups import HIERARCHY

        return HIERARCHY

    def make_group_names(self, config: SystemSettings[HTCondorSettings], failures: Failures) -> GroupNames:
        from jobfeatures.batch.htcondor.groupnames import SlotResolver

        return SlotResolver(config, failures)

    def make_source(
        self, config: SystemSettings[HTCondorSettings], clock: Clock, node_name: str
    ) -> BatchSource:
        from jobfeatures.batch.htcondor.source import CondorSource

        return CondorSource(config, clock, node_name)

    def make_cluster_source(
        self, config: SystemSettings[HTCondorSettings], clock: Clock, timeout_secs: float
    ) -> ClusterSource:
        from jobfeatures.batch.htcondor.clustersource import CondorPool

        return CondorPool(config, clock, timeout_secs)
