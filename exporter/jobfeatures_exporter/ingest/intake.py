"""Accepts texts of other agents' documents for `SonarNodes`: faulty ones are named, counted and logged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass

from jobfeatures.errors import ParseError, shown
from jobfeatures.formats.sonar.documents import SonarDocument, iterate_documents
from jobfeatures.system.clock import Clock
from jobfeatures.system.rates import Rates
from jobfeatures_exporter.ingest.nodes import SonarNodes
from jobfeatures_exporter.ingest.parse import parse_envelope

log = logging.getLogger(__name__)

MAX_FAULTS = 100  # per text; reading stops there
LOGGED_PER_SEC = 1.0  # rejected documents; beyond that they are only counted


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """The outcome of reading one text: `taken` documents were stored, others were faulty.

    Each of the `faults` names the document, the path in it and the reason. `end` is the byte up to which the
    text was read. After too many faults, reading stops before the end of the text, and the last fault says
    so.
    """

    taken: int
    faults: tuple[str, ...]
    end: int


class SonarIntake:
    """Reads and stores the documents in texts that several threads hand over."""

    def __init__(self, nodes: SonarNodes, clock: Clock, minutes_from: str | None = None) -> None:
        self._nodes = nodes
        self._clock = clock
        self._minutes_from = minutes_from
        self._logged = Rates(LOGGED_PER_SEC)
        self._lock = threading.Lock()

    def take(
        self, content: bytes, origin: str, *, growing: bool = False, clusters: Collection[str] | None = None
    ) -> IntakeResult:
        """Store the valid documents in a text; return how many were stored and what was wrong with others.

        Documents from clusters other than `clusters` are refused (None: any cluster is accepted). If the text
        is `growing`, its last document may be incomplete and is then left for the next call. `origin` names
        the text in the log.
        """
        text = content.decode("utf-8", "surrogateescape")
        taken, end, faults = 0, 0, []
        for document in iterate_documents(text, growing=growing):
            end = document.end
            fault = self._take(document, clusters, origin)
            if fault:
                faults.append(f"document {document.number}: {fault}")
                self._log_fault(origin, faults[-1])
                if len(faults) == MAX_FAULTS:
                    faults.append(f"{MAX_FAULTS} faults: nothing after document {document.number} is read")
                    break
            else:
                taken += 1
        read = end if len(text) == len(content) else len(text[:end].encode("utf-8", "surrogateescape"))
        return IntakeResult(taken, tuple(faults), read)

    def _take(self, document: SonarDocument, clusters: Collection[str] | None, origin: str) -> str:
        if document.reason:
            self._nodes.count("rejected")
            return f"envelope: {document.reason}"
        try:
            record = parse_envelope(document.value, self._minutes_from)
        except ParseError as error:
            self._nodes.count("rejected")
            return str(error)
        if clusters is not None and record.cluster not in clusters:
            self._nodes.count("rejected")
            return f"data.attributes.cluster: this user may not send for cluster {shown(record.cluster)}"
        if complaint := self._nodes.take(record):
            self._log_fault(origin, complaint)
        return ""

    def _log_fault(self, origin: str, fault: str) -> None:
        with self._lock:
            may = self._logged.take("", self._clock.monotonic_secs())
        if may:
            log.warning(
                "fault in a document received from another agent: %s", fault, extra={"origin": origin}
            )
