"""PBS Pro and OpenPBS, and Torque: descendants of one program, with similar commands and formats.

Queries need permission to see other users' jobs: with ``query_other_jobs = False``
the server reports them as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobfeatures.batch.settings import AskingSettings
from jobfeatures.batch.system import LIST_OF_NODES, LogKind, System
from jobfeatures.settings.resolve import PATH, TEXT, node_option


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PbsSettings(AskingSettings):
    """Where PBS is installed, and how to query it."""

    pbs_home: str = node_option(PATH, "/var/spool/pbs", "PBS_HOME")
    pbs_qstat: str = node_option(TEXT, "qstat", "qstat command; pbsnodes lies beside it")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TorqueSettings(AskingSettings):
    """Where Torque is installed, and how to query it."""

    torque_home: str = node_option(PATH, "/var/spool/torque", "Torque's server home")
    torque_qstat: str = node_option(TEXT, "qstat", "qstat command; pbsnodes lies beside it")


def setting(config: object, system: str, name: str) -> Any:
    """Return a setting of PBS or Torque: they differ only in the prefix, the system's name."""
    return getattr(config, f"{system}_{name}")


VARIABLES = ("PBS_CONF_FILE",)

PBS_KEY_SOURCES = {
    "allocated_cpu": "ncpus of this host in exec_vnode, else exec_host",
    "jobstart_secs": "stime (qstat), or the time of the hook",
    "job_id": "the job's id without its server",
    "wall_limit_secs": "Resource_List.walltime",
    "cpu_limit_secs": "Resource_List.cput, else the wall limit * the job's CPUs",
    "max_rss_bytes": "mem of this host in exec_vnode, else Resource_List.mem of a job on one host,"
    " else Resource_List.pmem * CPUs",
}

PBS = System(
    name="pbs",
    room=__name__,
    parts=f"{__name__}.openpbs",
    job_variable="PBS_JOBID",
    is_plain=False,
    daemon="pbs_mom",
    command="pbs.qstat",
    variables=VARIABLES,
    log_kinds={
        "pbs": LogKind(
            "accounting files of PBS and Torque",
            reader="jobfeatures.batch.pbs.accounting",
            is_zoned=True,
            longest_line=LIST_OF_NODES,
            is_by_line=True,
        )
    },
    key_sources=PBS_KEY_SOURCES,
)

TORQUE_KEY_SOURCES = {
    **PBS_KEY_SOURCES,
    "allocated_cpu": "slots of this host in exec_host (qstat), or its lines in aux/ID (prologue)",
    "jobstart_secs": "start_time (qstat), or the time of the prologue",
    "max_rss_bytes": "Resource_List.mem of a job on one host, else Resource_List.pmem * CPUs",
}

TORQUE = System(
    name="torque",
    room=__name__,
    parts=f"{__name__}.torque",
    job_variable="PBS_JOBID",
    beside="PBS_VERSION",
    is_plain=False,
    daemon="pbs_mom",
    command="torque.qstat",
    variables=VARIABLES,
    key_sources=TORQUE_KEY_SOURCES,
)
