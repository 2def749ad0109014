"""How good a schedule is while it is made: frozen records of one look at it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.errors import Rejected

Number = int | float

# Upper bounds of the classes in which waits (seconds) and bounded slowdowns are counted.
WAIT_BOUNDS = (60, 300, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 172_800, 345_600, 604_800)
SLOWDOWN_BOUNDS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


class Verdict(enum.Enum):
    """What can be said of a job that has not ended, against its expected end."""

    CERTAINLY_LATE = "certainly_late"  # it ends too late, however short it and the user's other jobs are
    POSSIBLY_LATE = "possibly_late"
    NOT_LATE = "not_late"  # it runs and cannot be late any more, or waits and would not be if it started now


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many values were at most each bound, and the sum of all. The last count is of all values."""

    bounds: tuple[Number, ...]
    counts: tuple[int, ...]  # cumulative, one more than bounds
    sum: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuality:
    """One user's jobs whose expected end is final."""

    user: str
    share_cpus: Number
    jobs: int
    violated: int
    tardiness_secs: Number
    weighted_tardiness_cpu_secs: Number

    @property
    def veet(self) -> float:
        """Return which part of the jobs, from 0 to 1, ended after their expected end."""
        return self.violated / self.jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuality:
    """All that is known of one batch system's schedule since `begin_secs`.

    Sums are over jobs that have ended, count, and whose expected end is final.
    Histograms, by partition, are over all that have ended and count.
    """

    source: str
    taken_at_secs: float
    begin_secs: int  # jobs that ended earlier are not counted
    share_cpus: Number  # of a user for whom no other is set
    jobs: int = 0
    violated: int = 0
    tardiness_secs: Number = 0
    weighted_tardiness_cpu_secs: Number = 0
    users: int = 0  # who have such jobs
    veet_quantiles: Mapping[float, float] = field(default_factory=dict)  # over users, each from 0 to 1
    unfinished: Mapping[Verdict, int] = field(default_factory=dict)  # jobs that wait or run
    unsettled_jobs: int = 0  # ended, but an earlier job of the user has not, so the expected end may change
    skipped: Mapping[str, int] = field(default_factory=dict)  # ended jobs that do not count, by reason
    wait_secs: Mapping[str, Histogram] = field(default_factory=dict)
    slowdown: Mapping[str, Histogram] = field(default_factory=dict)  # bounded
    top_users: tuple[UserQuality, ...] = ()  # those with most weighted tardiness, the first with most
    rejected: tuple[Rejected, ...] = ()  # records that could not be read
