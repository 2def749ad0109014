"""Jobs that their batch system reports as running here, without a control group: frozen records."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jobfeatures.records.model import JobKey


class DaemonGroups(NamedTuple):
    """A batch system's daemon, its control group, and the `parents` of groups like those of its jobs."""

    daemon: str
    group: str | None = None  # None: no such process of root is seen; "": it cannot be told
    parents: tuple[str, ...] = ()  # of groups that have the form of a job's, or its number
    makes_none: bool = False  # all that descends from the daemon stands in its group


class Reason(enum.Enum):
    """Why a running job has no control group."""

    FOUND = "no_group_found"  # it should have one: its figures are missing
    EXPECTED = "no_group_expected"  # its batch system makes none for it, or not yet


@dataclass(frozen=True, slots=True)
class Missing:
    """Why running jobs have no control group, and, of those that should, their batch systems' daemons."""

    reasons: Mapping[JobKey, Reason] = field(default_factory=dict)
    daemons: Mapping[str, DaemonGroups] = field(default_factory=dict)  # by batch system

    @property
    def not_found(self) -> tuple[JobKey, ...]:
        """Return the jobs that should have a control group, and have none."""
        return tuple(sorted(key for key, each in self.reasons.items() if each is Reason.FOUND))

    @property
    def counts(self) -> dict[Reason, int]:
        """Return how many jobs have no control group, by reason; a reason of no job is left out."""
        return dict(Counter(self.reasons.values()))
