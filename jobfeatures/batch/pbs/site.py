"""What the daemon and the hooks make of PBS with a site's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobfeatures.clock import Clock
from jobfeatures.model import Job

if TYPE_CHECKING:
    from jobfeatures.batch.pbsfamily.clustersource import PbsCluster
    from jobfeatures.batch.pbsfamily.source import QstatSource
    from jobfeatures.config import Config


def is_here(config: Config) -> bool:
    """Tell whether PBS's daemons have their folder here; its qstat has a name that others have as well."""
    return any(os.path.isdir(f"{config.pbs_home}/{part}") for part in ("mom_priv", "server_priv"))


def make_source(config: Config, clock: Clock, node_name: str) -> QstatSource:
    """Return the source of a daemon."""
    from jobfeatures.batch.pbs.commands import PbsCommands  # a hook has no use for it
    from jobfeatures.batch.pbsfamily.source import QstatSource

    return QstatSource(
        PbsCommands(config.pbs_qstat, timeout_secs=config.pbs_timeout_secs),
        clock,
        node_name=node_name,
        home=config.pbs_home,
        refresh_secs=config.pbs_refresh_secs,
    )


def make_cluster_source(config: Config, clock: Clock, timeout_secs: float) -> PbsCluster:
    """Return the source of the controller role."""
    from jobfeatures.batch.pbs.commands import PbsCommands  # a hook has no use for it
    from jobfeatures.batch.pbsfamily.clustersource import PbsCluster

    return PbsCluster(PbsCommands(config.pbs_qstat, timeout_secs=timeout_secs), clock, home=config.pbs_home)


def ask_in_prolog(job: Job, config: Config, *, node_name: str, timeout_secs: float) -> Job | None:
    """Return None: the hook knows all that there is, and all nodes of a job start at once."""
    del job, config, node_name, timeout_secs
    return None
