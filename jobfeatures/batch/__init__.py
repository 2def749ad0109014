"""The batch systems: a room and one line in `SYSTEMS` each. See `jobfeatures.batch.system`."""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.batch import controller, gridengine, htcondor, lsf, oar, pbs, slurm, spool
from jobfeatures.batch.system import System

SYSTEMS: Mapping[str, System] = {
    each.name: each
    for each in (
        slurm.SYSTEM,
        pbs.TORQUE,  # before PBS, which has the same variable
        pbs.PBS,
        lsf.SYSTEM,
        htcondor.SYSTEM,
        gridengine.SYSTEM,
        oar.SYSTEM,
        spool.SYSTEM,
    )
}


class BatchSettings(
    controller.ControllerSettings,
    spool.SpoolSettings,
    oar.OarSettings,
    gridengine.GridEngineSettings,
    htcondor.HTCondorSettings,
    lsf.LsfSettings,
    pbs.TorqueSettings,
    pbs.PbsSettings,
    slurm.SlurmSettings,
):
    """The settings of all of them, those of the last room first."""
