"""What the daemon and the hooks make of Torque with a site's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobfeatures.batch.pbsfamily.momfiles import read_nodefile
from jobfeatures.batch.pbsfamily.values import Share, share_of, times_cpus
from jobfeatures.clock import Clock
from jobfeatures.errors import SourceError
from jobfeatures.model import Job, Limits

if TYPE_CHECKING:
    from jobfeatures.batch.pbsfamily.clustersource import PbsCluster
    from jobfeatures.batch.pbsfamily.source import QstatSource
    from jobfeatures.config import Config


def is_here(config: Config) -> bool:
    """Tell whether Torque's daemons have their folder here; its qstat has a name that others have as well."""
    return any(os.path.isdir(f"{config.torque_home}/{part}") for part in ("mom_priv", "server_priv"))


def make_source(config: Config, clock: Clock, node_name: str) -> QstatSource:
    """Return the source of a daemon."""
    from jobfeatures.batch.pbsfamily.source import QstatSource  # a hook has no use for it
    from jobfeatures.batch.torque.commands import TorqueCommands

    return QstatSource(
        TorqueCommands(config.torque_qstat, timeout_secs=config.torque_timeout_secs),
        clock,
        node_name=node_name,
        home=config.torque_home,
        refresh_secs=config.torque_refresh_secs,
    )


def make_cluster_source(config: Config, clock: Clock, timeout_secs: float) -> PbsCluster:
    """Return the source of the controller role."""
    from jobfeatures.batch.pbsfamily.clustersource import PbsCluster  # a hook has no use for it
    from jobfeatures.batch.torque.commands import TorqueCommands

    commands = TorqueCommands(config.torque_qstat, timeout_secs=timeout_secs)
    return PbsCluster(commands, clock, home=config.torque_home)


def ask_in_prolog(job: Job, config: Config, *, node_name: str, timeout_secs: float) -> Job | None:
    """Return what pbs_mom's node list tells: hosts and slots. The server is not asked.

    The file is ``aux/123.server``. Raises SourceError or ParseError.
    """
    del timeout_secs
    folder = os.path.join(config.torque_home, "aux")
    try:
        names = [name for name in os.listdir(folder) if name.partition(".")[0] == job.key.job_id]
        if len(names) != 1:
            return None
        slots = read_nodefile(os.path.join(folder, names[0]))
    except FileNotFoundError:
        return None  # only the job's first node has one
    except OSError as error:
        raise SourceError(f"{folder}: {error.strerror}") from error
    total_cpus = sum(slots.values()) or None
    mine = share_of({host: Share(cpus) for host, cpus in slots.items()}, node_name)
    return Job(
        key=job.key,
        state=job.state,
        nodes=tuple(slots),
        total_cpus=total_cpus,
        allocated_cpus=mine.cpus,
        limits=Limits(
            cpu_secs=None if job.limits.cpu_secs is not None else times_cpus(job.limits.wall_secs, total_cpus)
        ),
    )
