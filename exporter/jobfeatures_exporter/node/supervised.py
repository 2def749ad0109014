"""Work of a thread that must go on whatever happens in one round."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from jobfeatures.errors import JobfeaturesError

log = logging.getLogger(__name__)


def supervised(what: str, work: Callable[[], Any]) -> None:
    """Do the work; log its failure, which must not end the caller's loop."""
    try:
        work()
    except (JobfeaturesError, OSError) as error:
        log.error("%s failed: %s", what, error)
    except MemoryError:
        raise  # the thread ends, and with it the daemon: without memory nothing is done in any round
    except Exception:
        log.exception("%s failed", what)
