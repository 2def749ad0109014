"""Whether PBS or Torque is on this host, and below which control groups it makes those of jobs."""

from __future__ import annotations

import json
import os
import re

from jobfeatures.batch.pbs import QstatSettings
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.system.privatefile import read_bounded

HOOK_CONFIGURATION = "mom_priv/hooks/pbs_cgroups.CF"
MAX_BYTES = 2**20


def is_here(config: SystemSettings[QstatSettings]) -> bool:
    """Return whether daemons of PBS or Torque have a folder on this host.

    A command ``qstat`` is no proof, as other batch systems have one too.
    """
    home = config.own.home
    return any(os.path.isdir(f"{home}/{part}") for part in ("mom_priv", "server_priv"))


def read_parents(config: SystemSettings[QstatSettings]) -> list[str]:
    """Return path patterns of the control groups below which the cgroups hook makes those of jobs.

    They follow from its setting ``cgroup_prefix``: older hooks make the groups in ``/PREFIX`` or
    ``/PREFIX.slice``, others in ``PREFIX.service``. [] if it has none. Raises OSError if the hook's
    configuration cannot be read.
    """
    try:
        prefix = json.loads(read_bounded(f"{config.own.home}/{HOOK_CONFIGURATION}", MAX_BYTES)[0])[
            "cgroup_prefix"
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    if not isinstance(prefix, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", prefix):
        return []
    service = f"{prefix}.service"
    return [f"/{service}", f"/*.slice/{service}", f"/{prefix}", f"/{prefix}.slice"]
