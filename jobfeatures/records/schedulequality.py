"""Defines records of the quality of a schedule in progress, at one time, and exact sums for them.

Pure.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from jobfeatures.errors import Rejected

Number = int | float

# Upper bounds of the histogram buckets for waits (seconds) and bounded slowdowns.
WAIT_BOUNDS = (60, 300, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 172_800, 345_600, 604_800)
SLOWDOWN_BOUNDS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


class Verdict(enum.Enum):
    """Whether an unfinished job can still end by its expected end."""

    CERTAINLY_LATE = "certainly_late"  # late, however short it and the user's other jobs turn out
    POSSIBLY_LATE = "possibly_late"
    NOT_LATE = "not_late"  # running and can no longer be late, or waiting and in time if started now


@dataclass(frozen=True, slots=True)
class Histogram:
    """A cumulative histogram: `counts[i]` is the number of values that are at most `bounds[i]`.

    The last count is that of all values; `sum` is their sum.
    """

    bounds: tuple[Number, ...]
    counts: tuple[int, ...]  # cumulative, one more than bounds
    sum: Number


class Tally:
    """Counts values into a histogram, with an exact sum that does not depend on the order of the values."""

    __slots__ = ("_bounds", "_counts", "_sum", "_unit")

    def __init__(self, bounds: tuple[Number, ...], unit: int = 1) -> None:
        """Round each value to a multiple of 1 ÷ `unit`, and sum these as integers."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0
        self._unit = unit

    def add(self, value: Number, times: int) -> None:
        """Count a value `times` times; with −1, remove a value that was counted before."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += round(value * self._unit) * times

    def histogram(self) -> Histogram:
        """Return the histogram of the values that have been added."""
        total = self._sum if self._unit == 1 else self._sum / self._unit
        return Histogram(self._bounds, tuple(accumulate(self._counts)), total)


def compute_quantiles(values: Iterable[float]) -> dict[float, float]:
    """Return the values at the quantiles in `QUANTILES` (0 to 1), interpolated, by quantile.

    The result is empty if there are no values.
    """
    ordered = sorted(values)
    found = {}
    for at in QUANTILES if ordered else ():
        place = (len(ordered) - 1) * at
        below = int(place)
        low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
        found[at] = low + (high - low) * (place - below)
    return found


def compute_sum(values: Iterable[Number]) -> Number:
    """Return the exact sum of values, which does not depend on their order."""
    found = list(values)
    return sum(found) if all(isinstance(each, int) for each in found) else math.fsum(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuality:
    """Figures of one user's jobs that have ended and whose expected end is final.

    `violated` is the number of jobs that ended after their expected end, `tardiness_secs` their total delay
    in seconds.
    """

    user: str
    share_cpus: Number
    jobs: int
    violated: int
    tardiness_secs: Number
    weighted_tardiness_cpu_secs: Number

    @property
    def veet(self) -> float:
        """Return the fraction of the jobs, 0 to 1, that ended after their expected end."""
        return self.violated / self.jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuality:
    """Figures of one batch system's schedule, over jobs that ended since `begin_secs` (epoch seconds).

    Only jobs that have all necessary values are included; `skipped` counts the others, by reason. Sums cover
    ended jobs whose expected end is final; `violated` of these ended after their expected end.
    `unsettled_jobs` have ended, but their expected end is not final. Histograms, by partition, cover all
    ended jobs.
    """

    source: str
    taken_at_secs: float
    begin_secs: int  # jobs that ended earlier are not counted
    share_cpus: Number  # of a user who has no share of their own
    jobs: int = 0
    violated: int = 0
    tardiness_secs: Number = 0
    weighted_tardiness_cpu_secs: Number = 0
    users: int = 0  # users with jobs in the sums
    veet_quantiles: Mapping[float, float] = field(default_factory=dict)  # over users, values from 0 to 1
    unfinished: Mapping[Verdict, int] = field(default_factory=dict)  # waiting and running jobs
    unsettled_jobs: int = 0  # ended after an unfinished job of the user: the expected end may change
    skipped: Mapping[str, int] = field(default_factory=dict)  # ended jobs that do not count, by reason
    wait_secs: Mapping[str, Histogram] = field(default_factory=dict)
    slowdown: Mapping[str, Histogram] = field(default_factory=dict)  # bounded
    top_users: tuple[UserQuality, ...] = ()  # those with most weighted tardiness, in descending order
    rejected: tuple[Rejected, ...] = ()  # records that could not be read
