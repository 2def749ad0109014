"""Why jobs that their batch system reports as running here have no control group: frozen records."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jobfeatures.records.model import JobKey


class DaemonGroups(NamedTuple):
    """Where the daemon of a batch system, and its jobs, are in the tree of control groups.

    `daemon` is the daemon's program name and `group` the path of its control group (None: no such process is
    seen, "": unknown). `parents` are paths of groups whose children have names like groups of its jobs.
    `makes_none` says that all processes started by the daemon are in its own group: jobs get none.
    """

    daemon: str
    group: str | None = None  # None: no such process of root is seen; "": it cannot be told
    parents: tuple[str, ...] = ()  # of groups that have the form of a job's, or its number
    makes_none: bool = False  # all that descends from the daemon stands in its group


class Reason(enum.Enum):
    """Why a running job has no control group."""

    FOUND = "no_group_found"  # it should have one: its figures are missing
    EXPECTED = "no_group_expected"  # its batch system makes none for it, or not yet


@dataclass(frozen=True, slots=True)
class JobsWithoutGroup:
    """Running jobs that have no control group, and why.

    `reasons` has the reason for each job. `daemons` says, by the batch system's name, where its daemon (such
    as slurmd) and its jobs are in the tree of control groups. It has only batch systems with a job that
    should have a control group, although none was found (`Reason.FOUND`).
    """

    reasons: Mapping[JobKey, Reason] = field(default_factory=dict)
    daemons: Mapping[str, DaemonGroups] = field(default_factory=dict)  # by batch system

    @property
    def not_found(self) -> tuple[JobKey, ...]:
        """Return the running jobs that should have a control group but of which none was found."""
        return tuple(sorted(key for key, each in self.reasons.items() if each is Reason.FOUND))

    @property
    def counts(self) -> dict[Reason, int]:
        """Return how many running jobs have no control group, by reason; reasons with no job are left out."""
        return dict(Counter(self.reasons.values()))
