"""Slurm on this host: whether it is there, its control groups, and what a prolog queries."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from jobfeatures.batch.basics import is_installed
from jobfeatures.records.model import Job
from jobfeatures.system.privatefile import read_bounded

ASK_MAX_NODES = 32  # prologs of jobs on more nodes send no query

CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")

MAX_BYTES = 2**20
_SLICE = re.compile(
    r"^[ \t]*CgroupSlice[ \t]*=[ \t]*([A-Za-z0-9_.@:/-]{1,500}\.slice)[ \t]*(?:#.*)?$",
    re.MULTILINE | re.IGNORECASE,
)

if TYPE_CHECKING:
    from jobfeatures.batch.settings import SystemSettings
    from jobfeatures.batch.slurm import SlurmSettings


def is_here(config: SystemSettings[SlurmSettings]) -> bool:
    """Return whether this host belongs to a Slurm cluster; this decides if ``batch.sources`` is "auto".

    Slurm's configuration is proof enough: if the configuration is there and scontrol is not, scontrol's
    absence is reported as a failure.
    """
    if config.own.ask == "controller" or (config.own.ask == "rest" and config.own.rest_url is not None):
        return True
    return is_installed(config.own.scontrol, *CONFIGURATIONS, variable="SLURM_CONF")


def needs_server(job: Job, config: SystemSettings[SlurmSettings]) -> bool:
    """Return whether the prolog has to query the controller about a starting job.

    It has to if its environment lacks data: start and end are there from Slurm 23 on, memory and the job's
    name in no version. It does not query for a job on many nodes, as all of them would query at once, nor if
    nodes query the controller role: the missing data then comes with the daemon's next poll.
    """
    if config.common.hook_ask == "never" or config.own.ask == "controller":
        return False
    if len(job.nodes) > ASK_MAX_NODES:
        return False
    return None in (job.start_secs, job.limits.wall_secs, job.limits.memory_bytes, job.name)


def ask_in_prolog(
    job: Job, config: SystemSettings[SlurmSettings], *, node_name: str, timeout_secs: float
) -> Job | None:
    """Return a starting job as the controller reports it; None if it does not know the job or is not queried.

    Raises SourceError if the query fails, ParseError if the job's record is malformed.
    """
    if not needs_server(job, config):
        return None
    # Imported only where a query is needed.
    if config.own.ask == "rest":
        from jobfeatures.batch.slurm.json.source import JsonAsker
        from jobfeatures.system.clock import SystemClock

        asker = JsonAsker(config, SystemClock(), node_name, timeout_secs)
        return asker.ask_about_job(job.key.job_id)
    from jobfeatures.batch.slurm.answers import Scontrol

    scontrol = Scontrol(config.own.scontrol, node_name=node_name, timeout_secs=timeout_secs)
    return scontrol.ask_about_job(job.key.job_id)


def read_parents(_config: SystemSettings[SlurmSettings]) -> list[str]:
    """Return the path of the slice in which Slurm makes its control groups, as ``cgroup.conf`` sets it.

    [] if it sets no CgroupSlice. Source: cgroup.conf(5) of Slurm 26.05: ``CgroupSlice=site-batch.slice``, or
    a path with the slices above. Raises OSError if the file cannot be read.
    """
    places = [os.environ.get("SLURM_CONF", ""), *CONFIGURATIONS]
    for folder in map(os.path.dirname, filter(None, places)):
        if os.path.exists(f"{folder}/cgroup.conf"):
            return parse_slice(read_bounded(f"{folder}/cgroup.conf", MAX_BYTES)[0].decode("utf-8", "replace"))
    return []


def parse_slice(text: str) -> list[str]:
    """Return the path of CgroupSlice in the text of ``cgroup.conf``, as a list of one; [] if it is not set.

    systemd puts ``a-b.slice`` into ``a.slice``.
    """
    found = _SLICE.search(text)
    if found is None or "//" in found[1]:
        return []
    path = found[1].strip("/")
    if "/" not in path:
        parts = path.removesuffix(".slice").split("-")
        path = "/".join(f"{'-'.join(parts[: end + 1])}.slice" for end in range(len(parts)))
    return [f"/{path}"]
