"""Expected ends of all jobs, in parts of some users' jobs each, which any process can compute: numpy.

`split` makes the parts, `compute_part` computes the ends of one from it alone.
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
    """What each job asks of one resource, and each user's share of it, both in the same unit."""

    resource: str
    requests: Array
    shares: list[int]
    lanes: Lanes | None = None  # of the one user there is: as earlier jobs have left them


class UsersPart(NamedTuple):
    """Some users' jobs, user by user, each user's in order of arrival. Times: seconds of the log."""

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
    """Return jobs ready to compute their expected ends: in whole seconds, unless the mode is fluid.

    Fractions of a second are rounded up, of arrival and of runtime, so that
    no job that starts at once is late by rounding.
    """
    if mode is not Mode.FLUID:
        arrivals, runtimes = _whole(arrivals), _whole(runtimes)
    return UsersPart(users, bounds, arrivals, runtimes, tuple(demands), mode)


def scaled(requests: Array, factor: int) -> Array:
    """Return requests × `factor`: as Python's integers if the products do not fit into 64 bits."""
    if factor == 1:
        return requests
    fits = not len(requests) or int(requests.max()) < MOST // factor
    return requests * factor if fits else requests.astype(object) * factor


def split(part: UsersPart, count: int) -> list[UsersPart]:
    """Return at most `count` parts of about equally many jobs, none of them empty."""
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
    """Return when each job should end (log seconds), the latest over the resources. Raises ScheduleError."""
    ends: Array = np.maximum.reduce([_compute(part, demand) for demand in part.demands])
    return ends


def compute_all(parts: Sequence[UsersPart], *, tick: Tick | None = None) -> Array:
    """Return all parts' ends as one array; `tick` gets numbers of jobs done. Raises ScheduleError."""
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
