"""Implements the simulated scheduling policies: queues that determine which waiting job is next. Pure.

Every arriving job is added to the queue, in order of arrival. A job leaves the queue when it starts, also if
jobs in front of it still wait.
"""

from __future__ import annotations

import enum
import heapq
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from jobfeatures.analysis.schedule.shares import CPU, STEPS, ShareRules
from jobfeatures.analysis.simulate.arrivals import FOREVER, Arrivals, Jobs, Numbers
from jobfeatures.errors import ConfigurationError, shown

ALL: Final = "all"
REFRESH_SECS: Final = 3600
WAITING: Final = -1  # the start of a job that has not started


class Policy(enum.Enum):
    """A scheduling policy: the order of waiting jobs, and whether jobs may overtake one that has to wait."""

    FIFO = "fifo"
    FAIRSHARE = "fairshare"
    EASY = "easy"
    FAIRSHARE_EASY = "fairshare+easy"

    @property
    def is_fair(self) -> bool:
        """Return whether jobs of users with less usage go first, instead of jobs that arrived earlier."""
        return self in {Policy.FAIRSHARE, Policy.FAIRSHARE_EASY}

    @property
    def backfills(self) -> bool:
        """Return whether jobs may start before the first job in the queue if they do not delay it."""
        return self in {Policy.EASY, Policy.FAIRSHARE_EASY}


class Fairshare(NamedTuple):
    """The settings of fairshare: seconds between updates of the users' order, half-life of usage, shares.

    The half-life is in seconds; with 0, usage never decays. A user with twice the share of another ranks
    equal to that user after twice the usage: "the amount of used resources will converge toward the amount
    designated by a user priority".
    """

    refresh_secs: int = REFRESH_SECS
    halving_secs: int = 0
    shares: ShareRules = ShareRules(default={CPU: STEPS[CPU]})


def parse_policies(key: str, text: str) -> tuple[Policy, ...]:
    """Parse a comma-separated list of policies, or the word all; repeated policies are dropped.

    Raises ConfigurationError, which names the setting `key`, for an unknown policy.
    """
    if text == ALL:
        return tuple(Policy)
    known = {policy.value: policy for policy in Policy}
    found = dict.fromkeys(word.strip() for word in text.split(","))
    for word in found:
        if word not in known:
            raise ConfigurationError(key, f"{shown(word)} is not one of {', '.join(known)}, {ALL}")
    return tuple(known[word] for word in found)


class FifoQueue:
    """A queue in which the job that arrived first is next."""

    def __init__(self, coming: Arrivals, starts: Numbers) -> None:
        self._order, self._places = coming.order, coming.places
        self._starts = starts
        self._next = 0
        self._behind = 0

    def add_all(self, first: int, behind: int) -> None:
        """Add the jobs at indices `first` to `behind` − 1 in the order of arrival."""
        self._behind = behind

    def head(self) -> int:
        """Return the next job; WAITING if the queue is empty."""
        place, behind, order, starts = self._next, self._behind, self._order, self._starts
        while place < behind and starts[order[place]] != WAITING:
            place += 1
        self._next = place
        return order[place] if place < behind else WAITING

    def rank(self, job: int) -> tuple[float, int]:
        """Return a sort key for a job: the smaller the key, the sooner it is the job's turn."""
        return (0, self._places[job])

    def group(self, job: int) -> int:
        """Return 0 for every job: all jobs are in one group, which keeps the order of arrival."""
        return 0


