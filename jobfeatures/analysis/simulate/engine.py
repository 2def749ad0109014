"""Runs a simulation: the loop over time. Pure and deterministic; times are whole ticks.

At each instant, first jobs end, then jobs arrive, then jobs start. Under fairshare, they start in order of
the usage of their users up to that instant. A job with runtime 0 ends at the same instant; then jobs that now
fit start too, and the jobs that follow it arrive.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from jobfeatures.analysis.simulate.arrivals import FOREVER, TICK_JOBS, Arrivals, Blank, Jobs, Numbers, Tick
from jobfeatures.analysis.simulate.backfill import Backfill
from jobfeatures.analysis.simulate.placing import Machine
from jobfeatures.analysis.simulate.policies import WAITING, FairQueue, Fairshare, FifoQueue, Policy


def simulate(
    jobs: Jobs,
    machine: Machine,
    policy: Policy,
    rules: Fairshare,
    *,
    ticks: int,
    weights: Sequence[int],
    blank: Blank,
    progress: Tick,
) -> Numbers:
    """Simulate the jobs on a machine; return when each job starts, in ticks.

    Each job must fit on the empty machine. `ticks` is the number of ticks per second; times in `rules` are in
    seconds. Under fairshare, a user's usage is multiplied by the user's entry in `weights`, which is smaller
    the larger the share. `blank` allocates a column of as many numbers as it is told, all `WAITING`.
    `progress` is called with the number of jobs that have arrived since its last call.
    """
    runtimes = jobs.runtimes
    starts = blank(len(runtimes))
    coming = Arrivals(jobs, blank, progress)
    ends: list[tuple[int, int]] = []
    fair = FairQueue(jobs, coming, starts, rules, ticks, weights) if policy.is_fair else None
    queue = FifoQueue(coming, starts) if fair is None else fair
    backfill = Backfill(jobs, coming, machine, queue, starts) if policy.backfills else None
    come = 0
    reported = 0
    now = coming.first
    head = WAITING

    def start(job: int) -> None:
        starts[job] = now
        heapq.heappush(ends, (now + runtimes[job], job))
        if fair is not None:
            fair.charge(job, 1)

    is_followed = bool(jobs.preceding)
    pop, take, give, next_job = heapq.heappop, machine.take, machine.give, queue.head
    while True:
        soonest = coming.soonest
        if ends and ends[0][0] < soonest:
            soonest = ends[0][0]
        if fair is not None:
            due = fair.next_refresh()
            if due == FOREVER and backfill is not None and head != WAITING:
                lapse = backfill.next_lapse(now)  # one user's order stays, but others may fill in then
                due = lapse if lapse == FOREVER else fair.refresh_from(int(lapse))
            soonest = min(soonest, due)
        if soonest == FOREVER:
            return starts
        now = int(soonest)
        if fair is not None:
            fair.pass_to(now, inclusive=False)
        while ends and ends[0][0] == now:
            job = pop(ends)[1]
            give(job)
            if is_followed:
                coming.ended(job, now)
            if fair is not None:
                fair.charge(job, -1)
            if backfill is not None:
                backfill.ended(job, starts[job])
        if fair is not None:
            fair.pass_to(now, inclusive=True)
        if coming.soonest == now:
            behind = coming.take(now)
            queue.add_all(come, behind)
            come = behind
            if come - reported >= TICK_JOBS:
                progress(come - reported)
                reported = come
        head = next_job()
        while head != WAITING and take(head):
            start(head)
            if backfill is not None:
                backfill.started(head, now)
            head = next_job()
        if backfill is not None:
            backfill.fill(now, head, come, start)
