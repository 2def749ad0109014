"""The state of parts of the daemon, for metrics and pages: frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """The state of one HTTP listener: its open connections, and counts since it was started.

    `answers` counts responses by HTTP status, `rejected` refused requests by reason.
    """

    name: str  # metrics, features or sonar
    connections: int = 0  # now
    answers: Mapping[int, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebStatus:
    """The state of all HTTP listeners, and of the file that the setting web.config_file names.

    `file_failures` counts failed loads of this file; it is None if there is no such file.
    """

    listeners: tuple[ListenerStatus, ...] = ()
    file_failures: int | None = None  # failed loads; None without a file
    file_is_good: bool = True  # at its latest load


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """The state of a sink, which is a destination of documents in Sonar's format.

    Counts are of documents since the start: `sent` by type, `refused` by the receiver for good, `dropped` for
    lack of room, and those `waiting` now. `failed` counts attempts by type, `corrupt` spool files that were
    set aside. `last_success_secs` is a Unix time; None: there was none.
    """

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
    """Whether the latest reload of the settings succeeded, and the Unix time of the last successful one."""

    successful: bool
    success_secs: float  # since the epoch
