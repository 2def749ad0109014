"""Make LSF's sources and commands from a site's settings."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from jobfeatures.batch.basics import find_uid
from jobfeatures.records.model import Job
from jobfeatures.system.clock import Clock

if TYPE_CHECKING:
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.config import Config
CONFIGURATION = "/etc/lsf.conf"


def is_here(config: Config) -> bool:
    """Return whether LSF is installed or configured here, for automatic choice of sources."""
    import shutil  # a hook has no use for it

    return (
        shutil.which(config.lsf_bjobs) is not None
        or "LSF_ENVDIR" in os.environ
        or os.path.exists(CONFIGURATION)
    )


def make_source(config: Config, clock: Clock, node_name: str) -> BatchSource:
    """Return the daemon's source."""
    from jobfeatures.batch.lsf.source import LsfSource  # a hook has no use for it

    return LsfSource(config, clock, node_name)


def make_cluster_source(config: Config, clock: Clock, timeout_secs: float) -> ClusterSource:
    """Return the source of the controller role. The other commands are taken from the directory of bjobs."""
    from jobfeatures.batch.lsf.clustersource import LsfCluster  # a hook has no use for it

    return LsfCluster(config, clock, timeout_secs)


def ask_in_prolog(job: Job, config: Config, *, node_name: str, timeout_secs: float) -> Job | None:
    """Return the job with its user's id; None if no such user exists.

    mbatchd is not queried: a job of many hosts starts on all of them at once. The
    limits come with the daemon's next poll.
    """
    del config, node_name, timeout_secs
    uid = None if job.user is None or job.uid is not None else find_uid(job.user)
    return None if uid is None else replace(job, uid=uid)
