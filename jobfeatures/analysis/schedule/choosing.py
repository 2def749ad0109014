"""Selects the jobs of a log that count in the figures, sorts them by user and arrival, and counts the others.

Pure functions; needs numpy. The reasons why a job does not count are in `eligibility`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.eligibility import NO_START, REASONS, UNREADABLE, compute_rules
from jobfeatures.analysis.schedule.jobarrays import Labels, ScheduleLog
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.errors import JobfeaturesError


class ScheduleError(JobfeaturesError):
    """Raised when a log lacks data that its evaluation needs, or holds values too large to compute with."""


class Arrival(enum.Enum):
    """The choices of the moment at which a job is taken to arrive."""

    SUBMIT = "submit"
    ELIGIBLE = "eligible"  # where that is known
    READY = "ready"  # submitted, and the job that it follows has ended, its think time ago


class Filter(NamedTuple):
    """A condition on jobs: `field` (user, queue …) has one of `values`, or with `is_not` none of them."""

    field: str
    values: frozenset[str]
    is_not: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """The jobs of a log that count in the figures, sorted by user, and by arrival within each user.

    The jobs of `users[i]` have the indices from `bounds[i]` up to, not including, `bounds[i + 1]` in the
    other arrays. `position` is each job's index in the log. `arrival`, `start` and `end` are in seconds since
    the log's time zero, `runtime` is in seconds, `cpus` in processors.
    """

    users: list[str]
    bounds: Array
    position: Array  # of each job in its log
    arrival: Array
    start: Array
    end: Array
    runtime: Array
    cpus: Array

    def __len__(self) -> int:
        return len(self.position)

    def sums(self, values: Array) -> list[int | float]:
        """Return the sum of `values` (one per job) for each user: exact for whole numbers, however large."""
        if not len(self):
            return []
        return np.add.reduceat(summable(values), self.bounds[:-1]).tolist()  # type: ignore[no-any-return]


def choose(log: ScheduleLog, *, by: Arrival = Arrival.SUBMIT, filters: Iterable[Filter] = ()) -> Chosen:
    """Return the jobs of a log that count in the figures and pass all `filters`.

    `by` defines when a job arrives. At least one job must count and pass: the caller has to check that.
    """
    is_chosen, _, (arrival, start, end) = sift(log, by=by)
    position = np.flatnonzero(is_chosen & passing(log, filters))
    arrivals = arrival[position]
    if not (arrivals[1:] >= arrivals[:-1]).all():
        position = position[np.argsort(arrivals, kind="stable")]
    position = position[stable_order(log.user.codes[position], len(log.user.names))]
    codes = log.user.codes[position]
    first = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    return Chosen(
        users=[log.user.names[code] for code in codes[first].tolist()],
        bounds=np.concatenate((first, [len(codes)])),
        position=position,
        arrival=arrival[position],
        start=start[position],
        end=end[position],
        runtime=log.runtime[position],
        cpus=log.cpus[position],
    )


def sift(
    log: ScheduleLog, *, by: Arrival = Arrival.SUBMIT
) -> tuple[Array, dict[str, int], tuple[Array, Array, Array]]:
    """Return which jobs of a log count in the figures, and their times; `by` defines when a job arrives.

    The result is: an array that says for each job whether it counts; the number of jobs that do not count, by
    reason; and the arrays of all jobs' arrivals, starts and ends, in seconds since the log's time zero.
    """
    arrival = arrival_of(log, by)
    start, end = log.start, log.end
    reasons = _reasons(log, arrival, start, end)
    counts = np.bincount(reasons, minlength=len(REASONS) + 1)
    skipped = dict(zip(REASONS, counts[1:].tolist(), strict=True))
    skipped[UNREADABLE] = log.unreadable
    return reasons == 0, skipped, (arrival, start, end)


def arrival_of(log: ScheduleLog, by: Arrival) -> Array:
    """Return when each job arrives, in seconds since the log's time zero.

    Where the moment chosen by `by` is unknown, the submission time is returned.
    """
    if by is Arrival.READY and log.could_start is not None:
        return np.where(log.could_start >= 0, log.could_start, log.submit)
    if by is not Arrival.ELIGIBLE or log.eligible is None:
        return log.submit
    return np.where(log.eligible >= 0, log.eligible, log.submit)


def _reasons(log: ScheduleLog, arrival: Array, start: Array, end: Array) -> Array:
    """Return why each job does not count, by place in REASONS, counted from 1; 0 where it counts."""
    rules: Mapping[str, Array] = compute_rules(
        arrival=arrival,
        start=start,
        end=end,
        runtime=log.runtime,
        is_cancelled=log.is_cancelled,
        has_user=log.user.codes >= 0,
        cpus=log.cpus,
    )
    reasons = np.zeros(len(log), dtype=np.int64)
    places = {reason: place for place, reason in enumerate(REASONS, 1)}
    for reason, holds in rules.items():
        np.copyto(reasons, places[reason], where=(reasons == 0) & holds)
    return reasons


def why_none(skipped: Mapping[str, int]) -> str:
    """Return why no job of a log counts, as the end of a message "LOG: …", such as "holds no jobs".

    `skipped` is the number of jobs that do not count, by reason, as `sift` returns it.
    """
    reported = [f"{count} × {REASONS[reason]}" for reason, count in skipped.items() if count]
    if not reported:
        return "holds no jobs"
    hint = "; if an SWF log's submit times are start times, say --swf no-waits" if skipped[NO_START] else ""
    return f"no job can be counted: {'; '.join(reported)}{hint}"


def passing(log: ScheduleLog, filters: Iterable[Filter]) -> Array:
    """Return an array that says for each job of the log whether it passes all filters."""
    passes = np.ones(len(log), dtype=bool)
    for each in filters:
        labels: Labels = getattr(log, each.field)
        wanted = np.array([name in each.values for name in labels.names] + [False])  # the last: unknown
        passes &= wanted[labels.codes] != each.is_not
    return passes


def stable_order(codes: Array, count: int) -> Array:
    """Return the indices that sort an array of integers from −1 to `count` − 1; the sort is stable."""
    small = codes + 1
    return np.argsort(small.astype(np.uint16) if count < 2**16 - 1 else small, kind="stable")


def summable(values: Array) -> Array:
    """Return an array that can be summed exactly: int64 if the sum fits into it, else Python integers."""
    if values.dtype.kind == "i" and float(np.abs(values.astype(float)).sum()) >= 2**62:
        return values.astype(object)
    return values


def total(values: Array) -> int | float:
    """Return the sum of values: exact for whole numbers, however large."""
    found: int | float = np.asarray(summable(values).sum()).item()
    return found
