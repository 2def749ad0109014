"""Reads a source that may fail or hang, at intervals in its own thread, so that no sample waits for it."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from jobfeatures.errors import JobfeaturesError
from jobfeatures.system.clock import Clock

log = logging.getLogger(__name__)


class SteadyReader(ABC):
    """Reads one source at intervals in a thread of its own, so that a source that hangs blocks nothing else.

    `kind` names the sort of source in log messages, such as driver.
    """

    kind: str

    def __init__(self, name: str, clock: Clock, interval_secs: float) -> None:
        self.name = name
        self._clock = clock
        self._interval_secs = interval_secs
        self._answered_secs: float | None = None  # monotonic time of the last complete reading
        self._complaint = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{self.kind}-{name}", daemon=True)

    @abstractmethod
    def _read(self) -> None:
        """Read now, and store the result. Raises JobfeaturesError, OSError."""

    @abstractmethod
    def close(self) -> None:
        """Release the source. This is called after a failure, and at the end."""

    def start(self) -> None:
        """Start the thread that reads."""
        self._thread.start()

    def stop(self, timeout_secs: float) -> None:
        """Stop reading. A reading that still hangs after `timeout_secs` is left behind in its thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_secs)

    def answered_within(self, secs: float) -> bool:
        """Return whether the latest reading succeeded and ended at most `secs` ago."""
        answered = self._answered_secs
        if answered is None or self._complaint:
            return False
        return self._clock.monotonic_secs() - answered <= secs

    def read_once(self) -> None:
        """Read the source now, in the calling thread; a failure is logged, not raised."""
        try:
            self._read()
        except (JobfeaturesError, OSError) as error:
            self._failed(str(error))
        except Exception as error:  # supervised: a fault affects only this source's series
            log.exception("%s failed unexpectedly", self.kind, extra={"source": self.name})
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self._complaint:
                log.info("%s answers again", self.kind, extra={"source": self.name})
            self._complaint = ""
            self._answered_secs = self._clock.monotonic_secs()

    def _failed(self, reason: str) -> None:
        if reason != self._complaint:  # once per kind of failure
            log.warning("%s failed: %s", self.kind, reason, extra={"source": self.name})
        self._complaint = reason
        self.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.read_once()
            self._stopping.wait(self._interval_secs)
        self.close()
