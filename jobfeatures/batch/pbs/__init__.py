"""PBS Pro and OpenPBS, and Torque: descendants of one program, with similar commands and formats.

Queries need permission to see other users' jobs: with ``query_other_jobs = False``
the server reports them as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobfeatures.batch.settings import AskingSettings
from jobfeatures.settings.resolve import PATH, TEXT, node_option

VARIABLES = ("PBS_CONF_FILE",)  # of our environment, for its commands


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PbsSettings(AskingSettings):
    """Where PBS is installed, and how to query it."""

    pbs_home: str = node_option(PATH, "/var/spool/pbs", "PBS_HOME")
    pbs_qstat: str = node_option(TEXT, "qstat", "qstat command; pbsnodes lies beside it")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TorqueSettings(AskingSettings):
    """Where Torque is installed, and how to query it."""

    torque_home: str = node_option(PATH, "/var/spool/torque", "Torque's server home")
    torque_qstat: str = node_option(TEXT, "qstat", "qstat command; pbsnodes lies beside it")


def setting(config: object, system: str, name: str) -> Any:
    """Return a setting of PBS or Torque: they differ only in the prefix, the system's name."""
    return getattr(config, f"{system}_{name}")
