"""Which of the waiting jobs is next: pure.

A queue is told of every job that comes, in order of submission. Jobs that have
a start have left it, wherever in it they stood.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final, Protocol

from jobfeatures.simulate.jobs import Jobs
from jobfeatures.simulate.policies import Fairshare

WAITING: Final = -1  # the start of a job that has none
FOREVER: Final = float("inf")


class Queue(Protocol):
    """What the loop over time wants of a queue."""

    def add_all(self, first: int, behind: int) -> None:
        """Add the jobs from `first` up to, and without, `behind`."""

    def head(self) -> int:
        """Return the job that is next, WAITING where none waits."""

    def rank(self, job: int) -> tuple[float, int]:
        """Return what is less for the one of two jobs that is nearer to the head."""

    def group(self, job: int) -> int:
        """Return a number that two jobs share only if the one that came first is always before the other."""


class FifoQueue:
    """Who came first is first: the next job is a place in the list of all jobs."""

    def __init__(self, starts: list[int]) -> None:
        self._starts = starts
        self._next = 0
        self._behind = 0

    def add_all(self, first: int, behind: int) -> None:
        """Add the jobs from `first` up to, and without, `behind`."""
        self._behind = behind

    def head(self) -> int:
        """Return the job that is next, WAITING where none waits."""
        job, behind, starts = self._next, self._behind, self._starts
        while job < behind and starts[job] != WAITING:
            job += 1
        self._next = job
        return job if job < behind else WAITING

    def rank(self, job: int) -> tuple[float, int]:
        """Return what is less for the one of two jobs that is nearer to the head."""
        return (0, job)

    def group(self, job: int) -> int:
        """Return the same for all: they keep their order."""
        return 0


class FairQueue:
    """Whose user has used least is first, then who came first.

    What a user has used is charged when a job ends. Priorities are what it was
    at the last refresh, which there is one of every `refresh_secs` from the
    first submission on; what ends at that instant counts. One queue a user
    stands in a heap by (priority, first job). An entry of the heap is out of
    date where the priority is another by now, or the job has left.
    """

    def __init__(self, jobs: Jobs, starts: list[int], rules: Fairshare, ticks: int) -> None:
        users = max(jobs.users, default=-1) + 1
        self._users, self._charges, self._starts = jobs.users, jobs.charges, starts
        self._used: list[float] = [0] * users
        self._priorities: list[float] = [0] * users
        self._waiting: list[deque[int]] = [deque() for _ in range(users)]
        self._heap: list[tuple[float, int, int]] = []
        self._changed: set[int] = set()  # users whose priority is not what they have used
        self._is_charged = False  # since the last refresh: halves alone change no order
        self._refresh = rules.refresh_secs * ticks
        self._halving = rules.halving_secs * ticks
        self._first = jobs.submits[0] if jobs.submits else 0
        self._refreshed = self._halved = 0  # how often it was time

    def add_all(self, first: int, behind: int) -> None:
        """Add the jobs from `first` up to, and without, `behind`."""
        for job in range(first, behind):
            user = self._users[job]
            mine = self._waiting[user]
            mine.append(job)
            if len(mine) == 1:
                heapq.heappush(self._heap, (self._priorities[user], job, user))

    def head(self) -> int:
        """Return the job that is next, WAITING where none waits."""
        heap, starts = self._heap, self._starts
        while heap:
            priority, job, user = heap[0]
            mine = self._waiting[user]
            if mine and mine[0] == job and priority == self._priorities[user]:
                if starts[job] == WAITING:
                    return job
                while mine and starts[mine[0]] != WAITING:
                    mine.popleft()
                if mine:
                    heapq.heapreplace(heap, (priority, mine[0], user))
                    continue
            heapq.heappop(heap)
        return WAITING

    def rank(self, job: int) -> tuple[float, int]:
        """Return what is less for the one of two jobs that is nearer to the head."""
        return (self._priorities[self._users[job]], job)

    def group(self, job: int) -> int:
        """Return the user."""
        return self._users[job]

    def charge(self, job: int) -> None:
        """Count a job that has ended."""
        if charge := self._charges[job]:
            user = self._users[job]
            self._used[user] += charge
            self._changed.add(user)
            self._is_charged = True

    def next_refresh(self) -> float:
        """Return when a refresh may change the order of those who wait."""
        if not self._is_charged or not self._heap:
            return FOREVER
        return self._first + (self._refreshed + 1) * self._refresh

    def pass_to(self, now: int, *, inclusive: bool) -> None:
        """Do what it was time for before `now`, also at it if `inclusive`. Nothing was charged meanwhile."""
        passed = now - self._first - (0 if inclusive else 1)
        if passed < 0:
            return
        if self._halving and (times := passed // self._halving) > self._halved:
            self._halve(times - self._halved)
            self._halved = times
        if (times := passed // self._refresh) > self._refreshed:
            self._refreshed = times
            self._take_over()

    def _halve(self, times: int) -> None:
        factor = 0.5 ** min(times, 1100)  # beyond it nothing is left of any number
        for user, used in enumerate(self._used):
            if used:
                self._used[user] = used * factor
                self._changed.add(user)

    def _take_over(self) -> None:
        for user in self._changed:
            used = self._priorities[user] = self._used[user]
            if mine := self._waiting[user]:
                heapq.heappush(self._heap, (used, mine[0], user))
        self._changed.clear()
        self._is_charged = False
