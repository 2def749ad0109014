"""The supported batch systems: a package and one line in `SYSTEMS` each; see `jobfeatures.batch.system`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobfeatures.batch import controller, gridengine, htcondor, lsf, oar, pbs, slurm, spool
from jobfeatures.batch.system import System

SYSTEMS: Mapping[str, System] = {
    each.name: each
    for each in (
        slurm.SYSTEM,
        pbs.TORQUE,  # before PBS, which sets the same variable
        pbs.PBS,
        lsf.SYSTEM,
        htcondor.SYSTEM,
        gridengine.SYSTEM,
        oar.SYSTEM,
        spool.SYSTEM,
    )
}


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
