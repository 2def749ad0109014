"""The state of parts of the daemon, for metrics and pages: frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """One HTTP listener: responses by status and refusals by reason, since its start."""

    name: str  # metrics, features or sonar
    connections: int = 0  # now
    answers: Mapping[int, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebStatus:
    """All listeners, and the state of their web configuration file."""

    listeners: tuple[ListenerStatus, ...] = ()
    file_failures: int | None = None  # failed loads; None without a file
    file_is_good: bool = True  # at its latest load


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """The state of a sink; counts are since the start, by type of document."""

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
