"""Measures a schedule in progress: keeps expected ends up to date as jobs arrive and end. Pure.

Each user's jobs are kept in order of arrival. An ended job is settled once all jobs before it have ended too:
then its expected end is final, and the job is placed into the user's share, added to the sums, and dropped.
Jobs after the first unfinished one are kept, and placed anew at each query. Until a job is settled, its
records may come in any order, repeated or corrected, and give the same sums.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from jobfeatures.analysis.schedule.eet import Lanes, Mode
from jobfeatures.analysis.schedule.live.facts import JobFacts, Order, order_of, supersedes, why_not
from jobfeatures.analysis.schedule.live.outlook import BLUR_SECS, Outlook, compute_outlooks, round_up_secs
from jobfeatures.analysis.schedule.shares import CPU, Shares, plain
from jobfeatures.joblogs.loggedjob import Number
from jobfeatures.records.schedulequality import (
    SLOWDOWN_BOUNDS,
    WAIT_BOUNDS,
    Histogram,
    ScheduleQuality,
    Tally,
    UserQuality,
    Verdict,
    compute_quantiles,
    compute_sum,
)

LATE: Final = "told_too_late"  # a job was reported, or changed, after later jobs had been settled
NO_SHARE: Final = "no_share"  # the user's share is 0
TAU_SECS: Final = 10
REMEMBER_SECS: Final = 86_400  # for how long a settled job is remembered, so as not to count it twice
MAX_PARTITIONS: Final = 200
MAX_QUEUES: Final = 1000  # queue samples whose times are remembered
OTHER: Final = "other"
_MILLIONTHS: Final = 1_000_000


@dataclass(slots=True)
class _User:
    """One user's jobs: sums over the settled ones, and the open ones."""

    jobs: int = 0
    violated: int = 0
    tardiness: Number = 0
    weighted: Number = 0
    lanes: Lanes | None = None
    open: dict[str, JobFacts] = field(default_factory=dict)
    order: list[str] | None = field(default_factory=list)  # ids of the open jobs; None: to be sorted again
    settled_to: Order | None = None

    def in_order(self) -> list[str]:
        """Return the open jobs in order of arrival."""
        if self.order is None:
            self.order = sorted(self.open, key=lambda job_id: order_of(self.open[job_id]))
        return self.order


