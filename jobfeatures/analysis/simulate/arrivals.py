"""Holds the jobs of a simulation as columns, and determines when and in which order they arrive. Pure.

A job that follows no other arrives at its submit time. The arrival of a job that follows another depends on
the end of that job, so it is known only then. Jobs that arrive at the same time are in the order of the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

Numbers = list[int] | memoryview  # by job
Blank = Callable[[int], Numbers]
Tick = Callable[[int], object]  # called with the number of jobs that have arrived


class Jobs(NamedTuple):
    """The simulated jobs as columns, in order of submission, or in the log's order if jobs follow others.

    Times are whole ticks; a tick is a second or a fraction of it. `estimates` are the runtimes that the
    scheduler assumes. Users are numbers from 0. `preceding` holds the job that each job follows (−1: none).
    Such a job arrives when its think time has passed since the end of the preceding job. If its think time is
    −1 (unknown), it arrives at that end, but not before its own submission. `alone` are the jobs that follow
    no other.
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
    """Determines which jobs have arrived as simulated time passes.

    `order` lists the jobs in order of arrival; `places` holds each job's index in `order`.
    """

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
        """Record that a job has ended at the time `now`.

        This determines when the jobs that follow it arrive.
        """
        each = self._follower[job]
        while each >= 0:
            think = self._thinks[each]
            when = max(now, self._submits[each]) if think < 0 else now + think
            heapq.heappush(self._due, (when, each))
            self.soonest = min(self.soonest, when)
            each = self._beside[each]

    def take(self, now: int) -> int:
        """Let the jobs arrive that are due at the time `now`; return how many have arrived in all."""
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
