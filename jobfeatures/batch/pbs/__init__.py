"""PBS Pro and OpenPBS, and Torque: descendants of one program, with similar commands and formats.

Queries need permission to see other users' jobs: with ``query_other_jobs = False`` the server answers that it
does not know these jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, TEXT, node_option

VARIABLES = ("PBS_CONF_FILE",)  # of our environment, for its commands


@dataclass(frozen=True, kw_only=True)
class PbsSettings:
    """The settings that say where PBS is installed, and how to query it."""

    home: str = node_option(PATH, "/var/spool/pbs", "PBS_HOME")
    qstat: str = node_option(TEXT, "qstat", "qstat command; pbsnodes lies beside it")


@dataclass(frozen=True, kw_only=True)
class TorqueSettings:
    """The settings that say where Torque is installed, and how to query it."""

    home: str = node_option(PATH, "/var/spool/torque", "Torque's server home")
    qstat: str = node_option(TEXT, "qstat", "qstat command; pbsnodes lies beside it")


QstatSettings = PbsSettings | TorqueSettings
