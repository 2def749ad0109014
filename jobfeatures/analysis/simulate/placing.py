"""Tracks which resources of a simulated machine are free now, and when a waiting job's reservation begins.

Pure. There are two kinds of machine with the same methods. `sizes` holds each job's request: for `Processors`
a number of processors, for `Nodes` an index into `shapes`. Other modules may only compare sizes for equality.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final, NamedTuple

from jobfeatures.analysis.simulate.pools import Node

UNLIMITED: Final = 2**62  # KiB of a node of unknown memory


class Processors:
    """A simulated machine of which only the number of processors counts."""

    __slots__ = ("_free", "_spare", "sizes")

    def __init__(self, count: int, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self._free = count
        self._spare = 0

    def take(self, job: int) -> bool:
        """Start a job if enough processors are free now; return whether it was started."""
        size = self.sizes[job]
        if size > self._free:
            return False
        self._free -= size
        return True

    def give(self, job: int) -> None:
        """Free the processors of a job that has ended."""
        self._free += self.sizes[job]

    def has_room(self, size: int) -> bool:
        """Return whether a job of `size` processors could be placed now."""
        return size <= self._free

    def reserve(self, job: int, running: Sequence[tuple[int, int]], now: int) -> int:
        """Return when a waiting job can start if running jobs end at their estimates: its shadow time.

        `running` holds pairs of estimated end and job, sorted. An estimate that has passed counts as now,
        because the job may end at any time. The processors that the job will leave free at its shadow time
        are recorded as the spare, for `has_spare` and `take_spare`.
        """
        sizes, wanted = self.sizes, self.sizes[job]
        free, shadow = self._free, now
        for end, other in running:
            if end > shadow:
                if free >= wanted:
                    break
                shadow = end
            free += sizes[other]
        self._spare = free - wanted
        return shadow

    def has_spare(self, size: int) -> bool:
        """Return whether a job of `size` processors can start now and run beyond the shadow time.

        The shadow time is the start of the reservation that `reserve` made.
        """
        return size <= self._free and size <= self._spare

    def take_spare(self, job: int) -> bool:
        """Start a job that will run beyond the shadow time, and return True, if it fits into the spare.

        The spare is what the reservation made by `reserve` leaves free; the shadow time is its start.
        Otherwise False is returned.
        """
        size = self.sizes[job]
        if size > self._spare or size > self._free:
            return False
        self._spare -= size
        self._free -= size
        return True


class Shape(NamedTuple):
    """A job's request, divided into `parts` equal parts.

    Each part needs `cpus` processors, `memory_kib` KiB of memory and `gpus` GPUs on one node.
    """

    parts: int
    cpus: int
    memory_kib: int
    gpus: int


def make_shape(cpus: int, memory_kib: int, gpus: int) -> Shape:
    """Divide a request into as many equal parts as possible; without GPUs, a part has one processor."""
    parts = gcd(cpus, gpus) if gpus else cpus
    if not parts:
        return Shape(1, 0, memory_kib, 0) if memory_kib else Shape(0, 0, 0, 0)
    return Shape(parts, cpus // parts, -(-memory_kib // parts), gpus // parts)


Free = tuple[int, int, int]  # processors, KiB, cards of one node
Placed = list[tuple[int, int]]  # index of the node, number of parts


def count_parts(free: Free, shape: Shape, most: int) -> int:
    """Return how many parts of a job fit on a node whose free resources are `free`, but at most `most`."""
    _, cpus, memory_kib, gpus = shape
    if cpus and free[0] < most * cpus:
        most = free[0] // cpus
    if memory_kib and free[1] < most * memory_kib:
        most = free[1] // memory_kib
    if gpus and free[2] < most * gpus:
        most = free[2] // gpus
    return most


def place_first_fit(frees: Sequence[Free], shape: Shape) -> Placed | None:
    """Place all parts of a job on nodes with the free resources `frees`, filling them in the given order.

    Returns pairs of node index and number of parts, or None if not all parts fit.
    """
    left = shape.parts
    placed: Placed = []
    if not left:
        return placed
    least = shape.cpus
    for place, free in enumerate(frees):
        if free[0] < least:
            continue
        count = count_parts(free, shape, left)
        if count:
            placed.append((place, count))
            left -= count
            if not left:
                return placed
    return None


class Nodes:
    """A simulated machine of nodes with processors, memory (KiB) and GPUs."""

    __slots__ = ("_cpus", "_frees", "_placed", "_shapes", "_spares", "_wanted", "sizes")

    def __init__(self, nodes: Sequence[Node], shapes: Sequence[Shape], sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self._shapes = shapes
        self._frees = [all_free(node) for node in nodes]
        self._spares = self._frees
        self._cpus = sum(node.cpus for node in nodes)  # free on all nodes together
        self._wanted = [shape.parts * shape.cpus for shape in shapes]  # of these
        self._placed: dict[int, Placed] = {}

    def take(self, job: int) -> bool:
        """Start a job if all its parts fit on nodes now; return whether it was started."""
        return self._wanted[self.sizes[job]] <= self._cpus and self._take(job, self._frees)

    def give(self, job: int) -> None:
        """Free the processors, memory and GPUs of a job that has ended."""
        size = self.sizes[job]
        self._cpus += self._wanted[size]
        _add(self._frees, self._placed.pop(job), self._shapes[size], 1)

    def has_room(self, size: int) -> bool:
        """Return whether a job of the shape with index `size` could be placed now."""
        if self._wanted[size] > self._cpus:
            return False
        return place_first_fit(self._frees, self._shapes[size]) is not None

    def reserve(self, job: int, running: Sequence[tuple[int, int]], now: int) -> int:
        """Reserve nodes for a waiting job; return when it can start if running jobs end at their estimates.

        `running` holds pairs of estimated end and job, sorted, as for `Processors.reserve`.
        """
        shape = self._shapes[self.sizes[job]]
        frees = self._frees.copy()
        rooms = [count_parts(free, shape, shape.parts) for free in frees]
        room, shadow = sum(rooms), now
        for end, other in running:
            if end > shadow:
                if room >= shape.parts:
                    break
                shadow = end
            placed = self._placed[other]
            _add(frees, placed, self._shapes[self.sizes[other]], 1)
            for place, _ in placed:
                count = count_parts(frees[place], shape, shape.parts)
                room += count - rooms[place]
                rooms[place] = count
        _add(frees, place_first_fit(frees, shape) or [], shape, -1)
        self._spares = frees
        return shadow

    def has_spare(self, size: int) -> bool:
        """Return whether a job of the shape with index `size` can start now and run beyond the shadow time.

        The shadow time is the start of the reservation that `reserve` made.
        """
        return place_first_fit(self._both(), self._shapes[size]) is not None

    def take_spare(self, job: int) -> bool:
        """Start a job that will run beyond the shadow time, and return True, if it fits into the spare.

        The spare is what the reservation made by `reserve` leaves free; the shadow time is its start.
        Otherwise False is returned.
        """
        if not self._take(job, self._both()):
            return False
        _add(self._spares, self._placed[job], self._shapes[self.sizes[job]], -1)
        return True

    def _take(self, job: int, frees: Sequence[Free]) -> bool:
        size = self.sizes[job]
        placed = place_first_fit(frees, self._shapes[size])
        if placed is None:
            return False
        self._cpus -= self._wanted[size]
        _add(self._frees, placed, self._shapes[size], -1)
        self._placed[job] = placed
        return True

    def _both(self) -> list[Free]:
        """Return what is free both now and beside the reservation."""
        return [
            (min(a, x), min(b, y), min(c, z))
            for (a, b, c), (x, y, z) in zip(self._frees, self._spares, strict=True)
        ]


Machine = Processors | Nodes


def all_free(node: Node) -> Free:
    """Return all resources of a node as free: processors, memory in KiB, and GPUs."""
    return (node.cpus, UNLIMITED if node.memory_kib is None else node.memory_kib, node.gpus)


def _add(frees: list[Free], placed: Placed, shape: Shape, sign: int) -> None:
    for place, parts in placed:
        count = parts * sign
        cpus, memory_kib, gpus = frees[place]
        frees[place] = (
            cpus + count * shape.cpus,
            memory_kib + count * shape.memory_kib,
            gpus + count * shape.gpus,
        )
