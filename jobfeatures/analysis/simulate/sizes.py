"""Represents jobs' requests as numbers, and finds jobs that are too large for a machine. Needs numpy."""

from __future__ import annotations

from typing import Final

import numpy as np

from jobfeatures.analysis.schedule.eligibility import NEGATIVE, NEVER_STARTED, NO_CPUS, NO_RUNTIME, NO_SUBMIT
from jobfeatures.analysis.schedule.eligibility import REASONS as NOT_COUNTED
from jobfeatures.analysis.schedule.jobarrays import ScheduleLog
from jobfeatures.analysis.schedule.runs import Array
from jobfeatures.analysis.simulate.placing import Shape, all_free, make_shape, place_first_fit
from jobfeatures.analysis.simulate.pools import Pool

MANY_CPUS: Final = "too_many_cpus"
MUCH_MEMORY: Final = "too_much_memory"
MANY_GPUS: Final = "too_many_gpus"
NO_ROOM: Final = "no_room"
# Why a job is not simulated; the first reason that holds is reported.
REASONS: Final = {
    **{each: NOT_COUNTED[each] for each in (NO_SUBMIT, NEVER_STARTED, NO_RUNTIME)},
    NEGATIVE: "it ran for less than no time, or for longer than any clock",
    NO_CPUS: NOT_COUNTED[NO_CPUS],
    MANY_CPUS: "it asks for more processors than there are",
    MUCH_MEMORY: "it asks for more memory than there is",
    MANY_GPUS: "it asks for more GPUs than there are",
    NO_ROOM: "a part of it fits on no node, or all of them do not fit at once",
}


class Sizes:
    """Represents each job's request as one number: its processors, or an index into `shapes`.

    The index is used if the machine consists of nodes.
    """

    def __init__(self, pool: Pool) -> None:
        self.shapes: list[Shape] = []
        self._pool = pool
        self._places = {reason: place for place, reason in enumerate(REASONS, 1)}
        self._rows: dict[tuple[int, ...], int] = {}
        self._reasons: list[int] = []

    def of(self, log: ScheduleLog) -> tuple[Array, Array]:
        """Return two arrays: each job's size, and the reason why the job is too large for the machine.

        The reason is 0 for a job that fits, else the position of the reason in REASONS, counted from 1.
        """
        pool = self._pool
        if not pool.nodes:
            return log.cpus, np.where(log.cpus > pool.processors, self._places[MANY_CPUS], 0)
        nothing = np.zeros(len(log), dtype=np.int64)
        tells_memory = any(node.memory_kib is not None for node in pool.nodes)
        asked = [log.cpus, log.memory_kib if tells_memory else None, log.gpus]
        table = np.stack([nothing if each is None else np.maximum(each, 0) for each in asked], axis=1)
        rows, sizes = np.unique(table, axis=0, return_inverse=True)
        places = np.array([self._place_of(tuple(row)) for row in rows.tolist()], np.int64)
        sizes = places[sizes.reshape(-1)]
        return sizes, np.array(self._reasons, np.int64)[sizes]

    def _place_of(self, row: tuple[int, ...]) -> int:
        if row not in self._rows:
            self._rows[row] = len(self.shapes)
            self.shapes.append(make_shape(*row))
            self._reasons.append(self._places.get(_why_too_large(self._pool, self.shapes[-1], row), 0))
        return self._rows[row]


def _why_too_large(pool: Pool, shape: Shape, row: tuple[int, ...]) -> str:
    """Return a reason, empty where the job fits the empty machine."""
    if place_first_fit([all_free(node) for node in pool.nodes], shape) is not None:
        return ""
    cpus, memory_kib, gpus = (sum(each) for each in zip(*map(all_free, pool.nodes), strict=True))
    if row[0] > cpus:
        return MANY_CPUS
    if row[1] > memory_kib:
        return MUCH_MEMORY
    return MANY_GPUS if row[2] > gpus else NO_ROOM
