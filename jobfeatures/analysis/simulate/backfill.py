"""Implements EASY backfilling: which jobs may start before a job that has to wait. Pure.

The job at the head of the queue has a reservation. Its shadow time is when it can start if running jobs end
at their estimates; the spare is what will be free beside it then. Another job may start now if its estimated
end is not after the shadow time, or if it fits into the spare, which it then uses up.

Waiting jobs of equal size and estimate (under fairshare also of the same user) form a line. No job can start
before the job in front of it in its line. So only the first job of each line is tried, and only for sizes
that have room.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable

from jobfeatures.analysis.simulate.arrivals import FOREVER, Arrivals, Jobs, Numbers
from jobfeatures.analysis.simulate.placing import Machine
from jobfeatures.analysis.simulate.policies import WAITING, Queue

Line = deque[int]


class Backfill:
    """Decides which waiting jobs may start before the head of the queue.

    It keeps the waiting jobs in lines, the estimated ends of running jobs, and the reservation of the head.
    """

    def __init__(self, jobs: Jobs, coming: Arrivals, machine: Machine, queue: Queue, starts: Numbers) -> None:
        self._order, self._places = coming.order, coming.places
        self._estimates = jobs.estimates
        self._machine = machine
        self._queue = queue
        self._starts = starts
        self._running: list[tuple[int, int]] = []  # (estimated end, job), sorted
        self._lines: dict[int, dict[tuple[int, int], Line]] = {}  # by size, then (group, estimate)
        self._known = 0  # earlier arrivals are in a line already, if they had to wait
        self._reserved = WAITING  # the job that has the reservation
        self._shadow = 0

    def started(self, job: int, now: int) -> None:
        """Record that the head of the queue has started, so that the next head needs a new reservation."""
        self._reserved = WAITING
        self._run(job, now)

    def ended(self, job: int, start: int) -> None:
        """Record that a job has ended, which had started at `start`.

        The reservation is then computed anew.
        """
        self._reserved = WAITING
        running = self._running
        del running[bisect_left(running, (start + self._estimates[job], job))]

    def next_lapse(self, now: int) -> float:
        """Return when the next running job reaches its estimated runtime; infinity if none will.

        A job that has reached its estimate may end at any time, so the reservation then changes. Until then,
        a job that could not start before the head of the queue still cannot.
        """
        place = bisect_left(self._running, (now + 1, 0))
        return self._running[place][0] if place < len(self._running) else FOREVER

    def fill(self, now: int, head: int, behind: int, start: Callable[[int], None]) -> None:
        """Start all jobs that may start before the waiting job `head`, in the order of the queue.

        `behind` is the number of jobs that have arrived. `start` is called with each job. If `head` is
        WAITING, the queue is empty.
        """
        if head == WAITING:
            self._known = behind
            return
        fresh = self._add_lines(behind)
        if head == self._reserved and now <= self._shadow:
            lines = fresh  # refused jobs still cannot start
        else:
            has_room = self._machine.has_room
            lines = [line for size, same in self._lines.items() if has_room(size) for line in same.values()]
            if lines:
                self._shadow = self._machine.reserve(head, self._running, now)
                self._reserved = head
        if lines:
            self._start_some(lines, now, start)

    def _add_lines(self, behind: int) -> list[Line]:
        """Put new arrivals into lines; return the lines that have one of them as their first job."""
        found = []
        for job in self._order[self._known : behind]:
            if self._starts[job] != WAITING:
                continue
            same = self._lines.setdefault(self._machine.sizes[job], {})
            line = same.setdefault(self._key(job), deque())
            line.append(job)
            if len(line) == 1:
                found.append(line)
        self._known = behind
        return found

    def _run(self, job: int, now: int) -> None:
        insort(self._running, (now + self._estimates[job], job))
        if self._places[job] < self._known:
            size, key = self._machine.sizes[job], self._key(job)
            same = self._lines[size]
            line = same[key]
            line.popleft()  # the head is always the first of its line
            if not line:
                del same[key]
                if not same:
                    del self._lines[size]

    def _key(self, job: int) -> tuple[int, int]:
        return (self._queue.group(job), self._estimates[job])

    def _start_some(self, lines: list[Line], now: int, start: Callable[[int], None]) -> None:
        machine, estimates, rank = self._machine, self._estimates, self._queue.rank
        longest = self._shadow - now
        spare: dict[int, bool] = {}  # by size
        heap = []
        for place, line in enumerate(lines):
            job = line[0]
            if estimates[job] > longest:
                size = machine.sizes[job]
                if size not in spare:
                    spare[size] = machine.has_spare(size)
                if not spare[size]:
                    continue
            heap.append((rank(job), place))
        heapq.heapify(heap)
        while heap:
            place = heapq.heappop(heap)[1]
            line = lines[place]
            job = line[0]
            take = machine.take if estimates[job] <= longest else machine.take_spare
            if take(job):  # else no job of its line fits either
                start(job)
                self._run(job, now)
                if line:
                    heapq.heappush(heap, (rank(line[0]), place))
