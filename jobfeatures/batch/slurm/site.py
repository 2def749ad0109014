"""What the daemon and the hooks make of Slurm with a site's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobfeatures.clock import Clock
from jobfeatures.model import Job

if TYPE_CHECKING:
    from jobfeatures.batch.slurm.clustersource import SlurmCluster
    from jobfeatures.batch.slurm.source import SlurmSource
    from jobfeatures.config import Config


def is_here(config: Config) -> bool:
    """Tell whether Slurm's command is installed, for those who leave the choice of sources to us."""
    import shutil  # a prolog has no use for it

    return shutil.which(config.slurm_scontrol) is not None


def make_source(config: Config, clock: Clock, node_name: str) -> SlurmSource:
    """Return the source of a daemon."""
    from jobfeatures.batch.slurm.source import SlurmSource  # a prolog has no use for it

    return SlurmSource(
        clock,
        node_name=node_name,
        scontrol=config.slurm_scontrol,
        timeout_secs=config.slurm_timeout_secs,
        refresh_secs=config.slurm_refresh_secs,
        node_refresh_secs=config.slurm_node_refresh_secs,
    )


def make_cluster_source(config: Config, clock: Clock, timeout_secs: float) -> SlurmCluster:
    """Return the source of the controller role. The other commands are those beside scontrol."""
    from jobfeatures.batch.slurm.clustersource import SlurmCluster  # a prolog has no use for it

    folder = config.slurm_scontrol.removesuffix("scontrol")
    return SlurmCluster(
        clock,
        scontrol=config.slurm_scontrol,
        squeue=f"{folder}squeue",
        sacct=f"{folder}sacct",
        timeout_secs=timeout_secs,
    )


def ask_in_prolog(job: Job, config: Config, *, node_name: str, timeout_secs: float) -> Job | None:
    """Return what the controller knows of a job whose Prolog runs; None if it is not to be asked.

    Where the Prolog's environment tells start and end, as that of Slurm 22.05
    does not, there is nothing to ask. A job on many nodes starts on all of them at once, and
    its questions would reach the controller at once: its limits come with the
    daemon's next poll. Raises SourceError or ParseError.
    """
    if config.slurm_ask_in_prolog == "never" or len(job.nodes) > config.slurm_ask_max_nodes:
        return None
    if job.start_secs is not None and job.limits.wall_secs is not None:
        return None
    from jobfeatures.batch.slurm.answers import ask_about_job  # only where there is something to ask

    return ask_about_job(
        job.key.job_id, node_name=node_name, scontrol=config.slurm_scontrol, timeout_secs=timeout_secs
    )
