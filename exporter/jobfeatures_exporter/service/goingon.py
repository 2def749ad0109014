"""Notices that threads of the daemon have died, or that periodic work is not done any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Collection
from typing import Protocol

from jobfeatures.errors import JobfeaturesError
from jobfeatures.system.clock import Clock
from jobfeatures.system.lack import LOOK_AT, describe_lack, is_lack

log = logging.getLogger(__name__)

LOOK_SECS = 300.0  # between two looks at the threads; an exception that ends one is told at once
MOST_SECS = 30.0  # what counts between two looks: longer, and this whole process was stopped


class Threaded(Protocol):
    """A daemon whose threads are watched."""

    def dead(self) -> Collection[str]:
        """Return the names of threads that have ended though nobody has stopped them."""


class Progress:
    """Measures for how long periodic work has not been done.

    Time in which the process was stopped (by SIGSTOP, a frozen control group or a suspended machine) does not
    count. One thread calls `made`, another `missing_secs` at least every MOST_SECS.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.made()

    def made(self) -> None:
        """Note that the periodic work has just been done."""
        self._missing_secs = 0.0
        self._checked_secs = self._clock.monotonic_secs()

    def missing_secs(self) -> float:
        """Return the seconds since the periodic work was done last."""
        now = self._clock.monotonic_secs()
        self._missing_secs += min(now - self._checked_secs, MOST_SECS)
        self._checked_secs = now
        return self._missing_secs


async def fail_if_dead(served: Threaded) -> None:
    """Watch the daemon's threads without end; raise JobfeaturesError once one of them has died.

    It is also raised if no thread can be started to answer a request. The daemon then ends, so that whatever
    supervises it starts it anew. Replaces `threading.excepthook`.
    """
    ended: asyncio.Queue[threading.Thread] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(arguments: threading.ExceptHookArgs) -> None:
        tell_end(arguments)
        if arguments.thread is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(ended.put_nowait, arguments.thread)

    threading.excepthook = tell
    wait: Callable[[], object] = int
    while True:
        try:
            await asyncio.to_thread(wait)
        except (RuntimeError, MemoryError) as error:
            raise JobfeaturesError(f"no request can be answered: {describe_lack(error)}") from error
        if dead := sorted(served.dead()):
            raise JobfeaturesError(f"threads have ended unexpectedly: {', '.join(dead)}; {LOOK_AT}")
        wait = int
        with contextlib.suppress(TimeoutError):
            wait = (await asyncio.wait_for(ended.get(), LOOK_SECS)).join  # it is still about to end


def tell_end(arguments: threading.ExceptHookArgs) -> None:
    """Log the end of a thread by an exception: a hook for `threading.excepthook`."""
    error = arguments.exc_value
    if error is None or isinstance(error, SystemExit):
        return
    name = "" if arguments.thread is None else arguments.thread.name
    if is_lack(error):
        log.error("thread %s has ended: %s", name, describe_lack(error))
    else:
        log.error("thread %s has ended", name, exc_info=error)
