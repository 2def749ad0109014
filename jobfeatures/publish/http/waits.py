"""Tells the daemon that a program waits for its job's end, if the program reads the features over HTTP.

The sign is a shared lock on the job's directory, which `jobfeatures run` itself holds where it reads files.
For its meaning see `jobfeatures.batch.waiting`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os

from jobfeatures.publish.files import DIRECTORY

HOLD_SECS = 90.0  # they read every 20 seconds


class Waits:
    """Holds shared locks on jobs' directories, each for `HOLD_SECS` after an HTTP reading.

    All methods run in one event loop.
    """

    def __init__(self, path: str) -> None:
        """`path` is the folder that holds the directories of jobs."""
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._held: dict[str, tuple[int, asyncio.TimerHandle]] = {}

    def renew(self, name: str) -> None:
        """Hold the lock on a job's directory (`name`), if there is one, for `HOLD_SECS` from now."""
        self._end(name)
        with contextlib.suppress(OSError):
            folder = os.open(f"{self._path}/{name}", DIRECTORY)
            self._held[name] = folder, self._loop.call_later(HOLD_SECS, self._end, name)
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def close(self) -> None:
        """Release the locks on all jobs' directories."""
        for name in list(self._held):
            self._end(name)

    def _end(self, name: str) -> None:
        if name in self._held:
            folder, timer = self._held.pop(name)
            timer.cancel()
            os.close(folder)
