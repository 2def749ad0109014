"""Reads a job's control group on cgroup v2.

In a hybrid layout, the controllers that are on v1 are read by `version1` instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.groupfiles import ABSENT, NO_FILE, GroupFile, GroupFiles
from jobfeatures_exporter.sampling.groups.ledger import Counter, Rows
from jobfeatures_exporter.sampling.groups.limitsabove import (
    LIMITS_V2,
    NO_LIMITS,
    RARELY_SAMPLES,
    LimitsAbove,
    MemoryLimits,
)
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.groups.turns import Turns
from jobfeatures_exporter.sampling.host.units import RESOURCES
from jobfeatures_exporter.sampling.parsers.cgroupfiles import (
    CpuTimes,
    parse_cpu_stat,
    parse_limit,
    parse_memory_stat_v2,
    parse_number,
)
from jobfeatures_exporter.sampling.parsers.counterfiles import (
    parse_cpu_list,
    parse_io_stat,
    parse_memory_events,
    parse_pressure,
)

Parsed = TypeVar("Parsed")
SHARES = ("some", "full")
_EVENTS = {"oom_kills": "oom_kill", "ooms": "oom", "limit_hits": "max", "high_hits": "high"}
_NO_MEMORY = MemoryBytes()


class GroupV2:
    """Reads one job's group on v2. If `read_cpu` gets `NodeSigns`, only some files are read, see `turns`."""

    def __init__(
        self,
        top: str,
        depth: int,
        files: GroupFiles,
        above: LimitsAbove | None,
        beside: Collection[str],
        *,
        local_events: bool,
    ) -> None:
        """Open nothing yet. `top` is the group's directory, `beside` has the job's controllers on v1.

        With `local_events`, memory.events leaves out those of the job's steps and is not read.

        `above` reads the memory limits of the `depth` groups above it; None: they are not applied.
        """

        def file(name: str, parse: Callable[[str], Parsed], *not_beside: str) -> GroupFile[Parsed]:
            return NO_FILE if {*not_beside} & {*beside} else files.file(f"{top}/{name}", parse)

        # CPU time, and for how long a quota kept it from its CPUs; these CPUs.
        self.usage = file("cpu.stat", parse_cpu_stat, "cpuacct", "memory")
        self.cpu_lists = [file("cpuset.cpus.effective", parse_cpu_list, "cpuset")]
        # Memory by part, its swap, all that is charged, its peak (since Linux 5.19), and its limits.
        self._stat = file("memory.stat", parse_memory_stat_v2, "memory")
        self._swap = file("memory.swap.current", parse_number, "memory")
        self.charged = file("memory.current", parse_number, "memory")
        self._peak = file("memory.peak", parse_number, "memory")
        self.limits = [file(name, parse_limit, "memory") for name in LIMITS_V2]
        self.huge_pages = None if "hugetlb" in beside else top, "current"  # where, and how files are called
        # How often it was killed or met a limit; transfers by device; for how long it waited for what.
        self._events = NO_FILE if local_events else file("memory.events", parse_memory_events, "memory")
        self.transfers = file("io.stat", parse_io_stat, "blkio")
        self._pressures = [(each, file(f"{each}.pressure", parse_pressure)) for each in RESOURCES]
        self._above, self._place = above, (os.path.dirname(top), depth)
        self._throttled_usecs: int | None = None
        self._last_read: tuple[list[int | None], MemoryLimits] = [], MemoryLimits()
        self._limits: tuple[int | None, ...] = (None,) * 4  # as of what was told
        taking: list[GroupFile[Any]] = [self._events, self._peak, self._swap, self.transfers]
        self._turns = Turns([*taking, *(each for _, each in self._pressures)])
        self._node_kills: int | None = None  # at the last sample
        self._is_at_rest = False  # whether nothing has happened since the last sample, but files wait

    def read_cpu(self, signs: NodeSigns | None, *, is_whole: bool) -> CpuTimes | None:
        """Return the CPU time (None: unreadable), and choose which other files this sample reads.

        With `is_whole`, each file is read within the next samples, whether or not it may have changed.
        """
        found = self.usage.known()
        cpu, self._throttled_usecs = found or (None, None)
        if signs is not None:
            kills, before = signs.kills, self._node_kills
            self._node_kills = kills
            if is_whole:
                self._turns.mark_stale()
            now = () if self._is_at_rest else (found, found, *signs.changes)
            self._is_at_rest = False
            self._turns.choose(now, at_once=kills is None or kills != before)
        return cpu

    def peek(self) -> GroupFigures:
        """Return CPU time, peak memory and transfers now; later readings are not changed by it.

        Raises OSError and ParseError if a file cannot be read.
        """
        cpu, throttled_usecs = self.usage.peek() or (None, None)
        counters: dict[Counter, Rows] = {}
        if throttled_usecs is not None:
            counters["throttled"] = {"": (throttled_usecs,)}
        if devices := self.transfers.peek():
            counters["block_io"] = devices
        return GroupFigures(MemoryBytes(peak=self._peak.peek()), cpu, counters)

    def has_unread_files(self) -> bool:
        """Return whether files that may have changed still wait for their turn to be read."""
        self._is_at_rest = self._is_at_rest or self._turns.waiting
        return self._turns.waiting

    def read_memory(self) -> MemoryBytes:
        """Return memory in bytes; None for what cannot be read."""
        parts = self._stat.known() or _NO_MEMORY
        swap, charged, peak = self._swap.known(), self.charged.known(), self._peak.known()
        limits = [each.known(every=RARELY_SAMPLES) for each in self.limits]
        now = limits, self._find_above()
        if now != self._last_read:  # they hardly ever change
            own, lowest = limits[0], MemoryLimits(*limits).lowest(now[1])
            limit_above = None if lowest.memory == own else lowest.memory
            self._last_read, self._limits = now, (own, limit_above, lowest.swap, lowest.high)
        if peak is not None and charged is not None:
            peak = max(peak, charged)  # which may have risen since the peak was read
        return MemoryBytes(
            *(parts.anon, parts.file, parts.shmem, parts.kernel, parts.sock, parts.hugetlb, swap),
            *(charged, parts.reclaimable, *self._limits, peak),
        )

    def has_new_limits_above(self) -> bool:
        """Return whether a memory limit of a group above has changed since the last `read_memory`."""
        return self._find_above() != self._last_read[1]

    def read_counters(self) -> dict[Counter, Rows]:
        """Return the group's counts of events, transfers and stalls by name, each as rows by device.

        A counter that the kernel does not provide has no key; None: unreadable.
        """
        counters: dict[Counter, Rows] = {}
        if self._throttled_usecs is not None:
            counters["throttled"] = {"": (self._throttled_usecs,)}
        if (events := self._events.value_or_absent()) is not ABSENT:
            for counter, name in _EVENTS.items():
                if events is None:
                    counters[counter] = None
                elif name in events:
                    counters[counter] = {"": (events[name],)}
        if (devices := self.transfers.value_or_absent()) is not ABSENT:
            counters["block_io"] = devices
        for resource, file in self._pressures:
            if (stalled := file.value_or_absent()) is not ABSENT:
                for share in SHARES if stalled is None else stalled:
                    counters[resource, share] = None if stalled is None else {"": (stalled[share],)}
        return counters

    def _find_above(self) -> MemoryLimits:
        return NO_LIMITS if self._above is None else self._above.of(*self._place)
