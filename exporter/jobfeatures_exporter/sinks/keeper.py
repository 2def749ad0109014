"""Sends the documents waiting for one sink, in its own thread, and retries while the receiver is down."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter

from jobfeatures.errors import SinkError, UnsafePathError
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.statuses import SinkStatus
from jobfeatures_exporter.sinks.message import Message, Sink
from jobfeatures_exporter.sinks.spool import MessageSpool

log = logging.getLogger(__name__)

FIRST_RETRY_SECS = 1.0
MAX_RETRY_SECS = 300.0


def compute_retry_secs(failures: int) -> float:
    """Return the delay in seconds after this many consecutive failures: doubling, up to 5 minutes."""
    return float(min(MAX_RETRY_SECS, FIRST_RETRY_SECS * 2 ** min(failures - 1, 30)))


class SinkKeeper:
    """Sends documents to one sink, from a queue and in a thread of its own.

    Each time documents come, the thread waits for up to `window_secs`, so that the nodes of a cluster do not
    all send at once. From `start` on, waiting documents are kept in a folder, or in memory if no folder is
    configured or it cannot be used.
    """

    def __init__(
        self,
        name: str,
        sink: Sink,
        clock: Clock,
        *,
        max_bytes: int,
        directory: str | None = None,
        window_secs: float = 0.0,
    ) -> None:
        self.name = name
        self._sink = sink
        self._max_bytes = max_bytes
        self._directory = directory
        self._spool = MessageSpool(max_bytes)
        self._clock = clock
        self._window_secs = window_secs
        self._sent: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._refused = 0
        self._last_success_secs: float | None = None
        self._failures = 0  # consecutive
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sink-{name}", daemon=True)

    @property
    def status(self) -> SinkStatus:
        """Return the sink's present status."""
        return SinkStatus(
            name=self.name,
            sent=dict(self._sent),
            failed=dict(self._failed),
            refused=self._refused,
            dropped=self._spool.dropped,
            corrupt=self._spool.corrupt,
            waiting=len(self._spool),
            last_success_secs=self._last_success_secs,
        )

    def start(self) -> None:
        """Start the thread that sends, first the documents left in the folder."""
        try:
            self._spool = MessageSpool(self._max_bytes, self._directory)
        except (OSError, UnsafePathError) as error:
            log.error(
                "cannot use the spool folder: documents wait in memory: %s", error, extra={"sink": self.name}
            )
        self._wake.set()
        self._thread.start()

    def stop(self, timeout_secs: float = 5.0) -> None:
        """Stop sending; documents in a folder stay there. A sink that hangs is left behind at the timeout."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_secs)

    def put(self, message: Message) -> None:
        """Queue a document, without waiting for the receiver."""
        self._spool.put(message)
        self._wake.set()

    def send_waiting(self) -> bool:
        """Send all waiting documents, oldest first.

        Returns False at the first document that has to be sent again later, True if none has to.
        """
        while not self._stopping.is_set() and (found := self._spool.oldest()) is not None:
            number, message = found
            try:
                self._sink.send(message)
            except SinkError as error:
                self._failed[message.kind] += 1
                log.log(
                    logging.DEBUG if self._failures else logging.WARNING,  # once per outage
                    "document not sent: %s",
                    error,
                    extra={"sink": self.name, "type": message.kind},
                )
                if not error.is_final:
                    return False
                self._refused += 1
            else:
                if self._failures:
                    log.info("the sink accepts documents again", extra={"sink": self.name})
                self._sent[message.kind] += 1
                self._last_success_secs = self._clock.now_secs()
                self._failures = 0
            self._spool.remove(number)
        return True

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._stopping.wait(random.uniform(0, self._window_secs)):  # noqa: S311  # not a secret
                break
            while not self._try():
                self._failures += 1
                wait_secs = compute_retry_secs(self._failures)
                if self._stopping.wait(wait_secs * random.uniform(0.5, 1)):  # noqa: S311
                    break
        self._sink.close()
        self._spool.close()

    def _try(self) -> bool:
        try:
            return self.send_waiting()
        except Exception:  # supervised: one bad document must not stop the thread
            log.exception("sink failed unexpectedly", extra={"sink": self.name})
            return False
