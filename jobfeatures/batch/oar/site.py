"""Whether OAR is on this host, and below which control groups it makes those of jobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobfeatures.batch.basics import is_installed
from jobfeatures.system.privatefile import read_bounded

if TYPE_CHECKING:
    from jobfeatures.batch.oar import OarSettings
    from jobfeatures.batch.settings import SystemSettings
CONFIGURATION = "/etc/oar/oar.conf"
MAX_BYTES = 2**20
_CPUSET_PATH = re.compile(rb"""^CPUSET_PATH=(["']?)((?:/[A-Za-z0-9_.-]+)+)\1[ \t]*$""", re.MULTILINE)


def is_here(config: SystemSettings[OarSettings]) -> bool:
    """Return whether OAR is installed on this host: whether it has OAR's configuration or oarstat."""
    return is_installed(config.own.oarstat, CONFIGURATION)


def read_parents(_config: SystemSettings[OarSettings]) -> list[str]:
    """Return the control groups below which OAR makes those of jobs, on cgroup v1 and v2.

    They follow from CPUSET_PATH in oar.conf; [] if it is not set. Raises OSError if that file cannot be read.
    """
    found = _CPUSET_PATH.search(read_bounded(CONFIGURATION, MAX_BYTES)[0])
    path = found[2].decode() if found else ""
    return [path, f"{path}.slice"] if path else []
