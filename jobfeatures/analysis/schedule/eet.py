"""The expected end time (EET) of a user's jobs by the user's share of a machine: pure.

Source: Tóth, Klusáček: "User-Aware Metrics for Measuring Quality of Parallel Job Schedules", Algorithm 1,
which keeps what is left of the share in every second. From the last arrival on, what is left never decreases
with time: it is kept as lanes (units of the share), each free from some time on. A job takes as many of the
lanes that are free first as it asks for, fills them like water from its arrival on; they are free at its end
again: by a heap of groups of lanes, for n jobs in O(n log n).

Requests and shares are whole numbers; scaling both by one factor changes nothing, so fractions of a processor
go in as thousandths. Times are whole seconds, in the mode fluid any.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Sequence

Number = int | float


class Mode(enum.Enum):
    """How much of the share a job takes in its last second, of which it needs only a part."""

    LITERAL = "literal"  # the job has it all, as in line 9 of the algorithm
    EXACT = "exact"  # what the job does not need is left to the next ones
    FLUID = "fluid"  # there are no seconds: the job ends where its work does


class ShareError(ValueError):
    """A job requests some of a share of 0, so it would never end. `position`: its index, from 0."""

    def __init__(self, position: int) -> None:
        super().__init__(f"job {position} asks for some of a share of 0")
        self.position = position


class Lanes:
    """One user's share of one resource, and how much of it is occupied until when.

    Jobs are placed in order of arrival, in one call of `place` or in several;
    jobs placed into a copy do not change the original.
    """

    __slots__ = ("_busy", "_free", "mode", "share")

    def __init__(self, share: int, mode: Mode = Mode.LITERAL) -> None:
        if share < 0:
            raise ValueError("a share below 0")
        self.share = share
        self.mode = mode
        self._free = share  # lanes that were free at the last arrival
        self._busy: list[tuple[Number, int]] = []  # a heap: (free from, how many lanes)

    def copy(self) -> Lanes:
        """Return a copy of these lanes; jobs placed into the one do not change the other."""
        other = Lanes(self.share, self.mode)
        other._free = self._free
        other._busy = self._busy.copy()
        return other

    def has_spare(self, since: Number, until: Number, wanted: Number) -> bool:
        """Return whether `wanted` lane-seconds are idle between two times; no job came after `since`."""
        left = self._free * max(0, until - since)
        if self._busy and self._busy[0][0] < until:
            for free_from, lanes in self._busy:
                if left >= wanted:
                    break
                left += lanes * max(0, until - max(free_from, since))
        return left >= wanted

    def taken(self, since: Number) -> Number:
        """Return the occupied lane-seconds of the share after `since`; no job may have arrived later."""
        return sum(lanes * max(0, free_from - since) for free_from, lanes in self._busy)

    def place(
        self, arrivals: Iterable[Number], requests: Iterable[int], runtimes: Iterable[Number]
    ) -> list[Number]:
        """Place jobs into the share; return when each is expected to end, by the clock of the arrivals.

        No job may arrive before the one before it. One that asks for nothing,
        or runs for no time, is expected to end when it arrives; one that asks
        for more than the share is stretched. Raises ShareError.
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
    """Return when one user's jobs are expected to end; `preceding`: which job each follows (−1: none).

    A follower arrives its think time after the other's expected end; if that time is −1, at that end, but not
    before its own arrival. `demands`: by resource the jobs' requests and the share. Raises ShareError.
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
