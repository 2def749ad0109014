"""Reads a job's control group on cgroup v1.

If a job has only some controllers on v1, `version2` reads the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.groupfiles import ABSENT, NO_FILE, GroupFile, GroupFiles
from jobfeatures_exporter.sampling.groups.ledger import Counter, Rows
from jobfeatures_exporter.sampling.groups.limitsabove import RARELY_SAMPLES, MemoryLimits
from jobfeatures_exporter.sampling.groups.memorytree import MemoryTree
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC
from jobfeatures_exporter.sampling.parsers.cgroupfiles import (
    NO_CPU_TIME,
    CpuTimes,
    compute_split,
    known_kernel,
    parse_cpuacct_stat,
    parse_limit,
    parse_memory_stat_v1,
    parse_number,
    parse_throttled,
)
from jobfeatures_exporter.sampling.parsers.counterfiles import parse_blkio, parse_core_usage, parse_cpu_list

Parsed = TypeVar("Parsed")
_NO_MEMORY = MemoryBytes()
_parse_split = partial(parse_cpuacct_stat, ticks_per_sec=TICKS_PER_SEC)


class GroupV1:
    """Reads one job's group on v1; `groups` has its directory in each hierarchy, by controller."""

    def __init__(self, groups: Mapping[str, str], files: GroupFiles, unreadable: Unreadable) -> None:
        """Open nothing yet."""

        def file(controller: str, name: str, parse: Callable[[str], Parsed]) -> GroupFile[Parsed]:
            top = groups.get(controller)
            return NO_FILE if top is None else files.file(f"{top}/{name}", parse)

        # CPU time: its precise total, and how it is split into user and system; then by core, and by a quota.
        self._split = file("cpuacct", "cpuacct.stat", _parse_split)
        self.usage = file("cpuacct", "cpuacct.usage", parse_number)
        self._by_core = file("cpuacct", "cpuacct.usage_percpu", parse_core_usage)
        self._throttled = file("cpu", "cpu.stat", parse_throttled)
        # The CPUs in effect; before Linux 3.17 there are only the requested ones.
        names = "cpuset.effective_cpus", "cpuset.cpus"
        self.cpu_lists = [file("cpuset", name, parse_cpu_list) for name in names]
        # Memory by part, that of the kernel for it, all that is charged, and its peak.
        self._stat = file("memory", "memory.stat", parse_memory_stat_v1)
        self._kernel = file("memory", "memory.kmem.usage_in_bytes", parse_number)
        self.charged = file("memory", "memory.usage_in_bytes", parse_number)
        self._peak = file("memory", "memory.max_usage_in_bytes", parse_number)
        # Its limits: of memory, and of memory and swap together. memory.stat has the lowest of those above.
        names = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
        self.limits = [file("memory", name, parse_limit) for name in names]
        # Kills and failed charges, of all groups below.
        self.tree = MemoryTree(groups["memory"], files, unreadable) if "memory" in groups else None
        # Transfers: bytes and operations by device.
        self._moved = file("blkio", "blkio.throttle.io_service_bytes_recursive", parse_blkio)
        self._served = file("blkio", "blkio.throttle.io_serviced_recursive", parse_blkio)
        self.huge_pages = groups.get("hugetlb"), "usage_in_bytes"  # where, and how files are called
        self._last_cpu = NO_CPU_TIME
        self._throttled_usecs: int | None = None
        self._transfers = True  # whether blkio has reported any
        self._last_read: tuple[int | None, ...] = ()
        self._limits: tuple[int | None, ...] = (None,) * 4  # as of what was told

    def read_cpu(self) -> CpuTimes | None:
        """Return the CPU time; None if it cannot be read."""
        split, nanoseconds = self._split.known(), self.usage.known()
        if split is None or nanoseconds is None:
            return split
        self._last_cpu = compute_split(nanoseconds / 1e9, split, self._last_cpu)
        return self._last_cpu

    def peek(self) -> GroupFigures:
        """Return CPU time, peak memory and transfers now, without keeping them.

        Raises OSError and ParseError if a file cannot be read.
        """
        split, nanoseconds = self._split.peek(), self.usage.peek()
        if split is not None and nanoseconds is not None:
            split = compute_split(nanoseconds / 1e9, split, self._last_cpu)
        counters = _count_transfers(self._moved.peek() or {}, self._served.peek() or {})
        self._transfers = self._transfers or bool(counters)  # from now on each sample reads them
        return GroupFigures(MemoryBytes(peak=self._peak.peek()), split, counters)

    def read_by_core(self) -> tuple[int, ...]:
        """Return the nanoseconds of CPU time used on each CPU; empty where not counted."""
        return self._by_core.known() or ()

    def read_memory(self) -> MemoryBytes:
        """Return memory in bytes; None for what cannot be read."""
        parts = self._stat.known() or _NO_MEMORY
        kernel, charged, peak = self._kernel.known(), self.charged.known(), self._peak.known()
        own, with_swap = [each.known(every=RARELY_SAMPLES) for each in self.limits]
        now = own, with_swap, parts.limit, parts.swap_limit
        if now != self._last_read:  # they hardly ever change
            lowest = MemoryLimits(own, with_swap).lowest(MemoryLimits(parts.limit, parts.swap_limit))
            limit, swap = lowest.memory, lowest.swap
            swap = None if limit is None or swap is None else max(0, swap - limit)
            self._last_read, self._limits = now, (own, None if limit == own else limit, swap, None)
        return MemoryBytes(
            *(parts.anon, parts.file, parts.shmem, known_kernel(kernel, parts.anon)),
            *(parts.sock, parts.hugetlb, parts.swap),
            *(charged, parts.reclaimable, *self._limits, peak),
        )

    def read_counters(self, node_kills: int | None) -> dict[Counter, Rows]:
        """Return the group's counts of events and transfers by name, each as rows by device or group.

        `node_kills` is the node's count of OOM kills, as in `MemoryTree.read`.
        """
        counters: dict[Counter, Rows] = {}
        if self.tree is not None:
            counters.update(self.tree.read(node_kills))
        # Most jobs never have a CPU quota.
        self._throttled_usecs = self._throttled.known(every=1 if self._throttled_usecs else RARELY_SAMPLES)
        if self._throttled_usecs is not None:
            counters["throttled"] = {"": (self._throttled_usecs,)}
        every = 1 if self._transfers else RARELY_SAMPLES
        moved, served = self._moved.value_or_absent(every=every), self._served.value_or_absent(every=every)
        self._transfers = moved != {} or served != {}
        if moved is None or served is None:
            counters["block_io"] = None
        # Without a device either nothing was transferred or nothing is counted: since Linux 6.10 the
        # kernel counts here only for disks with a throttling limit.
        elif moved is not ABSENT and served is not ABSENT:
            counters.update(_count_transfers(moved, served))
        return counters


def _count_transfers(
    moved: Mapping[str, tuple[int, int]], served: Mapping[str, tuple[int, int]]
) -> dict[Counter, Rows]:
    if not moved and not served:
        return {}
    none = 0, 0
    return {
        "block_io": {each: (*moved.get(each, none), *served.get(each, none)) for each in {**moved, **served}}
    }
