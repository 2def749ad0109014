"""The state of parts of the daemon, for metrics and pages: frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """One HTTP listener; since its start, responses by HTTP status, and rejected requests by reason."""

    name: str  # metrics, features or sonar
    connections: int = 0  # now
    answers: Mapping[int, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebStatus:
    """All HTTP listeners, and whether the file that the setting web.config_file names could be loaded."""

    listeners: tuple[ListenerStatus, ...] = ()
    file_failures: int | None = None  # failed loads; None without a file
    file_is_good: bool = True  # at its latest load


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """A sink of Sonar documents. Counts are of documents since the start, mappings by type of document."""

    name: str
    sent: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)  # attempts
    refused: int = 0  # dropped documents, rejected by the receiver for good
    dropped: int = 0  # documents dropped for lack of room
    corrupt: int = 0  # spool files set aside
    waiting: int = 0
    last_success_secs: float | None = None


@dataclass(frozen=True, slots=True)
class LastReload:
    """Whether the latest reload of the settings succeeded, and when one last did."""

    successful: bool
    success_secs: float  # since the epoch
