"""Computes one common expected end for jobs that belong together (a bag); needs numpy.

A bag is a job array, a workflow, or a chain of jobs that follow each other. Source: Tóth, Klusáček, outlook:
"For such a workflow or bags of tasks we should therefore generate single EET rather than compute separate EET
for each job/task." A bag's expected end is the latest expected end of its jobs. A job that follows another
job of its user is treated as if it arrived after that job's expected end.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np

from jobfeatures.analysis.schedule.choosing import Chosen, ScheduleError
from jobfeatures.analysis.schedule.eet import Mode, compute_chained
from jobfeatures.analysis.schedule.eligibility import UNKNOWN
from jobfeatures.analysis.schedule.expected import UsersPart
from jobfeatures.analysis.schedule.followers import Links
from jobfeatures.analysis.schedule.jobarrays import ScheduleLog
from jobfeatures.analysis.schedule.runs import Array


class Join(enum.Enum):
    """The reasons for which jobs of one user form a bag, a piece of work with one common expected end."""

    PRECEDING = "preceding"  # one follows the other
    ARRAY = "array"
    WORKFLOW = "workflow"


def join_ends(
    log: ScheduleLog, laid: Chosen, part: UsersPart, ends: Array, by: Collection[Join]
) -> tuple[Array, Array]:
    """Join jobs into bags; return, for each job of `laid`, its bag's expected end and its bag.

    `laid` are all jobs of the evaluated users, `part` holds the same jobs with their requests, and `ends`
    their separate expected ends. `by` names the kinds of bags to form. Ends are in seconds since the log's
    time zero. A bag is identified by the index of one of its jobs. Raises ScheduleError if an end is too late
    for 64 bits.
    """
    users = np.repeat(np.arange(len(laid.users)), np.diff(laid.bounds))
    found = ends.copy()
    edges: list[tuple[int, int]] = []
    if Join.PRECEDING in by and log.links is not None:
        links = log.links.select(laid.position)
        is_own = (links.preceding >= 0) & (users[links.preceding] == users)
        links = Links(np.where(is_own, links.preceding, UNKNOWN), links.thinks)
        edges += [(job, links.preceding[job].item()) for job in np.flatnonzero(is_own).tolist()]
        for user in np.unique(users[is_own]).tolist():
            mine = slice(*laid.bounds[user : user + 2].tolist())
            found[mine] = _chained(part, user, mine, links)
    for join, codes in ((Join.ARRAY, log.arrays), (Join.WORKFLOW, log.workflows)):
        if join in by and codes is not None:
            edges += _neighbours(users, codes[laid.position])
    bags = _roots(len(found), edges)
    latest = np.full(len(found), found.min() if len(found) else 0, dtype=found.dtype)
    np.maximum.at(latest, bags, found)
    return latest[bags], bags


def _chained(part: UsersPart, user: int, mine: slice, links: Links) -> Array:
    thinks = links.thinks[mine]
    if part.mode is not Mode.FLUID:
        thinks = np.ceil(thinks).astype(np.int64)
    before = links.preceding[mine]
    ends = compute_chained(
        part.arrivals[mine].tolist(),
        part.runtimes[mine].tolist(),
        [(demand.requests[mine].tolist(), demand.shares[user]) for demand in part.demands],
        np.where(before >= 0, before - mine.start, UNKNOWN).tolist(),
        thinks.tolist(),
        part.mode,
    )
    try:
        return np.array(ends, dtype=np.float64 if part.mode is Mode.FLUID else np.int64)
    except OverflowError:
        raise ScheduleError("expected ends of jobs are beyond 2^63 seconds") from None


def _neighbours(users: Array, codes: Array) -> Iterator[tuple[int, int]]:
    """Return pairs of jobs of one user that have the same code, so that all of these are connected."""
    known = np.flatnonzero(codes >= 0)
    order = known[np.lexsort((codes[known], users[known]))]
    same = (users[order][1:] == users[order][:-1]) & (codes[order][1:] == codes[order][:-1])
    return (pair for pair, is_same in zip(pairwise(order.tolist()), same.tolist(), strict=True) if is_same)


def _roots(count: int, edges: list[tuple[int, int]]) -> Array:
    """Return for each job one representative of all jobs connected to it."""
    roots: dict[int, int] = {}

    def root_of(job: int) -> int:
        while (above := roots.get(job, job)) != job:
            roots[job] = roots.get(above, above)
            job = above
        return job

    for one, other in edges:
        roots[root_of(one)] = root_of(other)
    found = np.arange(count)
    for job in {job for edge in edges for job in edge}:
        found[job] = root_of(job)
    return found
