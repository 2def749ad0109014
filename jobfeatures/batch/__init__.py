"""The supported batch systems: each has a package here and one line in the table `SYSTEMS`.

`jobfeatures.batch.system` defines what each of them provides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobfeatures.batch.controller import ControllerSettings
from jobfeatures.batch.gridengine import GridEngineSettings
from jobfeatures.batch.gridengine.system import GridEngine
from jobfeatures.batch.htcondor import HTCondorSettings
from jobfeatures.batch.htcondor.system import HTCondor
from jobfeatures.batch.lsf import LsfSettings
from jobfeatures.batch.lsf.system import Lsf
from jobfeatures.batch.oar import OarSettings
from jobfeatures.batch.oar.system import Oar
from jobfeatures.batch.pbs import PbsSettings, TorqueSettings
from jobfeatures.batch.pbs.system import Pbs, Torque
from jobfeatures.batch.settings import CommonSettings, SystemSettings
from jobfeatures.batch.slurm import SlurmSettings
from jobfeatures.batch.slurm.system import Slurm
from jobfeatures.batch.spool import SpoolSettings
from jobfeatures.batch.spool.system import Spool
from jobfeatures.batch.system import ClusterSystem, System
from jobfeatures.settings.declare import record


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """The settings of all batch systems.

    `common` and `controller` apply to each batch system; every other field holds those of one batch system.
    """

    common: CommonSettings = record(CommonSettings, "batch")
    controller: ControllerSettings = record(ControllerSettings)
    slurm: SlurmSettings = record(SlurmSettings)
    pbs: PbsSettings = record(PbsSettings)
    torque: TorqueSettings = record(TorqueSettings)
    lsf: LsfSettings = record(LsfSettings)
    htcondor: HTCondorSettings = record(HTCondorSettings)
    gridengine: GridEngineSettings = record(GridEngineSettings)
    oar: OarSettings = record(OarSettings)
    spool: SpoolSettings = record(SpoolSettings)

    def of(self, system: str, **mounts: str) -> SystemSettings[Any]:
        """Return the settings of the batch system named `system`.

        `mounts` are where /proc (`procfs`) and /sys/fs/cgroup (`cgroup`) are mounted, if elsewhere.
        """
        own = getattr(self, system, None)  # one may have no settings
        return SystemSettings(own=own, common=self.common, controller=self.controller, **mounts)


SYSTEMS: Mapping[str, System[Any]] = {
    each.name: each
    for each in (
        Slurm(),
        Torque(),  # before PBS, which sets the same variable
        Pbs(),
        Lsf(),
        HTCondor(),
        GridEngine(),
        Oar(),
        Spool(),
    )
}
# Those that the controller role can query.
CLUSTER_SYSTEMS: Mapping[str, ClusterSystem[Any]] = {
    name: each for name, each in SYSTEMS.items() if isinstance(each, ClusterSystem)
}
