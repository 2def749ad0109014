"""The jobs of a simulation as columns; when they arrive, and in which order: pure.

Independent jobs arrive at their submit time. A follower's arrival depends on the end of the job it follows,
so it is known only then. Jobs that arrive at the same time are ordered as in the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

Numbers = list[int] | memoryview  # by job
Blank = Callable[[int], Numbers]
Tick = Callable[[int], object]  # called with the number of jobs that have arrived


class Jobs(NamedTuple):
    """The simulated jobs as columns, in order of submission. Times are whole ticks: seconds or fractions.

    Users are numbers from 0. Where jobs follow others, the order is the log's.
    A follower arrives its think time after the other job's end; where that is
    unknown (−1), at that end, but not before its own submission.
    """

    submits: Sequence[int]
    runtimes: Sequence[int]
    estimates: Sequence[int]  # the runtimes that a scheduler assumes
    users: Sequence[int]
    cpus: Sequence[int]  # charged to the user while running
    preceding: Sequence[int] = ()  # the job that each follows, −1 for none; empty: none does
    thinks: Sequence[int] = ()
    alone: Sequence[int] = ()  # jobs that follow none, in order of submission, where known


FOREVER: Final = float("inf")
TICK_JOBS: Final = 4096  # jobs per step of a progress bar


class Arrivals:
    """Tells which jobs have arrived: `order` lists them, `places` gives each job's index in `order`."""

    def __init__(self, jobs: Jobs, blank: Blank, tick: Tick) -> None:
        """`blank` makes a column of numbers, all −1, for this many jobs; `tick` reports progress."""
        everybody = range(len(jobs.submits))
        self.order: Sequence[int] = everybody
        self.places: Sequence[int] = everybody
        self._submits, self._thinks = jobs.submits, jobs.thinks
        self._alone: Sequence[int] = everybody
        self._due: list[tuple[int, int]] = []  # (arrival, job): a heap of followers
        self._is_linked = bool(jobs.preceding)
        self._came = 0  # how many have arrived, where jobs follow others
        if self._is_linked:
            self._order, self._places, self._follower, self._beside = (
                blank(len(everybody)) for _ in range(4)
            )
            for job, before in enumerate(jobs.preceding):
                if before >= 0:  # a linked list of each job's followers
                    self._beside[job] = self._follower[before]
                    self._follower[before] = job
                if job % TICK_JOBS == 0:
                    tick(0)
            alone = (job for job in everybody if jobs.preceding[job] < 0)
            self._alone = jobs.alone or sorted(alone, key=jobs.submits.__getitem__)
            self.order, self.places = self._order, self._places
        self._next = 0
        self.soonest = self._time_of_next()  # the next known arrival
        self.first = jobs.submits[self._alone[0]] if self._alone else 0

    def _time_of_next(self) -> float:
        return self._submits[self._alone[self._next]] if self._next < len(self._alone) else FOREVER

    def ended(self, job: int, now: int) -> None:
        """Note that a job has ended at `now`: when its followers arrive is known from now on."""
        each = self._follower[job]
        while each >= 0:
            think = self._thinks[each]
            when = max(now, self._submits[each]) if think < 0 else now + think
            heapq.heappush(self._due, (when, each))
            self.soonest = min(self.soonest, when)
            each = self._beside[each]

    def take(self, now: int) -> int:
        """Let jobs whose time is `now` arrive; return how many have arrived in all."""
        first = self._next
        while (soonest := self._time_of_next()) == now:
            self._next += 1
        self.soonest = soonest
        if not self._is_linked:
            return self._next
        fresh = list(self._alone[first : self._next])
        while self._due and self._due[0][0] == now:
            fresh.append(heapq.heappop(self._due)[1])
        for place, job in enumerate(sorted(fresh), self._came):
            self._order[place], self._places[job] = job, place
        self._came += len(fresh)
        if self._due:
            self.soonest = min(self.soonest, self._due[0][0])
        return self._came
