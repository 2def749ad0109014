"""Computes the expected ends of all jobs, in parts that separate processes can compute; needs numpy.

`split` divides the jobs into parts, each with all jobs of some users. `compute_part` computes the ends of the
jobs of one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jobfeatures.analysis.schedule.choosing import ScheduleError
from jobfeatures.analysis.schedule.eet import Lanes, Mode, ShareError
from jobfeatures.analysis.schedule.jobarrays import MOST
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.errors import shown

Tick = Callable[[int], object]  # called with how many jobs were done


class Demand(NamedTuple):
    """The amounts of one resource that jobs request, and each user's share of it, in the same unit.

    `requests` has one value per job, `shares` one per user. `lanes` is given only for a single user: the
    state in which earlier jobs have left the share; None means that the whole share is free.
    """

    resource: str
    requests: Array
    shares: list[int]
    lanes: Lanes | None = None  # of the one user there is: as earlier jobs have left them


class UsersPart(NamedTuple):
    """All jobs of some users, sorted by user, and by arrival within each user.

    The jobs of `users[i]` are at the indices from `bounds[i]` to `bounds[i + 1]` (exclusive). Arrivals are in
    seconds since the log's time zero, runtimes in seconds. There is one `Demand` per resource.
    """

    users: list[str]
    bounds: Array  # user i has the jobs from bounds[i] to bounds[i + 1]
    arrivals: Array
    runtimes: Array
    demands: tuple[Demand, ...]
    mode: Mode


def make_part(
    users: list[str],
    bounds: Array,
    arrivals: Array,
    runtimes: Array,
    demands: Iterable[Demand],
    *,
    mode: Mode = Mode.LITERAL,
) -> UsersPart:
    """Return a `UsersPart`, whose fields the arguments are; `compute_part` computes its jobs' expected ends.

    Unless `mode` is FLUID, arrivals and runtimes are rounded up to whole seconds: if they were rounded down,
    a job that started at once could appear to be late.
    """
    if mode is not Mode.FLUID:
        arrivals, runtimes = _whole(arrivals), _whole(runtimes)
    return UsersPart(users, bounds, arrivals, runtimes, tuple(demands), mode)


def scaled(requests: Array, factor: int) -> Array:
    """Return `requests` × `factor`, as Python integers if the products do not fit into 64 bits."""
    if factor == 1:
        return requests
    fits = not len(requests) or int(requests.max()) < MOST // factor
    return requests * factor if fits else requests.astype(object) * factor


def split(part: UsersPart, count: int) -> list[UsersPart]:
    """Divide jobs into at most `count` parts with about the same number of jobs; no part is empty."""
    if not part.users:
        return []
    wanted = np.linspace(0, len(part.arrivals), count + 1)[1:-1]
    cuts = np.unique(np.concatenate(([0], np.searchsorted(part.bounds, wanted), [len(part.users)])))
    return [_cut(part, *pair) for pair in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]


def _cut(part: UsersPart, first: int, last: int) -> UsersPart:
    low, high = int(part.bounds[first]), int(part.bounds[last])
    return UsersPart(
        part.users[first:last],
        part.bounds[first : last + 1] - low,
        part.arrivals[low:high],
        part.runtimes[low:high],
        tuple(
            each._replace(requests=each.requests[low:high], shares=each.shares[first:last])
            for each in part.demands
        ),
        part.mode,
    )


def compute_part(part: UsersPart) -> Array:
    """Return when each job of a part is expected to end, in seconds since the log's time zero.

    A job's expected end is the latest of those computed for the single resources. Raises ScheduleError if a
    job requests a resource of which its user's share is 0, or if an end is too late for 64 bits.
    """
    ends: Array = np.maximum.reduce([_compute(part, demand) for demand in part.demands])
    return ends


def compute_all(parts: Sequence[UsersPart], *, tick: Tick | None = None) -> Array:
    """Return the expected ends of the jobs of all parts, one after another, in one array.

    After each part, `tick` is called with the number of jobs in the part. Raises as `compute_part` does.
    """
    found = []
    for part in parts:
        found.append(compute_part(part))
        if tick is not None:
            tick(len(part.arrivals))
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _compute(part: UsersPart, demand: Demand) -> Array:
    arrivals, runtimes, requests = part.arrivals.tolist(), part.runtimes.tolist(), demand.requests.tolist()
    ends: list[int | float] = []
    bounds = part.bounds.tolist()
    for place, share in enumerate(demand.shares):
        mine = slice(bounds[place], bounds[place + 1])
        try:
            lanes = demand.lanes or Lanes(share, part.mode)
            ends += lanes.place(arrivals[mine], requests[mine], runtimes[mine])
        except ShareError:
            raise ScheduleError(
                f"user {shown(part.users[place])} has a share of 0 {demand.resource}, but jobs that "
                "request it: give the user a share above 0"
            ) from None
    try:
        return np.array(ends, dtype=np.float64 if part.mode is Mode.FLUID else np.int64)
    except OverflowError:
        raise ScheduleError(
            f"expected ends of jobs are beyond 2^63 seconds: is a share of {demand.resource} "
            "too small, or a request too large?"
        ) from None


def _whole(times: Array) -> Array:
    return times if times.dtype.kind == "i" else np.ceil(times).astype(np.int64)
