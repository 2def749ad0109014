"""Keeps a thread's loop running when one round fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from jobfeatures.errors import JobfeaturesError

log = logging.getLogger(__name__)


@contextmanager
def supervised(what: str) -> Iterator[None]:
    """Log any exception of the ``with`` block, but raise MemoryError; `what` names the work in the log."""
    try:
        yield
    except (JobfeaturesError, OSError) as error:
        log.error("%s failed: %s", what, error)
    except MemoryError:
        raise  # the thread ends, and with it the daemon: without memory nothing is done in any round
    except Exception:
        log.exception("%s failed", what)