class LiveSchedule:
    """The jobs of one batch system that are unfinished or have ended since `begin_secs`. Not thread-safe."""

    def __init__(self, *, begin_secs: int, mode: Mode = Mode.LITERAL) -> None:
        self.begin_secs = begin_secs
        self.mode = mode
        self.shares: Shares | None = None
        self._scale = 1  # lanes per processor
        self._jobs: dict[str, JobFacts] = {}  # not settled yet
        self._aside: dict[str, str] = {}  # of these, ended jobs that do not count: why
        self._seen: dict[str, float] = {}  # of these, unfinished jobs: when last reported
        self._settled: dict[str, tuple[JobFacts, float]] = {}  # oldest first, with the time of settling
        self._forgotten_secs = -math.inf  # unknown jobs that ended before this were already counted
        self._users: dict[str, _User] = {}
        self._ripe: set[str] = set()  # users whose first open job may have ended
        self._skipped: Counter[str] = Counter()
        self._waits: dict[str, Tally] = {}
        self._slowdowns: dict[str, Tally] = {}
        self._queue_secs: deque[float] = deque(maxlen=MAX_QUEUES)  # times of queue samples, latest last

    def __len__(self) -> int:
        return len(self._jobs)

    def use_shares(self, shares: Shares) -> None:
        """Set the users' shares; to be called before `settle`, `outlooks` and `quality`."""
        self.shares = shares
        self._scale = shares.scale

    def apply_ended(self, reported: Iterable[JobFacts]) -> None:
        """Include accounting's records of ended jobs; records without an end are ignored."""
        for facts in reported:
            if facts.end_secs is not None:
                self._apply(facts)

    def apply_queue(self, reported: Iterable[JobFacts], taken_at_secs: float) -> None:
        """Include a sample of the queue: all unfinished jobs, as of the time `taken_at_secs`."""
        for facts in reported:
            if facts.end_secs is None and self._apply(facts):
                self._seen[facts.job_id] = taken_at_secs
        self._queue_secs.append(taken_at_secs)

    def forget_missing(self, before_secs: float) -> None:
        """Drop unfinished jobs that no queue has reported since `before_secs`."""
        for job_id in [job_id for job_id, seen in self._seen.items() if seen < before_secs]:
            self._remove(self._jobs[job_id])

    def _apply(self, facts: JobFacts) -> bool:
        """Apply a record; return whether the job is now known with these facts."""
        job_id = facts.job_id
        known = self._jobs.get(job_id)
        if known is None:
            return self._apply_unknown(facts)
        if facts == known:
            return True
        if not supersedes(facts, known):
            return False
        if known.end_secs is None and facts.end_secs is None and known.user == facts.user:
            if facts.user is None or why_not(facts) is not None:
                self._remove(known)
                return False
            user = self._users[facts.user]
            if order_of(known) != order_of(facts):
                user.order = None
            self._jobs[job_id] = user.open[job_id] = facts
            return True
        self._remove(known)
        return self._insert(facts)

    def _apply_unknown(self, facts: JobFacts) -> bool:
        """Apply a record of a job that is settled or unknown; return as `_apply` does."""
        ended = facts.end_secs
        settled = self._settled.get(facts.job_id)
        if settled is not None and (settled[0].submit_secs or 0) >= (facts.submit_secs or 0):
            if ended is not None and facts != settled[0] and supersedes(facts, settled[0]):
                self._settled[facts.job_id] = facts, settled[1]
                self._skipped[LATE] += 1
            return False
        return (ended is None or ended > self._forgotten_secs) and self._insert(facts)

    def _insert(self, facts: JobFacts) -> bool:
        ended = facts.end_secs
        reason = why_not(facts)
        if (ended is None and reason is not None) or (ended is not None and ended < self.begin_secs):
            return False
        if reason is not None:
            self._skipped[reason] += 1
            self._jobs[facts.job_id] = facts
            self._aside[facts.job_id] = reason
            return True
        assert facts.user is not None  # noqa: S101  # else there was a reason
        user = self._users.get(facts.user)
        if user is None:
            user = self._users[facts.user] = _User()
        if user.settled_to is not None and order_of(facts) < user.settled_to:
            if ended is not None:
                self._skipped[LATE] += 1
                self._remember(facts, self._forgotten_secs + REMEMBER_SECS)
            return False
        if ended is not None:
            self._observe(facts, 1)
            self._ripe.add(facts.user)
        self._jobs[facts.job_id] = user.open[facts.job_id] = facts
        user.order = None
        return True

    def _remove(self, known: JobFacts) -> None:
        job_id = known.job_id
        del self._jobs[job_id]
        self._seen.pop(job_id, None)
        reason = self._aside.pop(job_id, None)
        if reason is not None:
            self._skipped[reason] -= 1
            return
        if known.end_secs is not None:
            self._observe(known, -1)
        assert known.user is not None  # noqa: S101  # else it was set aside
        user = self._users[known.user]
        del user.open[job_id]
        user.order = None
        self._ripe.add(known.user)

    def _observe(self, facts: JobFacts, times: int) -> None:
        assert facts.submit_secs is not None and facts.start_secs is not None and facts.end_secs is not None  # noqa: S101, PT018
        partition = facts.partition
        if partition not in self._waits:
            if len(self._waits) >= MAX_PARTITIONS:
                partition = OTHER
            self._waits.setdefault(partition, Tally(WAIT_BOUNDS))
            self._slowdowns.setdefault(partition, Tally(SLOWDOWN_BOUNDS, _MILLIONTHS))
        self._waits[partition].add(facts.start_secs - facts.submit_secs, times)
        response = facts.end_secs - facts.submit_secs
        self._slowdowns[partition].add(max(1.0, response / max(facts.runtime_secs, TAU_SECS)), times)

    def horizon_secs(self, answered_secs: float) -> float:
        """Return the time until which the records of jobs are complete.

        `answered_secs` is the time at which accounting reported all ended jobs. The result is the time of the
        last sample of the queue that is not later: a job that had arrived by that time was in this sample, or
        is in accounting. The result is −∞ if there was no such sample.
        """
        return max((each for each in self._queue_secs if each <= answered_secs), default=-math.inf)

    def users_of_ended(self, before_secs: float) -> int:
        """Return how many users have jobs that ended before `before_secs` and are not settled.

        Only jobs that count in the figures are considered.
        """
        return sum(
            any(each.end_secs is not None and each.end_secs < before_secs for each in user.open.values())
            for user in self._users.values()
        )

    def finalize_ends(self, horizon_secs: float) -> None:
        """Make the expected ends of jobs that ended by `horizon_secs` final.

        Records must be complete until that time; see `horizon_secs`.
        """
        assert self.shares is not None  # noqa: S101  # set before
        for name in list(self._ripe):
            self._settle_user(name, self._users[name], horizon_secs)
        for job_id in list(self._aside):
            facts = self._jobs[job_id]
            if facts.end_secs is not None and facts.end_secs <= horizon_secs:
                del self._aside[job_id]
                self._note_settled(facts, horizon_secs)
        self._forgotten_secs = max(self._forgotten_secs, horizon_secs - REMEMBER_SECS)
        old = takewhile(lambda each: each[1][1] < self._forgotten_secs, self._settled.items())
        for job_id, _ in list(old):
            del self._settled[job_id]

    def _settle_user(self, name: str, user: _User, horizon_secs: float) -> None:
        ready: list[JobFacts] = []
        for job_id in user.in_order():
            facts = user.open[job_id]
            if facts.end_secs is None:
                self._ripe.discard(name)
                break
            if facts.end_secs > horizon_secs:
                break
            ready.append(facts)
        else:
            self._ripe.discard(name)
        if not ready:
            return
        del user.in_order()[: len(ready)]
        user.settled_to = order_of(ready[-1])
        lanes = self._lanes(name, user)
        if lanes.share:
            self._add_up(user, lanes, ready)
        else:
            self._skipped[NO_SHARE] += len(ready)
        for facts in ready:
            del user.open[facts.job_id]
            self._note_settled(facts, horizon_secs)

    def _add_up(self, user: _User, lanes: Lanes, ready: Sequence[JobFacts]) -> None:
        ends = lanes.place(
            [round_up_secs(facts.submit_secs or 0, self.mode) for facts in ready],
            [(facts.cpus or 0) * self._scale for facts in ready],
            [round_up_secs(facts.runtime_secs, self.mode) for facts in ready],
        )
        least = BLUR_SECS if self.mode is Mode.FLUID else 0
        for facts, expected in zip(ready, ends, strict=True):
            late = (facts.end_secs or 0) - expected
            if late > least:
                user.violated += 1
                user.tardiness += late
                user.weighted += late * (facts.cpus or 0)
        user.jobs += len(ready)

    def _note_settled(self, facts: JobFacts, horizon_secs: float) -> None:
        del self._jobs[facts.job_id]
        self._remember(facts, horizon_secs)

    def _remember(self, facts: JobFacts, horizon_secs: float) -> None:
        """Remember a settled job while a new job with as early an end may still come."""
        if facts.end_secs is not None and facts.end_secs > horizon_secs - REMEMBER_SECS:
            self._settled.pop(facts.job_id, None)
            self._settled[facts.job_id] = facts, horizon_secs

    def _lanes(self, name: str, user: _User) -> Lanes:
        if user.lanes is None:
            assert self.shares is not None  # noqa: S101  # set before
            share = self.shares.scaled_share(name, self._scale)
            user.lanes = Lanes(share, self.mode)
        return user.lanes

    def outlooks(self, name: str, now_secs: float) -> list[Outlook]:
        """Return the bounds of the expected end and the verdict for each unfinished job of one user.

        The jobs are in order of arrival; `name` is the user's name.
        """
        user = self._users.get(name)
        if user is None:
            return []
        lanes = self._lanes(name, user)
        if not lanes.share:
            return []
        jobs = [user.open[job_id] for job_id in user.in_order()]
        while jobs and jobs[-1].end_secs is not None:  # jobs after the last unfinished one are not needed
            jobs.pop()
        return list(compute_outlooks(lanes, jobs, math.floor(now_secs), scale=self._scale))

    def quality(self, source: str, now_secs: float, *, top_users: int = 0) -> ScheduleQuality:
        """Return the schedule's figures as of `now_secs`, the time of the last queue sample.

        `source` is the batch system's name; `top_users` is how many users get figures of their own.
        """
        assert self.shares is not None  # noqa: S101  # set before
        known = {name: user for name, user in self._users.items() if user.jobs}
        verdicts: Counter[Verdict] = Counter()
        for name, user in self._users.items():
            if user.open:
                verdicts.update(
                    each.verdict
                    for each in self.outlooks(name, now_secs)
                    if self._seen[each.facts.job_id] >= self._queue_secs[-1]
                )
        return ScheduleQuality(
            source=source,
            taken_at_secs=now_secs,
            begin_secs=self.begin_secs,
            share_cpus=plain(CPU, self.shares.default),
            jobs=sum(user.jobs for user in known.values()),
            violated=sum(user.violated for user in known.values()),
            tardiness_secs=compute_sum(user.tardiness for user in known.values()),
            weighted_tardiness_cpu_secs=compute_sum(user.weighted for user in known.values()),
            users=len(known),
            veet_quantiles=compute_quantiles([user.violated / user.jobs for user in known.values()]),
            unfinished=dict(verdicts),
            unsettled_jobs=len(self._jobs) - len(self._aside) - len(self._seen),
            skipped={reason: count for reason, count in sorted(self._skipped.items()) if count},
            wait_secs=_histograms(self._waits),
            slowdown=_histograms(self._slowdowns),
            top_users=tuple(self._top(known, top_users)),
        )

    def _top(self, known: Mapping[str, _User], count: int) -> Iterator[UserQuality]:
        assert self.shares is not None  # noqa: S101  # set before
        for name in heapq.nsmallest(count, known, key=lambda name: (-known[name].weighted, name)):
            user = known[name]
            yield UserQuality(
                user=name,
                share_cpus=plain(CPU, self.shares.of(name)),
                jobs=user.jobs,
                violated=user.violated,
                tardiness_secs=user.tardiness,
                weighted_tardiness_cpu_secs=user.weighted,
            )


def _histograms(tallies: Mapping[str, Tally]) -> dict[str, Histogram]:
    return {partition: tallies[partition].histogram() for partition in sorted(tallies)}
