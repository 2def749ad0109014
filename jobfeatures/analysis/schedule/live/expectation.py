"""Computes when one job is expected to end by its user's share, and which earlier jobs use the share.

Pure functions. The bounds of the end and the verdict come from `jobfeatures.analysis.schedule.live.outlook`;
this module adds the numbers that explain them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jobfeatures.analysis.schedule.eet import Lanes, Mode
from jobfeatures.analysis.schedule.eligibility import REASONS
from jobfeatures.analysis.schedule.live.facts import JobFacts, why_not
from jobfeatures.analysis.schedule.live.outlook import (
    BLUR_SECS,
    OVERRUN_SECS,
    UNBOUNDED_SECS,
    compute_elapsed,
    compute_outlooks,
    count_tasks,
    least_runtime,
    most_runtime,
    round_up_secs,
)
from jobfeatures.analysis.schedule.live.userhistory import JobsOfUser
from jobfeatures.analysis.schedule.shares import CPU, Shares, plain
from jobfeatures.errors import JobfeaturesError, shown
from jobfeatures.joblogs.loggedjob import Number
from jobfeatures.records.schedulequality import Verdict

WAITS, RUNS, SUSPENDED, ENDED = "waiting", "running", "suspended", "ended"
SHOWN_AHEAD: Final = 5


class NotExpectedError(JobfeaturesError):
    """Raised when no end can be computed for a job: its values do not allow it, or its user's share is 0."""


