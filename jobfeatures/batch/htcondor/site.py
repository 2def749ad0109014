"""HTCondor on this host: whether it is there, its daemons' uids, its control groups, sites' wall limits."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from jobfeatures.batch.basics import is_installed
from jobfeatures.batch.htcondor.fields import SITE_LIMITS
from jobfeatures.batch.htcondor.jobad import parse_site_limits
from jobfeatures.batch.htcondor.prolog import job_from_prolog
from jobfeatures.records.model import Job

if TYPE_CHECKING:
    from jobfeatures.batch.htcondor import HTCondorSettings
    from jobfeatures.batch.settings import SystemSettings


def is_here(config: SystemSettings[HTCondorSettings]) -> bool:
    """Return whether HTCondor is installed on this host; this decides if ``batch.sources`` is "auto"."""
    return os.path.isdir(config.own.execute_directory) or is_installed(config.own.condor_status)


def ask_in_prolog(
    job: Job, config: SystemSettings[HTCondorSettings], *, node_name: str, timeout_secs: float
) -> Job | None:
    """Return the job with a wall limit from the attributes that ``htcondor.wall_limit_attributes`` names.

    None if the setting has its default, with which the job has been read already. Nothing is queried: the
    limits are in the job's ad.
    """
    del job, timeout_secs
    limits = parse_site_limits(config.own.wall_limit_attributes)
    if limits == SITE_LIMITS:
        return None
    return job_from_prolog(os.environ, node_name=node_name, site_limits=limits)


def daemon_uids(config: SystemSettings[HTCondorSettings]) -> list[int]:
    """Return the uids, besides root's, of HTCondor's daemons: that of EXECUTE's owner.

    Raises OSError if it is unknown, or if everyone may write to EXECUTE.
    """
    from jobfeatures.batch.htcondor.scratch import find_owner  # a hook has no use for it

    return [find_owner(config.own.execute_directory)]


def read_parents(config: SystemSettings[HTCondorSettings]) -> list[str]:
    """Return path patterns of the control groups below which HTCondor makes the groups of slots.

    They follow from BASE_CGROUP, as condor_config_val prints it, below the root or below the daemon's own
    group. [] if it is not a path. Raises SourceError if that command fails.
    """
    from jobfeatures.batch.htcondor import COMMAND, VARIABLES
    from jobfeatures.batch.programs import Programs

    programs = Programs(COMMAND, config.own.condor_status, config.common.timeout_secs, kept=VARIABLES)
    answer = programs.ask("condor_config_val", "BASE_CGROUP")
    base = answer.strip().strip("/")
    if not re.fullmatch(r"[A-Za-z0-9_.@-]+(?:/[A-Za-z0-9_.@-]+)*", base):
        return []
    return [f"{above}/{base}" for above in ("", "/system.slice", "/system.slice/*condor*.service")]
