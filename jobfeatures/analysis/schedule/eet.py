"""Computes the expected end time (EET) of a user's jobs from the user's share of a machine. Pure functions.

Source: Tóth, Klusáček: "User-Aware Metrics for Measuring Quality of Parallel Job Schedules", Algorithm 1,
which stores the unused part of the share for every second. Here, the share is stored as lanes instead. A lane
is one unit of the share, such as one processor; one job at a time occupies it. A job occupies as many lanes
as it requests, first those that are free first. It occupies a lane from the time at which the lane is free
until the job's end, but not before the job's arrival. The result is the same, since after the last arrival
the unused part of the share never decreases with time. n jobs take O(n log n) time.

Requests and shares are whole numbers. To allow fractions of a processor, callers pass both in thousandths of
a processor: only their ratio matters. Times are whole seconds, except in fluid mode (`Mode.FLUID`), in which
a job may end at a fraction of a second.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Sequence

Number = int | float


class Mode(enum.Enum):
    """Choices of how much of the share a job occupies during the second in which its work ends."""

    LITERAL = "literal"  # the job has it all, as in line 9 of the algorithm
    EXACT = "exact"  # what the job does not need is left to the next ones
    FLUID = "fluid"  # there are no seconds: the job ends where its work does


class ShareError(ValueError):
    """Raised when a job requests a resource of which its user's share is 0: the job would never end.

    `position` is the index of the job, from 0.
    """

    def __init__(self, position: int) -> None:
        super().__init__(f"job {position} asks for some of a share of 0")
        self.position = position


class Lanes:
    """One user's share of one resource, as units (lanes), and until when each lane is occupied by jobs.

    Jobs are placed in order of arrival, by one call of `place` or by several.
    """

    __slots__ = ("_busy", "_free", "mode", "share")

    def __init__(self, share: int, mode: Mode = Mode.LITERAL) -> None:
        if share < 0:
            raise ValueError("the share is below 0")
        self.share = share
        self.mode = mode
        self._free = share  # lanes that were free at the last arrival
        self._busy: list[tuple[Number, int]] = []  # a heap: (free from, how many lanes)

    def copy(self) -> Lanes:
        """Return an independent copy of these lanes: jobs placed into either do not change the other."""
        other = Lanes(self.share, self.mode)
        other._free = self._free
        other._busy = self._busy.copy()
        return other

    def has_spare(self, since: Number, until: Number, wanted: Number) -> bool:
        """Return whether at least `wanted` lane-seconds are free between the times `since` and `until`.

        A lane-second is one lane for one second. None of the placed jobs may have arrived after `since`.
        """
        left = self._free * max(0, until - since)
        if self._busy and self._busy[0][0] < until:
            for free_from, lanes in self._busy:
                if left >= wanted:
                    break
                left += lanes * max(0, until - max(free_from, since))
        return left >= wanted

    def occupied_lane_secs(self, since: Number) -> Number:
        """Return how many lane-seconds after the time `since` are occupied by the jobs placed so far.

        None of these jobs may have arrived after `since`.
        """
        return sum(lanes * max(0, free_from - since) for free_from, lanes in self._busy)

    def place(
        self, arrivals: Iterable[Number], requests: Iterable[int], runtimes: Iterable[Number]
    ) -> list[Number]:
        """Place jobs into the share, and return the expected end of each, by the same clock as `arrivals`.

        The jobs must be in order of arrival. A job whose request or runtime is 0 or less is expected to end
        when it arrives. A job that requests more than the whole share runs on the whole share, for longer.
        Raises ShareError for any other job if the share is 0.
        """
        busy, free = self._busy, self._free
        is_fluid, is_exact = self.mode is Mode.FLUID, self.mode is Mode.EXACT
        push, pop, replace = heapq.heappush, heapq.heappop, heapq.heapreplace
        ends: list[Number] = []
        end: Number
        for arrival, request, runtime in zip(arrivals, requests, runtimes, strict=True):
            while busy and busy[0][0] <= arrival:
                free += pop(busy)[1]
            if request <= 0 or runtime <= 0:
                ends.append(arrival)
                continue
            if request <= free:
                free -= request
                end = arrival + runtime
                push(busy, (end, request))
                ends.append(end)
                continue
            # Too few lanes are free: fill those there are up to the time at which the next ones are.
            work = request * runtime
            level, lanes, free = arrival, free, 0
            while busy and lanes < request:
                until, more = busy[0]
                if lanes:
                    gap = until - level
                    if (work / lanes if is_fluid else -(-work // lanes)) <= gap:
                        break
                    work -= lanes * gap
                level = until
                if lanes + more > request:
                    replace(busy, (until, lanes + more - request))
                    lanes = request
                else:
                    pop(busy)
                    lanes += more
            if not lanes:
                raise ShareError(len(ends))
            step = work / lanes if is_fluid else -(-work // lanes)
            end = level + step
            if is_exact:
                surplus = int(lanes * step - work)
                if surplus:
                    push(busy, (end - 1, surplus))
                    lanes -= surplus
            push(busy, (end, lanes))
            ends.append(end)
        self._free = free
        return ends


def compute_chained(
    arrivals: Sequence[Number],
    runtimes: Sequence[Number],
    demands: Iterable[tuple[Sequence[int], int]],
    preceding: Sequence[int],
    thinks: Sequence[Number],
    mode: Mode = Mode.LITERAL,
) -> list[Number]:
    """Return when the jobs of one user are expected to end, where some jobs follow other jobs.

    `preceding` holds for each job the index of the job that it follows, −1 for none. Such a job is taken to
    arrive when its think time (from `thinks`, in seconds) has passed since the expected end of the preceding
    job. If its think time is −1, it arrives at that expected end, but not before its own arrival. `demands`
    holds for each resource the jobs' requests and the user's share; `mode` is that of `Lanes`. Raises
    ShareError if a job requests a resource of which the share is 0.
    """
    asked = [(requests, Lanes(share, mode)) for requests, share in demands]
    followers: dict[int, list[int]] = {}
    for job, before in enumerate(preceding):
        followers.setdefault(before, []).append(job)
    due = [(arrivals[job], job) for job in followers.get(-1, ())]
    heapq.heapify(due)
    ends: list[Number] = [0] * len(arrivals)
    while due:
        arrival, job = heapq.heappop(due)
        try:
            placed = [
                lanes.place([arrival], [requests[job]], [runtimes[job]])[0] for requests, lanes in asked
            ]
        except ShareError:
            raise ShareError(job) from None
        ends[job] = end = max(placed, default=arrival)
        for each in followers.get(job, ()):
            think = thinks[each]
            heapq.heappush(due, (end + think if think >= 0 else max(end, arrivals[each]), each))
    return ends
