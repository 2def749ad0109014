"""Texts of envelopes → the nodes: what is wrong is named, counted and logged, the rest is taken."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from exporter.ingest.nodes import SonarNodes
from jobfeatures.clock import Clock
from jobfeatures.errors import ParseError
from jobfeatures.formats.sonar.documents import Document, iterate_documents
from jobfeatures.formats.sonar.parse import parse_envelope
from jobfeatures.publish.rates import Rates

log = logging.getLogger(__name__)

LOGGED_PER_SEC = 1.0  # rejected documents; the others are counted only


@dataclass(frozen=True, slots=True)
class Intake:
    """What became of a text; `faults` name number, path and reason, `end` is where to go on in it."""

    taken: int
    faults: tuple[str, ...]
    end: int


class SonarIntake:
    """Takes texts of several threads."""

    def __init__(self, nodes: SonarNodes, clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._logged = Rates(LOGGED_PER_SEC)
        self._lock = threading.Lock()

    def take(self, content: bytes, origin: str, *, growing: bool = False) -> Intake:
        """Take all good documents. Of a `growing` text an unfinished last one is left for later.

        `origin` is for the log. `end` counts bytes.
        """
        text = content.decode("utf-8", "surrogateescape")
        taken, end, faults = 0, 0, []
        for document in iterate_documents(text, growing=growing):
            end = document.end
            fault = self._take(document)
            if fault:
                faults.append(f"document {document.number}: {fault}")
                self._tell(origin, faults[-1])
            else:
                taken += 1
        read = end if len(text) == len(content) else len(text[:end].encode("utf-8", "surrogateescape"))
        return Intake(taken, tuple(faults), read)

    def _take(self, document: Document) -> str:
        if document.reason:
            self._nodes.count("rejected")
            return f"envelope: {document.reason}"
        try:
            record = parse_envelope(document.value)
        except ParseError as error:
            self._nodes.count("rejected")
            return str(error)
        self._nodes.take(record)
        return ""

    def _tell(self, origin: str, fault: str) -> None:
        with self._lock:
            may = self._logged.take("", self._clock.monotonic_secs())
        if may:
            log.warning("document of another agent is not taken: %s", fault, extra={"origin": origin})
