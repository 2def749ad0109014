"""Looks at the jobs' statuses: at once where the kernel tells of a change, at intervals everywhere."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from jobfeatures.clock import Clock
from jobfeatures.model import JobKey
from jobfeatures.status.board import StatusBoard, StatusTarget
from jobfeatures.status.watching import DirectoryWatch

log = logging.getLogger(__name__)

# Between two looks, however fast a job writes. Less than a second, so that a change is
# known within one; only what has changed is read again.
MIN_INTERVAL_SECS = 0.9
SETTLE_SECS = 0.05  # a writer touches up to nine files: one look for all of them


class StatusKeeper:
    """Refreshes a board for as long as `run` runs, in one thread."""

    def __init__(
        self,
        board: StatusBoard,
        targets: Callable[[], Mapping[JobKey, StatusTarget]],
        clock: Clock,
        *,
        interval_secs: float,
        min_interval_secs: float = MIN_INTERVAL_SECS,
        make_watch: Callable[[], DirectoryWatch] = DirectoryWatch,
    ) -> None:
        """Look at all `targets` every `interval_secs`, and at changed ones after `min_interval_secs`."""
        self._board = board
        self._targets = targets
        self._clock = clock
        self._interval_secs = interval_secs
        self._min_interval_secs = min_interval_secs
        self._watch = make_watch()
        self._stopping = threading.Event()
        self._known: Mapping[JobKey, StatusTarget] = {}
        self._full_look_at = float("-inf")  # monotonic
        self.looks = 0  # rounds, for tests and the curious

    def refresh(self) -> None:
        """Look for new jobs soon."""
        self._watch.wake()

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()
        self._watch.wake()

    def run(self) -> None:
        """Keep the board up to date until `stop` is called."""
        try:
            self._run()
        finally:
            self._watch.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
            except Exception:  # supervised: one bad round must not end the loop
                log.exception("status failed")
            if self._stopping.wait(self._min_interval_secs):
                break
            left = self._full_look_at + self._interval_secs - self._clock.monotonic_secs()
            if self._watch.wait(left):
                self._stopping.wait(SETTLE_SECS)

    def look(self, *, at_all: bool = False) -> None:
        """Look at the jobs that have changed or are new, at all jobs if told to or if the time has come.

        Directories are watched before they are read, so that no change falls in between.
        """
        self.looks += 1
        now = self._clock.monotonic_secs()
        targets = self._targets()
        at_all = at_all or now - self._full_look_at >= self._interval_secs
        if at_all:
            self._full_look_at = now
        watched = self._watch.watched
        only = {
            key
            for key, target in targets.items()
            # One that is not watched has changed, or had no directory yet, or cannot be watched.
            if at_all or target.path not in watched or target != self._known.get(key)
        }
        self._watch.watch([(target.path, target.owner_uid) for target in targets.values()], anew=at_all)
        self._known = targets
        self._board.refresh(targets, only=only)
