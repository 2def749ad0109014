"""HTCondor: the ads of the jobs on this node, and the pool as its commands report it.

A node's jobs are read from the scratch directories of their starters, without any query; the controller role
queries ``condor_q``, ``condor_status`` and ``condor_history``. A job id is ``ClusterId.ProcId@schedd``: each
schedd numbers from 1. Manual: https://htcondor.readthedocs.io/.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.batch.settings import AskingSettings
from jobfeatures.batch.system import DOCUMENT, LogKind, System
from jobfeatures.settings.resolve import PATH, TEXT, node_option, option


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class HTCondorSettings(AskingSettings):
    """Where HTCondor's files and commands are, and which attributes to read."""

    htcondor_execute_directory: str = option(PATH, "/var/lib/condor/execute", "EXECUTE of HTCondor")
    htcondor_wall_limit_attributes: str = node_option(
        TEXT,
        "BatchRuntime, MaxRuntime",
        "job attributes with a wall limit in seconds, for jobs without AllowedJobDuration and "
        "AllowedExecuteDuration; the first that is set counts",
    )
    htcondor_hs06_attribute: str | None = node_option(
        TEXT, None, "machine attribute with the HS06 rating per processor, used if machine.hs06 is not set"
    )
    htcondor_hs23_attribute: str | None = node_option(
        TEXT,
        None,
        "machine attribute with the HEPScore23 rating per processor, used if machine.hs23 is not set",
    )
    htcondor_condor_status: str = node_option(
        TEXT, "condor_status", "condor_status command; the other commands are taken from its directory"
    )


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

SYSTEM = System(
    name="htcondor",
    room=__name__,
    job_variable="_CONDOR_JOB_AD",
    is_plain=False,
    tells_suspension=False,
    shepherd="condor_starter",
    daemon="condor_startd",
    command="htcondor.condor_status",
    variables=("CONDOR_CONFIG",),
    log_kinds={
        "htcondor": LogKind(
            "HTCondor's history, as files and as condor_history prints it (long form, JSON)",
            reader="jobfeatures.batch.htcondor.accounting",
            longest_line=DOCUMENT,
        )
    },
    key_sources=KEY_SOURCES,
)
