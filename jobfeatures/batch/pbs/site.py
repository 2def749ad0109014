"""What the daemon makes of PBS or Torque with a site's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jobfeatures.batch.basics import procfs_of
from jobfeatures.clock import Clock

if TYPE_CHECKING:
    from jobfeatures.batch.pbs.commands import Commands
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.config import Config


class Site:
    """One of them. The settings of both are the same but for their beginning, its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def setting(self, config: Config, name: str) -> Any:
        """Return one of its settings."""
        return getattr(config, f"{self._name}_{name}")

    def is_here(self, config: Config) -> bool:
        """Return whether its daemons have their folder here; other systems have a qstat, too."""
        home = self.setting(config, "home")
        return any(os.path.isdir(f"{home}/{part}") for part in ("mom_priv", "server_priv"))

    def make_source(self, config: Config, clock: Clock, node_name: str) -> BatchSource:
        """Return the source of a daemon."""
        from jobfeatures.batch.pbs.source import QstatSource  # a hook has no use for it

        return QstatSource(
            self._commands(config, config.batch_timeout_secs),
            clock,
            node_name=node_name,
            home=self.setting(config, "home"),
            refresh_secs=config.batch_refresh_secs,
            procfs=procfs_of(config),
        )

    def make_cluster_source(self, config: Config, clock: Clock, timeout_secs: float) -> ClusterSource:
        """Return the source of the controller role."""
        from jobfeatures.batch.pbs.clustersource import PbsCluster  # a hook has no use for it

        return PbsCluster(self._commands(config, timeout_secs), clock, home=self.setting(config, "home"))

    def _commands(self, config: Config, timeout_secs: float) -> Commands:
        from jobfeatures.batch.pbs.commands import Commands  # a hook has no use for it

        return Commands(self._name, self.setting(config, "qstat"), timeout_secs=timeout_secs)
