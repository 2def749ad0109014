"""Whether OAR is here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobfeatures.config import Config
CONFIGURATION = "/etc/oar/oar.conf"


def is_here(config: Config) -> bool:
    """Return whether OAR is installed here, judging by its configuration or its oarstat."""
    import shutil  # a hook has no use for it

    return os.path.exists(CONFIGURATION) or shutil.which(config.oar_oarstat) is not None