class FairQueue:
    """A queue in which jobs of the user with the least usage are next, in order of arrival within a user.

    Usage is processors × time, up to now: a job is charged while it runs. The order is computed anew at each
    decision, and every `refresh_secs` from the first submission on. There is one queue per user. Users with
    waiting jobs are in a heap by usage and first job; the heap is valid for one instant.
    """

    def __init__(
        self,
        jobs: Jobs,
        coming: Arrivals,
        starts: Numbers,
        rules: Fairshare,
        ticks: int,
        weights: Sequence[int],
    ) -> None:
        users = len(weights)
        self._order, self._places = coming.order, coming.places
        self._users, self._starts = jobs.users, starts
        self._cpus, self._weights = jobs.cpus, weights
        self._used: list[float] = [0] * users  # until `_since`
        self._since = [0] * users
        self._rate = [0] * users  # weighted processors in use by each user now
        self._running = 0
        self._waiting: list[deque[int]] = [deque() for _ in range(users)]
        self._here: set[int] = set()  # users with waiting jobs, or whose last has just left
        self._heap: list[tuple[float, int, int]] = []  # usage, index of the first job, user
        self._is_ordered = False  # the heap is valid for this instant
        self._refresh = rules.refresh_secs * ticks
        self._halving = rules.halving_secs * ticks
        self._first = coming.first
        self._now = self._first
        self._halved = 0  # how many half-lives have passed

    def add_all(self, first: int, behind: int) -> None:
        """Add the jobs at indices `first` to `behind` − 1 in the order of arrival."""
        for job in self._order[first:behind]:
            user = self._users[job]
            self._waiting[user].append(job)
            self._here.add(user)
        self._is_ordered = False

    def head(self) -> int:
        """Return the next job; WAITING if the queue is empty."""
        if not self._is_ordered:
            self._heap = [
                (self._used_now(user), self._places[job], user)
                for user in list(self._here)
                if (job := self._first_of(user)) != WAITING
            ]
            heapq.heapify(self._heap)
            self._is_ordered = True
        while self._heap:
            used, place, user = self._heap[0]
            job = self._order[place]
            if self._starts[job] == WAITING:
                return job
            job = self._first_of(user)
            if job != WAITING:
                heapq.heapreplace(self._heap, (used, self._places[job], user))
            else:
                heapq.heappop(self._heap)
        return WAITING

    def _first_of(self, user: int) -> int:
        mine = self._waiting[user]
        while mine and self._starts[mine[0]] != WAITING:
            mine.popleft()
        if mine:
            return mine[0]
        self._here.discard(user)
        return WAITING

    def rank(self, job: int) -> tuple[float, int]:
        """Return a sort key for a job: the smaller the key, the sooner it is the job's turn."""
        return (self._used_now(self._users[job]), self._places[job])

    def group(self, job: int) -> int:
        """Return the number of the job's user; the jobs of one user always keep the order of arrival."""
        return self._users[job]

    def _used_now(self, user: int) -> float:
        return self._used[user] + self._rate[user] * (self._now - self._since[user])

    def _settle(self, user: int, at: int) -> None:
        self._used[user] += self._rate[user] * (at - self._since[user])
        self._since[user] = at

    def charge(self, job: int, sign: int) -> None:
        """Begin (`sign` 1) or end (`sign` −1) charging the processors of a job to its user, from now on."""
        user = self._users[job]
        self._settle(user, self._now)
        rate = self._cpus[job] * self._weights[user] * sign
        self._rate[user] += rate
        self._running += rate

    def next_refresh(self) -> float:
        """Return the time of the next periodic update of the users' order.

        It is infinity if no job runs, or if fewer than two users have waiting jobs: the order cannot change.
        """
        return FOREVER if not self._running or len(self._here) < 2 else self.refresh_from(self._now + 1)

    def refresh_from(self, at: int) -> int:
        """Return the time of the first periodic update of the users' order that is not before `at`."""
        return self._first - (self._first - at) // self._refresh * self._refresh

    def pass_to(self, now: int, *, inclusive: bool) -> None:
        """Advance time to `now`, and halve all usage once for each half-life that has passed.

        A half-life that ends exactly at `now` counts only if `inclusive`.
        """
        passed = now - self._first - (0 if inclusive else 1)
        if self._halving and passed >= 0 and (times := passed // self._halving) > self._halved:
            at = self._first + (self._halved + 1) * self._halving
            for user in range(len(self._used)):
                self._halve(user, at, times - self._halved)
            self._halved = times
        self._now = now
        self._is_ordered = False

    def _halve(self, user: int, at: int, times: int) -> None:
        """Halve a user's usage at `at` and at later half-lives, `times` in all, with what runs in between."""
        self._settle(user, at)
        if not self._used[user] and not self._rate[user]:
            return
        factor = 0.5 ** min(times - 1, 1100)  # any further, and every float is 0
        between = self._rate[user] * self._halving * (1 - factor)
        self._used[user] = self._used[user] / 2 * factor + between
        self._since[user] = at + (times - 1) * self._halving


Queue = FifoQueue | FairQueue
