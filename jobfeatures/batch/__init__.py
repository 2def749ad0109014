"""The supported batch systems: a package and one line in `SYSTEMS` each; see `jobfeatures.batch.system`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobfeatures.batch import controller, gridengine, htcondor, lsf, oar, pbs, slurm, spool
from jobfeatures.batch.gridengine.system import GridEngine
from jobfeatures.batch.htcondor.system import HTCondor
from jobfeatures.batch.lsf.system import Lsf
from jobfeatures.batch.oar.system import Oar
from jobfeatures.batch.pbs.system import Pbs, Torque
from jobfeatures.batch.slurm.system import Slurm
from jobfeatures.batch.spool.system import Spool
from jobfeatures.batch.system import ClusterSystem, System


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class BatchSettings(
    spool.SpoolSettings,
    oar.OarSettings,
    gridengine.GridEngineSettings,
    htcondor.HTCondorSettings,
    lsf.LsfSettings,
    pbs.TorqueSettings,
    pbs.PbsSettings,
    slurm.SlurmSettings,
    controller.ControllerSettings,
):
    """The settings of all batch systems; the last base's come first."""


SYSTEMS: Mapping[str, System[BatchSettings]] = {
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
CLUSTER_SYSTEMS: Mapping[str, ClusterSystem[BatchSettings]] = {
    name: each for name, each in SYSTEMS.items() if isinstance(each, ClusterSystem)
}
