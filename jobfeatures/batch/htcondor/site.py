"""Construction of HTCondor's sources from a site's settings, for the daemon and the hooks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobfeatures.batch.basics import procfs_of
from jobfeatures.batch.htcondor.jobad import SITE_LIMITS
from jobfeatures.batch.htcondor.prolog import job_from_prolog
from jobfeatures.features import keys
from jobfeatures.records.model import Job
from jobfeatures.system.clock import Clock

if TYPE_CHECKING:
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.config import Config


def is_here(config: Config) -> bool:
    """Return whether HTCondor is installed here; used where no sources are configured."""
    import shutil  # a hook has no use for it

    if os.path.isdir(config.htcondor_execute_directory):
        return True
    return shutil.which(config.htcondor_condor_status) is not None


def make_source(config: Config, clock: Clock, node_name: str) -> BatchSource:
    """Return a node's job source."""
    from jobfeatures.batch.htcondor.source import CondorSource  # a hook has no use for it

    return CondorSource(
        clock,
        node_name=node_name,
        execute=config.htcondor_execute_directory,
        procfs=procfs_of(config),
        site_limits=_site_limits(config),
        condor_status=config.htcondor_condor_status,
        ratings={
            name: key
            for name, key in (
                (config.htcondor_hs06_attribute, keys.HS06.name),
                (config.htcondor_hs23_attribute, keys.HS23.name),
            )
            if name is not None
        },
        timeout_secs=config.batch_timeout_secs,
        node_refresh_secs=config.batch_refresh_secs,
    )


def make_cluster_source(config: Config, clock: Clock, timeout_secs: float) -> ClusterSource:
    """Return the controller role's source; condor_q and others are taken from condor_status's directory."""
    from jobfeatures.batch.htcondor.clustersource import CondorPool  # a hook has no use for it

    return CondorPool(
        clock,
        condor_status=config.htcondor_condor_status,
        timeout_secs=timeout_secs,
        site_limits=_site_limits(config),
    )


def ask_in_prolog(job: Job, config: Config, *, node_name: str, timeout_secs: float) -> Job | None:
    """Return the job read again with the site's own limits, None without such limits. Needs no query."""
    del job, timeout_secs
    limits = _site_limits(config)
    if limits == SITE_LIMITS:
        return None
    return job_from_prolog(os.environ, node_name=node_name, site_limits=limits)


def _site_limits(config: Config) -> tuple[str, ...]:
    return tuple(config.htcondor_wall_limit_attributes.replace(",", " ").split())
