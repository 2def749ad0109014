"""Makes Sonar's documents when they are due, checks them, and passes them to the sinks."""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.formats.sonar.envelopes import SAMPLE, SYSINFO, Document, Origin, error_envelope
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.model.statuses import SinkStatus
from jobfeatures_exporter.privacy.hiding import Privacy
from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sinks import make_sink
from jobfeatures_exporter.sinks.keeper import SinkKeeper
from jobfeatures_exporter.sinks.message import Message
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.node import NodeDocuments, make_origin

log = logging.getLogger(__name__)

LOOK_SECS = 30.0  # how often to check the clock while waiting: it may be set
NETWORK_SINKS = frozenset({"http", "kafka"})  # which many nodes share
SENDING_WINDOW = 0.2  # documents go there at a random time within this part of the shortest interval


class Sender:
    """Sends several kinds of documents, each kind at its own interval and in a thread of its own.

    The documents of a kind come from the function passed to `add`; if it raises, an error document is sent
    instead. A document that violates the format is counted instead of sent.
    """

    def __init__(
        self,
        origin: Origin,
        sinks: Sequence[SinkKeeper],
        clock: Clock,
        hide: Callable[[Document], Document] = lambda document: document,
    ) -> None:
        """`hide` returns a document with private data hidden."""
        self._hide = hide
        self.origin = origin
        self._sinks = sinks
        self._clock = clock
        self._faulty: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def sinks(self) -> tuple[SinkStatus, ...]:
        """Return the status of the sinks."""
        return tuple(keeper.status for keeper in self._sinks)

    @property
    def faulty(self) -> Mapping[str, int]:
        """Return how many documents of each kind were not sent since the start: they violate the format."""
        return dict(self._faulty)

    def add(
        self,
        kind: str,
        interval_secs: float,
        make: Callable[[], Iterable[Document]],
        *,
        at_start: bool = False,
    ) -> None:
        """Add a kind of document, made by `make` and sent at each multiple of the interval (UTC).

        With `at_start`, it is also sent at the start. To be called before `start`.
        """
        self._threads.append(
            threading.Thread(
                target=self._run,
                args=(kind, interval_secs, make, at_start),
                name=f"sonar-{kind}",
                daemon=True,
            )
        )

    def start(self) -> None:
        """Start the sinks, and for each kind of document the thread that makes it."""
        for keeper in self._sinks:
            keeper.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop making and sending documents; threads that have not ended after 5 s are left behind."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(5.0)
        for keeper in self._sinks:
            keeper.stop()

    def send(self, kind: str, make: Callable[[], Iterable[Document]]) -> None:
        """Build the documents of one kind now, check them and queue them for every sink."""
        for document in self._made(kind, make):
            body = encode(self._hide(document))
            faults = validate_envelope(json.loads(body), profile=self.origin.profile, strict=True)
            if faults:
                self._faulty[kind] += 1
                log.error(
                    "document violates Sonar's format and is not sent: %s (%d faults in all)",
                    faults[0],
                    len(faults),
                    extra={"type": kind},
                )
                continue
            message = Message(
                kind=kind,
                cluster=self.origin.cluster,
                node=self.origin.node,
                made_at_secs=self._clock.now_secs(),
                body=body,
            )
            for keeper in self._sinks:
                keeper.put(message)

    def _made(self, kind: str, make: Callable[[], Iterable[Document]]) -> list[Document]:
        try:
            return list(make())
        except JobfeaturesError as error:
            log.warning("no document could be made: %s", error, extra={"type": kind})
            words = str(error)
        except Exception as error:  # supervised: the next round may work
            log.exception("unexpected error in making a document", extra={"type": kind})
            words = f"internal error: {type(error).__name__}"
        return [error_envelope(self.origin, words, self._clock.now_secs())]

    def _run(
        self, kind: str, interval_secs: float, make: Callable[[], Iterable[Document]], at_start: bool
    ) -> None:
        if at_start:
            self._supervised(kind, make)
        while self._wait(interval_secs):
            self._supervised(kind, make)

    def _supervised(self, kind: str, make: Callable[[], Iterable[Document]]) -> None:
        try:
            self.send(kind, make)
        except Exception:  # supervised: one bad document must not end the rounds
            log.exception("sending failed", extra={"type": kind})

    def _wait(self, interval_secs: float) -> bool:
        """Wait until the next document is due; return False if stopped first."""
        due_secs = compute_next_secs(self._clock.now_secs(), interval_secs)
        while (left_secs := due_secs - self._clock.now_secs()) > 0:
            if left_secs > interval_secs:  # the clock was set back
                due_secs = compute_next_secs(self._clock.now_secs(), interval_secs)
                continue
            if self._stopping.wait(min(left_secs, LOOK_SECS)):
                return False
        return not self._stopping.is_set()


def encode(document: Document) -> bytes:
    """Return a document as one line of JSON, pure ASCII."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


def compute_next_secs(now_secs: float, interval_secs: float) -> float:
    """Return the first multiple of an interval after a Unix time, so that all nodes send at the same time."""
    due_secs = (math.floor(now_secs / interval_secs) + 1) * interval_secs
    return due_secs if due_secs > now_secs else due_secs + interval_secs


def make_sender(config: SonarSettings, node_name: str | None, privacy: Privacy, clock: Clock) -> Sender:
    """Return a sender with the configured sinks, and no kind of document yet.

    Raises ConfigurationError if the name of the cluster or node, or a setting of a sink, is missing or
    invalid.
    """
    origin = make_origin(config, node_name)
    if config.sinks.spool_max_bytes == 0:
        raise ConfigurationError("sonar.spool_max_bytes", "must be 1 or more")
    folder = config.sinks.spool_directory
    sinks = {name: make_sink(name, config.sinks) for name in config.sinks.chosen}
    intervals = (
        config.sample_interval_secs,
        config.jobs_interval_secs,
        config.cluster_interval_secs,
    )
    keepers = [
        SinkKeeper(
            name,
            sink,
            clock,
            max_bytes=config.sinks.spool_max_bytes,
            directory=None if folder is None else f"{folder}/{name}",
            window_secs=SENDING_WINDOW * min(intervals) if name in NETWORK_SINKS else 0.0,
        )
        for name, sink in sinks.items()
    ]
    return Sender(origin, keepers, clock, privacy.document)


def add_node_documents(
    sender: Sender,
    config: SonarSettings,
    paths: PathsSettings,
    clock: Clock,
    take: Callable[[], Snapshot | None],
    unreadable: Unreadable,
) -> None:
    """Have a sender send this node's `sample` and `sysinfo` documents periodically.

    `take` returns a new snapshot of the node; None if it could not be read. `unreadable` counts files that
    cannot be read.
    """
    documents = NodeDocuments(config, paths, sender.origin, clock, take, unreadable)
    sender.add(SAMPLE, config.sample_interval_secs, documents.sample)
    sender.add(SYSINFO, config.sysinfo_interval_secs, documents.sysinfo, at_start=True)
