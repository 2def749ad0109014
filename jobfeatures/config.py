"""The settings that the hooks and the daemon share."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings import COUNT, DECIMAL, PATH, PLAIN_PATH, POSITIVE_DURATION, TEXT, choice, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What `jobfeatures` needs to know about its site."""

    features_root: str = setting(
        "features.root", PLAIN_PATH, "/run/jobfeatures", "folder that holds the published directories"
    )
    machine_total_cpu: int | None = setting(
        "machine.total_cpu",
        COUNT,
        None,
        "processors that jobs may get on this machine, if not all that it has",
    )
    machine_hs06: str | None = setting("machine.hs06", DECIMAL, None, "HS06 rating of the whole machine")
    node_name: str | None = setting(
        "node.name",
        TEXT,
        None,
        "this machine's name in the batch system, if not its host name up to the first dot",
    )
    hook_timeout_secs: float = setting(
        "hook.timeout", POSITIVE_DURATION, 2.0, "how long publish and remove may take in a prolog or epilog"
    )
    slurm_scontrol: str = setting("slurm.scontrol", TEXT, "scontrol", "Slurm's scontrol command")
    slurm_timeout_secs: float = setting(
        "slurm.timeout", POSITIVE_DURATION, 10.0, "how long the daemon waits for one answer of the controller"
    )
    slurm_refresh_secs: float = setting(
        "slurm.refresh", POSITIVE_DURATION, 300.0, "how often the daemon asks again about a job it knows"
    )
    slurm_ask_in_prolog: str = setting(
        "slurm.ask_in_prolog",
        choice("auto", "never"),
        "auto",
        "auto: the prolog asks the controller for limits that its environment lacks",
    )
    slurm_ask_max_nodes: int = setting(
        "slurm.ask_max_nodes",
        COUNT,
        32,
        "jobs on more nodes do not ask in the prolog: all their nodes start at once",
    )
    spool_directory: str | None = setting(
        "spool.directory", PATH, None, "folder of SSS job objects, one file a job, for the spool source"
    )
