"""Build the daemon's sources for PBS or Torque from a site's settings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobfeatures.batch.pbs import setting
from jobfeatures.system.clock import Clock

if TYPE_CHECKING:
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.config import Config


@dataclass(frozen=True, slots=True)
class Site:
    """PBS or Torque at a site."""

    system: str

    def is_here(self, config: Config) -> bool:
        """Return whether its daemons' folder exists here; a qstat is no proof, as other systems have one."""
        home = setting(config, self.system, "home")
        return any(os.path.isdir(f"{home}/{part}") for part in ("mom_priv", "server_priv"))

    def make_source(self, config: Config, clock: Clock, node_name: str) -> BatchSource:
        """Return the source for a node's daemon."""
        from jobfeatures.batch.pbs.source import QstatSource  # not needed by a hook

        return QstatSource(self.system, config, clock, node_name)

    def make_cluster_source(self, config: Config, clock: Clock, timeout_secs: float) -> ClusterSource:
        """Return the source for the controller role."""
        from jobfeatures.batch.pbs.clustersource import PbsCluster  # not needed by a hook

        return PbsCluster(self.system, config, clock, timeout_secs)
