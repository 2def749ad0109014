"""Reads the memory limits of the groups above those of jobs on v2, which several jobs may share.

On v1 this is not needed: memory.stat of a group has the lowest limit of the group and all groups above.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from jobfeatures.records.combining import min_known
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groups.groupfiles import GroupFile, GroupFiles
from jobfeatures_exporter.sampling.parsers.cgroupfiles import parse_limit

RARELY_SAMPLES = 8  # every so many samples: limits, cpusets, and transfers that the kernel does not count
LIMITS_V2 = ("memory.max", "memory.swap.max", "memory.high")


class MemoryLimits(NamedTuple):
    """Limits of memory and swap in bytes; None: unlimited or unknown.

    Beyond `high`, the kernel slows a job down rather than killing it.
    """

    memory: int | None = None
    swap: int | None = None
    high: int | None = None

    def lowest(self, other: MemoryLimits) -> MemoryLimits:
        """Return the lower value of each limit in this and the `other` record."""
        return MemoryLimits(*map(min_known, self, other))


NO_LIMITS = MemoryLimits()


class LimitsAbove:
    """Reads the memory limits of groups above jobs', each once in `RARELY_SAMPLES` samples, for all jobs."""

    def __init__(self, budget: DescriptorBudget, unreadable: Unreadable) -> None:
        self._files = GroupFiles(budget, unreadable)
        self._above: dict[str, list[GroupFile[int | None]]] = {}  # by directory
        self._lowest: dict[str, MemoryLimits] = {}  # as last read, by directory
        self._asked: set[str] = set()  # directories with jobs, in this sample and in the last one
        self._asked_last: set[str] = set()

    def advance(self) -> None:
        """Begin the next sample; forget directories for which `of` was not called in the last sample."""
        if self._asked != self._asked_last:
            needed = {each for directory in self._asked for each in (directory, *_parents(directory))}
            for directory in self._above.keys() - needed:
                self._files.forget(directory)
                del self._above[directory]
                self._lowest.pop(directory, None)
        self._asked, self._asked_last = set(), self._asked
        self._files.advance()
        if self._files.number % RARELY_SAMPLES == 0:
            self._lowest = {}

    def of(self, directory: str, depth: int) -> MemoryLimits:
        """Return the lowest value of each limit in the group at `directory` and the groups above it.

        `depth` is the number of groups to look at, from this one up.
        """
        self._asked.add(directory)
        return self._lowest.get(directory) or self._read(directory, depth)

    def _read(self, directory: str, depth: int) -> MemoryLimits:
        if depth <= 0:
            return NO_LIMITS
        files = self._above.get(directory)
        if files is None:
            files = [self._files.file(f"{directory}/{name}", parse_limit) for name in LIMITS_V2]
            self._above[directory] = files
        own = MemoryLimits(*(each.known(every=RARELY_SAMPLES) for each in files))
        parent = os.path.dirname(directory)
        found = own.lowest(self._lowest.get(parent) or self._read(parent, depth - 1))
        self._lowest[directory] = found
        return found

    def close(self) -> None:
        """Close all descriptors."""
        self._files.close()


def _parents(directory: str) -> Iterator[str]:
    while (parent := os.path.dirname(directory)) != directory:
        yield parent
        directory = parent
