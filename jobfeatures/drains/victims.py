"""Chooses which jobs to give up when cores are needed (use case 12 of the 2014 draft). Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from jobfeatures.drains.nodemetrics import SeenJob

# Waste in units of the finest fraction among the jobs, jobs, cores, and a number that ranks sets by ids:
# each adds up over jobs, so the minimum is found by dynamic programming over cores.
_Cost = tuple[int, int, int, int]
_Sums = dict[int, _Cost]  # the least cost by cores freed, capped at the number wanted


@dataclass(frozen=True, slots=True)
class Victims:
    """The jobs to give up in order to free `cores` cores, and the jobs that could not be considered.

    `chosen` is None if all `considered` jobs together free too few cores. Of the `unknown` jobs, the cores or
    the waste are unknown. The `kept` jobs have a higher priority than an unknown job of the same user, so
    they may not be given up before that one.
    """

    cores: int
    chosen: tuple[SeenJob, ...] | None
    considered: tuple[SeenJob, ...] = ()
    kept: tuple[SeenJob, ...] = ()
    unknown: tuple[SeenJob, ...] = ()

    @property
    def freed(self) -> int:
        """Return the number of cores that the chosen jobs free; 0 if none were chosen."""
        return sum_cores(self.chosen or ())

    @property
    def available(self) -> int:
        """Return the number of cores that all considered jobs would free."""
        return sum_cores(self.considered)

    @property
    def core_secs(self) -> float:
        """Return the kill waste of the chosen jobs in core seconds."""
        return sum(job.kill_core_secs or 0.0 for job in self.chosen or ())


def sum_cores(jobs: Iterable[SeenJob]) -> int:
    """Return the number of cores of all these jobs."""
    return sum(job.allocated_cpus or 0 for job in jobs)


def choose_victims(jobs: Iterable[SeenJob], cores: int) -> Victims:
    """Choose the jobs that free at least `cores` cores (1 or more) with the least kill waste in total.

    Among one user's jobs with a priority_factor, a job is chosen only if all jobs with a lower factor are
    ("higher is better"); priorities of different users are never compared (draft 0.99, 3.9). Of equally cheap
    sets, the one with the fewest jobs is chosen, then the one with the fewest cores, then the one with the
    first ids. The result is exact: dynamic programming over the number of cores that sets of jobs free.
    """
    ordered = sorted(jobs, key=lambda job: (job.batch_system, job.job_id))
    orders: list[list[list[SeenJob]]] = []  # each user's jobs, grouped by priority, lowest first
    unknown = [job for job in ordered if not job.is_known]
    kept: list[SeenJob] = []
    by_user: dict[tuple[str, str], list[SeenJob]] = {}
    for job in ordered:
        if job.user is not None and job.priority_factor is not None:
            by_user.setdefault((job.batch_system, job.user), []).append(job)
        elif job.is_known:
            orders.append([[job]])
    for own in by_user.values():
        own.sort(key=_priority)
        levels = [list(level) for _, level in groupby(own, _priority)]
        known = (all(job.is_known for job in level) for level in levels)
        bound = next((at for at, is_known in enumerate(known) if not is_known), len(levels))
        orders.append([[job for job in level if job.is_known] for level in levels[: bound + 1]])
        kept += [job for level in levels[bound + 1 :] for job in level if job.is_known]
    considered = [job for levels in orders for level in levels for job in level]
    considered.sort(key=lambda job: (job.batch_system, job.job_id))
    victims = Victims(cores, None, tuple(considered), tuple(kept), tuple(unknown))
    if victims.available < cores:
        return victims
    costs = _costs(considered)
    best: _Sums = {0: (0, 0, 0, 0)}
    for levels in orders:
        before = best
        for level in levels:
            some = before
            for job in level:
                some = _least(some, _with(some, costs[id(job)], cores))
            best = _least(best, some)
            for job in level:
                before = _with(before, costs[id(job)], cores)
    ids = -best[cores][3]
    chosen = (job for at, job in enumerate(considered, 1) if ids >> len(considered) - at & 1)
    return replace(victims, chosen=tuple(chosen))


def _priority(job: SeenJob) -> int:
    return job.priority_factor or 0


def _costs(jobs: Sequence[SeenJob]) -> dict[int, _Cost]:
    """Return the cost of each job by identity, in integers: sums of floats would depend on their order.

    The ids' part has one binary digit per job: of two equally large sets, the one whose
    ids come first has the greater number (negated, since the least cost wins).
    """
    ratios = [(job.kill_core_secs or 0.0).as_integer_ratio() for job in jobs]
    unit = max(denominator for _, denominator in ratios)  # all are powers of two
    return {
        id(job): (numerator * (unit // denominator), 1, job.allocated_cpus or 0, -(1 << len(jobs) - 1 - at))
        for at, (job, (numerator, denominator)) in enumerate(zip(jobs, ratios, strict=True))
    }


def _with(sums: _Sums, cost: _Cost, cores: int) -> _Sums:
    waste, count, freed, ids = cost
    found: _Sums = {}
    for at, known in sums.items():
        added = (known[0] + waste, known[1] + count, known[2] + freed, known[3] + ids)
        _keep(found, min(cores, at + freed), added)
    return found


def _least(some: _Sums, others: _Sums) -> _Sums:
    found = dict(some)
    for at, cost in others.items():
        _keep(found, at, cost)
    return found


def _keep(sums: _Sums, at: int, cost: _Cost) -> None:
    there = sums.get(at)
    if there is None or cost < there:
        sums[at] = cost
