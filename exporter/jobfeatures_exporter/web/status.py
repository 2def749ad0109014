"""What listeners have done so far: frozen records."""

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
    """All listeners, and how their configuration file fared."""

    listeners: tuple[ListenerStatus, ...] = ()
    file_failures: int | None = None  # readings of a file that was of no use; None without a file
    file_is_good: bool = True  # as it was when it was read last
