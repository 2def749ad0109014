"""IBM Spectrum LSF 10.1: its commands for jobs and hosts, and the environment of its hooks.

None of this could be tested against LSF itself: it follows the manuals and
published samples of its output. LSF keeps no files on a node that could be read
instead of running its commands.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.batch.settings import AskingSettings
from jobfeatures.batch.system import LIST_OF_NODES, LogKind, System
from jobfeatures.settings.resolve import TEXT, choice, node_option


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LsfSettings(AskingSettings):
    """How to query LSF."""

    lsf_bjobs: str = node_option(TEXT, "bjobs", "bjobs command; the others lie beside it")
    lsf_user: str | None = node_option(
        TEXT, None, "user who runs LSF's commands (by runuser) if LSF refuses root"
    )
    lsf_abs_runlimit: str = node_option(
        choice("auto", "yes", "no"),
        "auto",
        "ABS_RUNLIMIT: whether run limits are not normalised; auto: by bparams -a",
    )


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

SYSTEM = System(
    name="lsf",
    room=__name__,
    job_variable="LSB_JOBID",
    is_plain=False,
    daemon="sbatchd",
    command="lsf.bjobs",
    variables=("LSF_ENVDIR",),
    log_kinds={
        "lsf": LogKind(
            "LSF's lsb.acct",
            reader="jobfeatures.batch.lsf.accounting",
            longest_line=LIST_OF_NODES,
            is_by_line=True,
        )
    },
    key_sources=KEY_SOURCES,
)
