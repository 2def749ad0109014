"""Build the daemon's sources for PBS or Torque from a site's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jobfeatures.batch.basics import procfs_of
from jobfeatures.system.clock import Clock

if TYPE_CHECKING:
    from jobfeatures.batch.pbs.commands import Commands
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.config import Config


class Site:
    """PBS or Torque. Their settings differ only in the prefix, the system's name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def setting(self, config: Config, name: str) -> Any:
        """Return the system's setting of this name."""
        return getattr(config, f"{self._name}_{name}")

    def is_here(self, config: Config) -> bool:
        """Return whether its daemons' folder exists here; a qstat is no proof, as other systems have one."""
        home = self.setting(config, "home")
        return any(os.path.isdir(f"{home}/{part}") for part in ("mom_priv", "server_priv"))

    def make_source(self, config: Config, clock: Clock, node_name: str) -> BatchSource:
        """Return the source for a node's daemon."""
        from jobfeatures.batch.pbs.source import QstatSource  # not needed by a hook

        return QstatSource(
            self._commands(config, config.batch_timeout_secs),
            clock,
            node_name=node_name,
            home=self.setting(config, "home"),
            refresh_secs=config.batch_refresh_secs,
            procfs=procfs_of(config),
        )

    def make_cluster_source(self, config: Config, clock: Clock, timeout_secs: float) -> ClusterSource:
        """Return the source for the controller role."""
        from jobfeatures.batch.pbs.clustersource import PbsCluster  # not needed by a hook

        return PbsCluster(self._commands(config, timeout_secs), clock, home=self.setting(config, "home"))

    def _commands(self, config: Config, timeout_secs: float) -> Commands:
        from jobfeatures.batch.pbs.commands import Commands  # not needed by a hook

        return Commands(self._name, self.setting(config, "qstat"), timeout_secs=timeout_secs)
