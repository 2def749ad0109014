"""The counts of listeners: frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """One listener: counts since its start, by status and by reason."""

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
