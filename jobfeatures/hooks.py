"""What a prolog and an epilog do: publish a job's features, and take them away.

A hook must never fail or delay a job: it has a deadline, it does the most
useful thing first, and it leaves what it cannot do to the daemon.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Protocol, cast

from jobfeatures.batch import load_module
from jobfeatures.clock import SystemClock
from jobfeatures.config import Config
from jobfeatures.errors import JobfeaturesError
from jobfeatures.features.keys import LOG_CORES, PHYS_CORES
from jobfeatures.model import Job, JobKey, fill_unknown
from jobfeatures.publish.records import format_record
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.publish.writing import write_job, write_machine
from jobfeatures.site import Cores, Site

log = logging.getLogger(__name__)


class HookModule(Protocol):
    """What a batch system's file offers to hooks."""

    def job_from_prolog(self, environ: Mapping[str, str], *, node_name: str | None) -> Job:
        """Return the job that the hook's environment describes."""

    def ask_in_prolog(self, job: Job, config: Config, *, node_name: str, timeout_secs: float) -> Job | None:
        """Ask the batch system for what the environment lacks; None if nothing is to be asked."""


def node_name(config: Config, environ: Mapping[str, str]) -> str:
    """Return this node's name in the batch system: configured, told by the hook's caller, or the host's."""
    return config.node_name or environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]


def publish_job(config: Config, batch_system: str, environ: Mapping[str, str], *, timeout_secs: float) -> Job:
    """Publish the features of the job that a prolog's environment describes.

    What the environment tells is published first; limits that only the
    controller knows are asked for within `timeout_secs` and added. Raises
    JobfeaturesError or OSError if nothing could be published.
    """
    module = cast(HookModule, load_module(batch_system))
    name = node_name(config, environ)
    job = module.job_from_prolog(environ, node_name=name)
    tree = FeatureTree(config.features_root)
    site = Site(config, cores=published_cores(tree))
    write(tree, job, site)
    try:
        answer = module.ask_in_prolog(job, config, node_name=name, timeout_secs=timeout_secs)
    except JobfeaturesError as error:
        log.warning("job %s: limits are left to the daemon: %s", job.key.job_id, error)
        return job
    if answer is not None:
        job = fill_unknown(answer, job)
        write(tree, job, site)
    return job


def published_cores(tree: FeatureTree) -> Cores | None:
    """Return the cores that are published already: counting them anew costs a hook milliseconds."""
    counts: list[int] = []
    for key in (PHYS_CORES, LOG_CORES):
        try:
            with open(f"{tree.machine_path}/{key.name}", encoding="ascii") as file:
                counts.append(int(file.read(32)))
        except (OSError, ValueError):
            return None
    return Cores(*counts)


def write(tree: FeatureTree, job: Job, site: Site) -> None:
    """Write all that a job is told, and the record that tells the daemon."""
    machine, shutdown_secs = site.machine, None
    if has_drains(tree):  # seldom: reading them costs a hook milliseconds of imports
        from jobfeatures.publish.drainstore import read_for_hook

        machine, drains = read_for_hook(tree, machine)
        drain = drains.of_job(job.key, job.start_secs)
        shutdown_secs = drain.at_secs if drain else None
    write_machine(tree, site, machine, now_secs=SystemClock().now_secs())
    write_job(tree, job, site, machine, shutdown_secs=shutdown_secs)
    tree.write_record(job.key, format_record(job))


def has_drains(tree: FeatureTree) -> bool:
    """Tell whether anything is asked for or announced; a folder that cannot be listed may hold something."""
    try:
        return bool(os.listdir(tree.drains_path))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def remove_job(config: Config, key: JobKey) -> bool:
    """Take a job's directories away; True if there were any."""
    tree = FeatureTree(config.features_root)
    found = tree.remove_job(key)
    tree.sweep(max_entries=1000)  # the daemon sweeps what a user has filled beyond that
    return found
