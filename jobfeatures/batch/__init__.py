"""The supported batch systems: a package and one line in `SYSTEMS` each; see `jobfeatures.batch.system`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobfeatures.batch import controller, gridengine, htcondor, lsf, oar, pbs, slurm, spool
from jobfeatures.batch.system import System
from jobfeatures.settings.grouppatterns import GROUP_PATTERNS
from jobfeatures.settings.resolve import POSITIVE_DURATION, node_option

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
    """The settings of all batch systems (the last base's come first), and those that apply to all."""

    batch_timeout_secs: float = node_option(
        POSITIVE_DURATION, 10.0, "how long a node waits for one answer of a batch system"
    )
    batch_refresh_secs: float = node_option(
        POSITIVE_DURATION, 300.0, "how often known jobs, the node's state and limits of queues are refreshed"
    )
    batch_cgroup_parents: tuple[str, ...] = node_option(
        GROUP_PATTERNS,
        (),
        "control groups of batch systems that are not found: prefixes such as /pbspro, and containers "
        "such as /kubepods.slice/*/*/cri-containerd-*.scope",
    )
