"""Defines `Reader`, which parsers of Sonar's records use: it skips faulty elements and limits node names.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sonar.validate import Fault, validate_envelope
from jobfeatures.formats.sonar.values import timestamp_secs
from jobfeatures.records.nodelist import NO_NODES, expand_nodes

Json = Mapping[str, Any]
KIB: Final = 1024
SONAR: Final = "sonar"  # Sonar's producer name, assumed if none is given
OWN: Final = "jobfeatures-exporter"
MAX_TEXT_CHARACTERS: Final = 256  # of a name that may become a label
MAX_NAMES: Final = 200_000  # of nodes, in all lists of one envelope


class Reader:
    """Gives access to the valid elements of a validated envelope; `rejected` holds the faulty ones."""

    def __init__(
        self, rejected: Mapping[str, Rejected], producer: str, version: str, minutes_from: str | None = None
    ) -> None:
        self.producer = producer
        # Specified: limits in minutes and traffic in bytes. By default only our own v0.13 producer does so.
        keeps_text = producer == OWN and version.startswith("0.13.")
        self.limit_unit_secs = 60 if keeps_text or producer == minutes_from else 1
        self.traffic_unit_bytes = 1 if keeps_text else KIB
        self._rejected = rejected
        self._names_left = MAX_NAMES

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """Return what was left out: for each faulty array element of the envelope, its first fault.

        Elements are, for example, the jobs in the envelope's list of jobs.
        """
        return tuple(self._rejected.values())

    def items(self, parent: Json, name: str, path: str) -> Iterator[tuple[Json, str]]:
        """Yield the valid elements of the array `parent[name]`, with paths; `path` is that of `parent`."""
        place = f"{path}.{name}" if path else name
        for number, each in enumerate(parent.get(name) or ()):
            if f"{place}[{number}]" not in self._rejected:
                yield each, f"{place}[{number}]"

    def nodes(self, ranges: Iterable[str] | None) -> tuple[str, ...]:
        """Return the node names in ranges such as ``c[1-3]``, each name once; none if `ranges` is None.

        Raises ParseError once all calls together have found more than 200,000 names. This limits the memory
        that one envelope can take; an envelope is a document of Sonar's, and each has its own `Reader`.
        """
        names: dict[str, None] = {}
        for each in ranges or ():
            found = () if each in NO_NODES else expand_nodes(each)
            self._names_left -= len(found)
            if self._names_left < 0:
                raise ParseError(f"more than {MAX_NAMES} names of nodes", field="data.attributes")
            names.update(dict.fromkeys(found))
        return tuple(names)


def read_envelope(
    document: object,
    *,
    source: str = SONAR,
    line: int = 0,
    strict: bool = False,
    minutes_from: str | None = None,
    is_mended: Callable[[Fault], bool] = lambda _: False,
) -> tuple[Json, Reader]:
    """Validate an envelope; return it, and a reader of its valid elements.

    If `minutes_from` is the envelope's producer, its time limits are in minutes, not seconds. `is_mended` is
    called with each fault unless `strict`; it may repair the document, and returns whether it did. Raises
    ParseError, with the path of the first fault, if the envelope itself is invalid, or if `strict` and any
    part is.
    """
    rejected: dict[str, Rejected] = {}
    for fault in validate_envelope(document, strict=False):
        if not strict and is_mended(fault):
            continue
        reason = f"{fault.reason}: {fault.text}" if fault.text else fault.reason
        if strict or not fault.record_path:
            raise ParseError(reason, field=fault.path or "envelope")
        rejected.setdefault(fault.record_path, Rejected(source, reason, line, fault.path))
    assert isinstance(document, dict)  # noqa: S101  # it is valid
    meta: Json = document.get("meta") or {}
    return document, Reader(rejected, meta.get("producer") or SONAR, meta.get("version") or "", minutes_from)


def secs_of(record: Json, name: str) -> int | None:
    """Return a record's timestamp `name` in epoch seconds; None if it is empty or missing."""
    text = record.get(name)
    return timestamp_secs(text) if text else None


def short(text: str) -> str:
    """Return a text, cut off at the length that is allowed in a metric's label."""
    return text[:MAX_TEXT_CHARACTERS]
