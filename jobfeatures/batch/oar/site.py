"""Make OAR's sources from a site's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobfeatures.batch.basics import procfs_of

if TYPE_CHECKING:
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.config import Config
    from jobfeatures.system.clock import Clock
CONFIGURATION = "/etc/oar/oar.conf"


def is_here(config: Config) -> bool:
    """Return whether OAR is installed here, judging by its configuration or its oarstat."""
    import shutil  # a hook has no use for it

    return os.path.exists(CONFIGURATION) or shutil.which(config.oar_oarstat) is not None


def make_source(config: Config, clock: Clock, node_name: str) -> BatchSource:
    """Return the daemon's source. Raises ConfigurationError."""
    from jobfeatures.batch.oar.nodefiles import OarSource  # a hook has no use for it

    files = OarSource(config.oar_directory, clock, node_name=node_name, procfs=procfs_of(config))
    if config.oar_ask != "controller":
        return files
    from jobfeatures.batch.controller.client import make_client
    from jobfeatures.batch.controller.source import ControllerSource
    from jobfeatures.batch.oar.values import NAME, is_plain_id

    return ControllerSource(
        NAME,
        make_client(config, clock, node_name, key="oar.ask", timeout_secs=config.batch_timeout_secs),
        clock,
        ask_one=files.read_job,
        is_plain=is_plain_id,
        fallback_secs=config.controller_fallback_secs,
    )


def make_cluster_source(config: Config, clock: Clock, timeout_secs: float) -> ClusterSource:
    """Return the controller role's source."""
    from jobfeatures.batch.oar.clustersource import OarCluster  # a hook has no use for it

    return OarCluster(clock, oarstat=config.oar_oarstat, timeout_secs=timeout_secs)
