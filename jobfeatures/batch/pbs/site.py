"""Build the daemon's sources for PBS or Torque from a site's settings."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobfeatures.batch.pbs import setting
from jobfeatures.system.clock import Clock
from jobfeatures.system.privatefile import read_bounded

if TYPE_CHECKING:
    from jobfeatures.batch.settings import AskingSettings
    from jobfeatures.batch.source import BatchSource, ClusterSource


HOOK_CONFIGURATION = "mom_priv/hooks/pbs_cgroups.CF"
MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Site:
    """PBS or Torque at a site."""

    system: str

    def is_here(self, config: AskingSettings) -> bool:
        """Return whether its daemons' folder exists here; a qstat is no proof, as other systems have one."""
        home = setting(config, self.system, "home")
        return any(os.path.isdir(f"{home}/{part}") for part in ("mom_priv", "server_priv"))

    def read_parents(self, config: AskingSettings) -> list[str]:
        """Return the parents of jobs' control groups by ``cgroup_prefix`` of the hook. Raises OSError.

        Older hooks have them below ``/PREFIX`` or in ``/PREFIX.slice``, others in ``PREFIX.service``.
        """
        home = setting(config, self.system, "home")
        try:
            prefix = json.loads(read_bounded(f"{home}/{HOOK_CONFIGURATION}", MAX_BYTES)[0])["cgroup_prefix"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return []
        if not isinstance(prefix, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", prefix):
            return []
        service = f"{prefix}.service"
        return [f"/{service}", f"/*.slice/{service}", f"/{prefix}", f"/{prefix}.slice"]

    def make_source(self, config: AskingSettings, clock: Clock, node_name: str) -> BatchSource:
        """Return the source for a node's daemon."""
        from jobfeatures.batch.pbs.source import QstatSource  # not needed by a hook

        return QstatSource(self.system, config, clock, node_name)

    def make_cluster_source(self, config: AskingSettings, clock: Clock, timeout_secs: float) -> ClusterSource:
        """Return the source for the controller role."""
        from jobfeatures.batch.pbs.clustersource import PbsCluster  # not needed by a hook

        return PbsCluster(self.system, config, clock, timeout_secs)
