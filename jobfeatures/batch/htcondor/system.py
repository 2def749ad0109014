"""HTCondor as an entry of `jobfeatures.batch.SYSTEMS`."""

from __future__ import annotations

from jobfeatures.batch.htcondor import COMMAND, VARIABLES, HTCondorSettings
from jobfeatures.batch.system import DOCUMENT, ClusterSystem, LogKind, part

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


class HTCondor(ClusterSystem[HTCondorSettings]):
    """HTCondor, described in `jobfeatures.batch.htcondor`."""

    name = "htcondor"
    job_variable = "_CONDOR_JOB_AD"
    tells_suspension = False
    supervisor = "condor_starter"
    daemon = "condor_startd"
    command = COMMAND
    variables = VARIABLES
    log_kinds = (
        LogKind(
            "htcondor",
            "HTCondor's history, as files and as condor_history prints it (long form, JSON)",
            "jobfeatures.batch.htcondor.accounting",
            longest_line=DOCUMENT,
        ),
    )
    key_sources = KEY_SOURCES

    is_here = part("jobfeatures.batch.htcondor.site", "is_here")
    job_id_of = part("jobfeatures.batch.htcondor.prolog", "job_id_of")
    job_from_prolog = part("jobfeatures.batch.htcondor.prolog", "job_from_prolog")
    ask_in_prolog = part("jobfeatures.batch.htcondor.site", "ask_in_prolog")
    read_parents = part("jobfeatures.batch.htcondor.site", "read_parents")
    daemon_uids = part("jobfeatures.batch.htcondor.site", "daemon_uids")
    groups = "jobfeatures.batch.htcondor.groups"
    make_group_names = part("jobfeatures.batch.htcondor.groupnames", "SlotResolver")
    make_source = part("jobfeatures.batch.htcondor.source", "CondorSource")
    make_cluster_source = part("jobfeatures.batch.htcondor.clustersource", "CondorPool")
