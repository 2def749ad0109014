"""Whether LSF is on this host, and which data a prolog adds to a starting job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobfeatures.batch.basics import find_uid, is_installed
from jobfeatures.records.model import Job
from jobfeatures.system.lookups import LookUps

if TYPE_CHECKING:
    from jobfeatures.batch.lsf import LsfSettings
    from jobfeatures.batch.settings import SystemSettings
CONFIGURATION = "/etc/lsf.conf"


def is_here(config: SystemSettings[LsfSettings]) -> bool:
    """Return whether LSF is installed or configured on this host; decides if ``batch.sources`` is "auto"."""
    return is_installed(config.own.bjobs, CONFIGURATION, variable="LSF_ENVDIR")


def ask_in_prolog(
    job: Job, config: SystemSettings[LsfSettings], *, node_name: str, timeout_secs: float
) -> Job | None:
    """Return the job with its user's uid filled in; None if it has a uid already, or if the uid is not known.

    mbatchd is not queried for limits: a job of many hosts starts on all of them at once, and each would query
    it. The limits come with the daemon's next poll.
    """
    del config, node_name, timeout_secs
    uid = None if job.user is None or job.uid is not None else _USERS.get(job.user)
    return None if uid is None else replace(job, uid=uid)


_USERS = LookUps(find_uid)