class Ahead(NamedTuple):
    """An earlier job of the same user that may still use part of the share when the job in question arrives.

    `leaves_secs` is the latest time until which the earlier job may use the share; None if unknown.
    """

    facts: JobFacts
    leaves_secs: Number | None  # the share, at the latest; None: nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The bounds of one job's expected end, and the figures that explain them.

    Times are in epoch seconds, or in seconds since the log's time zero. The expected end is between
    `lower_secs` and `upper_secs` (None: no bound); these are equal, and final, once the job and all earlier
    jobs of its user have ended. `full_secs` is the lower bound if the unfinished job uses its whole limit.
    `taken_cpu_secs` are the CPU seconds of the share, at least and at most, that earlier jobs use after this
    job's arrival. `ahead` are some of the `ahead_jobs` jobs that do so. If `is_partial`, earlier jobs of the
    user may be missing: then there is no upper bound, and the job is never called certainly late.
    """

    asked: JobsOfUser
    state: str
    now_secs: int
    mode: Mode
    share_cpus: Number
    share_from: str
    elapsed_secs: Number
    lower_secs: Number
    full_secs: Number | None
    upper_secs: Number | None  # None: there is none
    verdict: Verdict | None  # None: it has ended
    earlier_jobs: int
    taken_cpu_secs: tuple[Number, Number | None]  # of the share, by earlier jobs, after its arrival
    ahead: tuple[Ahead, ...]  # the last to leave the share first
    ahead_jobs: int
    is_partial: bool = False

    @property
    def facts(self) -> JobFacts:
        """Return the facts about the job in question."""
        return self.asked.jobs[self.asked.place]

    @property
    def limit_end_secs(self) -> Number | None:
        """Return when a running job reaches its time limit; None if it does not run, or has no limit."""
        facts = self.facts
        if self.state != RUNS or facts.start_secs is None or facts.limit_secs is None:
            return None
        return facts.start_secs + facts.suspended_secs + facts.limit_secs

    @property
    def last_start_secs(self) -> Number | None:
        """Return until when a waiting job has to start so as to end in time even if it uses its whole limit.

        Returns None if that is unknown, or if the job does not wait.
        """
        limit_secs = self.facts.limit_secs
        if self.state != WAITS or self.upper_secs is None or limit_secs is None:
            return None
        return self.upper_secs - limit_secs - OVERRUN_SECS

    @property
    def late_secs(self) -> tuple[Number | None, Number] | None:
        """Return by how many seconds at least, and at most, the job ends after its expected end.

        A number is 0 if the job ends in time. There are two numbers because the expected end is known only as
        a range, from `lower_secs` to `upper_secs`. The first number is None if there is no upper bound. Of a
        running job, the first number is for an end as late as possible, and the second for an end now: the
        longer the job runs, the later is its expected end, by at least as much. Returns None for a job that
        has not started or is suspended.
        """
        facts = self.facts
        if facts.end_secs is not None:
            first = last = facts.end_secs
        elif self.state == RUNS and facts.start_secs is not None:
            first = max(self.now_secs, facts.start_secs + facts.suspended_secs)  # clocks may be apart
            longest = most_runtime(facts, self.now_secs, self.mode)
            last = facts.start_secs + facts.suspended_secs + longest
        else:
            return None
        at_least = None if self.upper_secs is None else _late(last - self.upper_secs, self.mode)
        return at_least, _late(first - self.lower_secs, self.mode)


def compute_expectation(
    asked: JobsOfUser, shares: Shares, now_secs: float, *, mode: Mode = Mode.LITERAL, is_partial: bool = False
) -> Expectation:
    """Compute the bounds of a job's expected end as of `now_secs`, with the figures that explain them.

    `asked` holds the job and all earlier jobs of its user; `is_partial` says that some of these may be
    missing. `mode` is that of `Lanes`. Raises NotExpectedError if the job's values do not allow it, or if
    the user's share is 0.
    """
    facts = asked.jobs[asked.place]
    reason = why_not(facts)
    if reason is not None:
        raise NotExpectedError(f"job {shown(facts.job_id)} has no expected end, because {REASONS[reason]}")
    scale = shares.scale
    share = shares.scaled_share(facts.user or "", scale)
    if share <= 0:
        raise NotExpectedError(f"user {shown(facts.user or '')} has a share of 0, so no expected end")
    now = math.floor(now_secs)
    earlier = asked.jobs[: asked.place]
    low, high = Lanes(share, mode), Lanes(share, mode)
    *tasks, own_tasks = count_tasks((*earlier, facts))
    ones = [1] * len(earlier)
    _place(low, earlier, [least_runtime(each, now) for each in earlier], ones, scale)
    most = [most_runtime(each, now, mode) for each in earlier]
    latest = _place(high, earlier, most, tasks, scale)
    arrival = round_up_secs(facts.submit_secs or 0, mode)
    taken = [_whole(lanes.occupied_lane_secs(arrival) / scale) for lanes in (low, high)]
    is_bounded = not is_partial and all(
        each.tasks == count for each, count in zip(earlier, tasks, strict=True)
    )
    [lower] = _place(low.copy(), [facts], [least_runtime(facts, now)], [1], scale)
    longest = most_runtime(facts, now, mode)
    [full] = _place(low, [facts], [longest], [own_tasks], scale)
    [upper] = _place(high, [facts], [longest], [own_tasks], scale)
    verdict = None
    if facts.end_secs is None:
        *_, outlook = compute_outlooks(Lanes(share, mode), (*earlier, facts), now, scale=scale)
        verdict = outlook.verdict
        if is_partial and verdict is Verdict.CERTAINLY_LATE:
            verdict = Verdict.POSSIBLY_LATE
    ahead = [
        Ahead(each, end if is_bounded and end < UNBOUNDED_SECS else None)
        for each, end in zip(earlier, latest, strict=True)
        if end > arrival
    ]
    ahead.sort(key=lambda each: math.inf if each.leaves_secs is None else each.leaves_secs, reverse=True)
    has_upper = is_bounded and facts.tasks == own_tasks and upper < UNBOUNDED_SECS
    return Expectation(
        asked=asked,
        state=_state(facts),
        now_secs=now,
        mode=mode,
        share_cpus=plain(CPU, shares.of(facts.user or "")),
        share_from="given to this user" if facts.user in shares.users else shares.default_from,
        elapsed_secs=facts.runtime_secs if facts.end_secs is not None else compute_elapsed(facts, now),
        lower_secs=lower,
        full_secs=full if facts.end_secs is None and full < UNBOUNDED_SECS else None,
        upper_secs=upper if has_upper else None,
        verdict=verdict,
        earlier_jobs=len(earlier),
        taken_cpu_secs=(taken[0], taken[1] if is_bounded and taken[1] < UNBOUNDED_SECS else None),
        ahead=tuple(ahead[:SHOWN_AHEAD]),
        ahead_jobs=len(ahead),
        is_partial=is_partial,
    )


def _place(
    lanes: Lanes, jobs: Sequence[JobFacts], runtimes: Iterable[Number], tasks: Iterable[int], scale: int
) -> list[Number]:
    """Place the given number of tasks of each job, and return the latest end of each."""
    ends: list[Number] = []
    for facts, runtime, count in zip(jobs, runtimes, tasks, strict=True):
        arrival = round_up_secs(facts.submit_secs or 0, lanes.mode)
        request = (facts.cpus or 0) * scale
        ends.append(
            max(
                lanes.place(
                    [arrival] * count, [request] * count, [round_up_secs(runtime, lanes.mode)] * count
                )
            )
        )
    return ends


def _state(facts: JobFacts) -> str:
    if facts.end_secs is not None:
        return ENDED
    if facts.start_secs is None:
        return WAITS
    return SUSPENDED if facts.is_suspended else RUNS


def _whole(amount: float) -> Number:
    return int(amount) if amount == int(amount) else amount


def _late(secs: Number, mode: Mode) -> Number:
    return secs if secs > (BLUR_SECS if mode is Mode.FLUID else 0) else 0
