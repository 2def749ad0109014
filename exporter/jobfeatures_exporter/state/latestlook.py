"""The latest snapshot of the node, and waiting for a fresh one."""

from __future__ import annotations

import threading

from jobfeatures.system.clock import Clock
from jobfeatures_exporter.snapshot import Snapshot


class LatestLook:
    """One thread puts snapshots here; any thread may take the latest or wait for one, which sets `wanted`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken = threading.Condition()
        self._stopping = False
        self._all_wanted_at = float("-inf")
        self._all_taken_at = float("-inf")
        self.wanted = threading.Event()
        self.snapshot: Snapshot | None = None

    @property
    def all_are_wanted(self) -> bool:
        """Return whether a thread is waiting for a snapshot that lists all processes."""
        return self._all_wanted_at > self._all_taken_at

    def put(self, snapshot: Snapshot) -> None:
        """Replace the latest snapshot."""
        with self._taken:
            self.snapshot = snapshot
            if snapshot.lists_all:
                self._all_taken_at = snapshot.taken_at_secs
            self._taken.notify_all()

    def stop(self) -> None:
        """Release all waiting threads; they use the latest snapshot, if any."""
        self._stopping = True
        with self._taken:
            self._taken.notify_all()

    def wait_for_any(self, timeout_secs: float) -> None:
        """Wait for the first snapshot."""
        with self._taken:
            self._taken.wait_for(lambda: self.snapshot is not None or self._stopping, timeout_secs)

    def wait_for_fresh(self, fresh_secs: float, timeout_secs: float, *, lists_all: bool = False) -> None:
        """Wait for a snapshot at most `fresh_secs` old; with `lists_all`, one that lists all processes."""
        asked_at = self._clock.now_secs()

        def fresh() -> bool:
            latest = self.snapshot
            if latest is None or latest.taken_at_secs < asked_at - fresh_secs:
                return self._stopping
            return latest.lists_all or not lists_all or self._stopping

        if fresh():
            return
        if lists_all:
            self._all_wanted_at = asked_at
        self.wanted.set()
        with self._taken:
            self._taken.wait_for(fresh, timeout_secs)
