"""Which job of a log follows which: numpy.

Source: The Standard Workload Format: "the current job can only start after the
termination of this preceding job", and think time is what "should elapse
between the termination of the preceding job and the submittal of this one".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jobfeatures.joblog import JobRecord
from jobfeatures.schedule.reasons import UNKNOWN

Array = npt.NDArray[Any]


class Links(NamedTuple):
    """By job: the place of the one that it follows, and the think time between the two; −1: none."""

    preceding: Array
    thinks: Array

    def could_start(self, submit: Array, start: Array, end: Array) -> Array:
        """Return since when those that follow another could start, −1 of others; no later than they did."""
        before = end[self.preceding]
        since = np.maximum(before + np.maximum(self.thinks, 0), submit)
        since = np.where(start >= 0, np.minimum(since, start), since)
        return np.where((self.preceding >= 0) & (before >= 0) & (submit >= 0), since, UNKNOWN)

    def taken(self, which: Array) -> Links:
        """Return those of some jobs, in their order; who followed one of the others follows none."""
        place_of = np.full(len(self.preceding) + 1, UNKNOWN)
        place_of[which] = np.arange(len(which))
        place_of[-1] = UNKNOWN
        found = place_of[self.preceding[which]]
        return Links(found, np.where(found >= 0, self.thinks[which], UNKNOWN))


def find_links(numbers: Array, preceding: Array, thinks: Array) -> tuple[Links | None, list[str]]:
    """Return who follows whom by number or None, and notes on the others; a number of several is nobody's."""
    rows = np.flatnonzero(preceding > 0)
    if not len(rows):
        return None, []
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first, behind = (np.searchsorted(ordered, preceding[rows], side) for side in ("left", "right"))
    is_one = behind - first == 1
    places = np.full(len(numbers), UNKNOWN)
    places[rows[is_one]] = order[first[is_one]]
    circle = _circles(places)
    places[circle] = UNKNOWN
    missing = len(rows) - int((places >= 0).sum())
    reported = [
        f"{missing} × preceding job that is not there, or follows the job itself: it is taken as none"
    ]
    links = Links(places, np.where((places >= 0) & (thinks >= 0), thinks, UNKNOWN))
    return (links if missing < len(rows) else None), reported if missing else []


def links_of(jobs: Sequence[JobRecord]) -> tuple[Links | None, list[str]]:
    """Return the same of records."""
    if all(job.preceding_job_id is None for job in jobs):
        return None, []
    codes: dict[tuple[str, str | None, str], int] = {}
    numbers = [codes.setdefault((job.batch_system, job.cluster, job.job_id), len(codes) + 1) for job in jobs]
    absent = len(codes) + 1
    preceding = [
        UNKNOWN
        if job.preceding_job_id is None
        else codes.get((job.batch_system, job.cluster, job.preceding_job_id), absent)
        for job in jobs
    ]
    thinks = np.array([UNKNOWN if job.think_secs is None else job.think_secs for job in jobs])
    return find_links(np.array(numbers), np.array(preceding), thinks)


def _circles(places: Array) -> list[int]:
    next_of = dict(zip(np.flatnonzero(places >= 0).tolist(), places[places >= 0].tolist(), strict=True))
    seen: dict[int, int] = {}  # by job, from which one it was reached
    found = []
    for start in next_of:
        job = start
        while job in next_of and job not in seen:
            seen[job] = start
            job = next_of[job]
        if job in next_of and seen[job] == start:  # reached again from here: a circle, not walked before
            first = job
            found.append(first)
            while (job := next_of[job]) != first:
                found.append(job)
    return found
