"""Whether what has to go on in the daemon does."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection
from typing import Protocol

from jobfeatures.errors import JobfeaturesError
from jobfeatures.system.clock import Clock
from jobfeatures.system.lack import LOOK_AT, describe_lack, is_lack

log = logging.getLogger(__name__)

LOOK_SECS = 2.0
MOST_SECS = 20.0  # what counts between two looks: longer, and this whole process was stopped


class Threaded(Protocol):
    """What has threads."""

    def dead(self) -> Collection[str]:
        """Return the names of threads that have ended though nobody has stopped them."""


class Progress:
    """How long something has not been done, in the time in which this process could have done it.

    A time in which the process was stopped (SIGSTOP, a frozen group, a suspended machine) does not count.
    One thread calls `made`, another `missing_secs` every few seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made()

    def made(self) -> None:
        """Note that it was done."""
        self._missing_secs = 0.0
        self._looked_at = self._clock.monotonic_secs()

    def missing_secs(self) -> float:
        """Return for how long it has not been done."""
        now = self._clock.monotonic_secs()
        self._missing_secs += min(now - self._looked_at, MOST_SECS)
        self._looked_at = now
        return self._missing_secs


async def fail_if_dead(served: Threaded) -> None:
    """Raise JobfeaturesError once a thread has ended, or none can be started any more to answer a request.

    The daemon ends then, so that whatever supervises it starts it anew.
    """
    while True:
        if dead := sorted(served.dead()):
            raise JobfeaturesError(f"ended unexpectedly: {', '.join(dead)}; {LOOK_AT}")
        try:
            await asyncio.to_thread(int)
        except (RuntimeError, MemoryError) as error:
            raise JobfeaturesError(f"no request can be answered: {describe_lack(error)}") from error
        await asyncio.sleep(LOOK_SECS)


def tell_ends(arguments: threading.ExceptHookArgs) -> None:
    """Log the end of a thread by an exception: a hook for `threading.excepthook`."""
    error = arguments.exc_value
    if error is None or isinstance(error, SystemExit):
        return
    name = "" if arguments.thread is None else arguments.thread.name
    if is_lack(error):
        log.error("thread %s has ended: %s", name, describe_lack(error))
    else:
        log.error("thread %s has ended", name, exc_info=error)
