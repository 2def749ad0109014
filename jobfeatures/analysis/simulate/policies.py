"""The simulated schedulers, and their settings: pure."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from jobfeatures.analysis.schedule.shares import CPU, STEPS, ShareRules
from jobfeatures.errors import ConfigurationError, shown


class Policy(enum.Enum):
    """Which job is next, and whether others may start before a job that has to wait."""

    FIFO = "fifo"
    FAIRSHARE = "fairshare"
    EASY = "easy"
    FAIRSHARE_EASY = "fairshare+easy"

    @property
    def is_fair(self) -> bool:
        """Return whether users with less usage go first, rather than earlier jobs."""
        return self in {Policy.FAIRSHARE, Policy.FAIRSHARE_EASY}

    @property
    def backfills(self) -> bool:
        """Return whether jobs may start before the first one in the queue where they do not delay it."""
        return self in {Policy.EASY, Policy.FAIRSHARE_EASY}


ALL: Final = "all"
REFRESH_SECS: Final = 3600


class Fairshare(NamedTuple):
    """How often the order is refreshed between events, and the half-life of usage, in seconds; 0: never.

    A user with twice another's share ranks equal to them after using twice as much: "the amount of used
    resources will converge toward the amount designated by a user priority".
    """

    refresh_secs: int = REFRESH_SECS
    halving_secs: int = 0
    shares: ShareRules = ShareRules(default={CPU: STEPS[CPU]})


def parse_policies(key: str, text: str) -> tuple[Policy, ...]:
    """Parse a list of policies, each kept once, or all. Raises ConfigurationError."""
    if text == ALL:
        return tuple(Policy)
    known = {policy.value: policy for policy in Policy}
    found = dict.fromkeys(word.strip() for word in text.split(","))
    for word in found:
        if word not in known:
            raise ConfigurationError(key, f"{shown(word)} is none of {', '.join(known)}, {ALL}")
    return tuple(known[word] for word in found)
