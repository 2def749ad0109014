"""HTCondor: the ClassAds of the jobs on this node, and the pool as its commands report it.

A node's jobs are read from the scratch directories of their condor_starters, without any query; the
controller role queries ``condor_q``, ``condor_status`` and ``condor_history``. A job id is
``ClusterId.ProcId@schedd``: each schedd numbers from 1. Manual: https://htcondor.readthedocs.io/.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, TEXT, node_option, option

COMMAND = "htcondor.condor_status"  # the setting that names its command
VARIABLES = ("CONDOR_CONFIG",)  # of our environment, for its commands


@dataclass(frozen=True, kw_only=True)
class HTCondorSettings:
    """The settings that say where HTCondor's files and commands are, and which attributes to read."""

    execute_directory: str = option(PATH, "/var/lib/condor/execute", "EXECUTE of HTCondor")
    wall_limit_attributes: str = node_option(
        TEXT,
        "BatchRuntime, MaxRuntime",
        "job attributes with a wall limit in seconds, for jobs without AllowedJobDuration and "
        "AllowedExecuteDuration; the first that is set counts",
    )
    hs06_attribute: str | None = node_option(
        TEXT, None, "machine attribute with the HS06 rating per processor, used if machine.hs06 is not set"
    )
    hs23_attribute: str | None = node_option(
        TEXT,
        None,
        "machine attribute with the HEPScore23 rating per processor, used if machine.hs23 is not set",
    )
    condor_status: str = node_option(
        TEXT, "condor_status", "condor_status command; the other commands are taken from its directory"
    )
