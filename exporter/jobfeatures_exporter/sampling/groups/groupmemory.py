"""The memory of one job's control group: its files, and limits above it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from jobfeatures.records.combining import sum_all
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.groups.groupfiles import NO_FILE, GroupFile, GroupFiles
from jobfeatures_exporter.sampling.groups.limitsabove import (
    LIMITS_V2,
    NO_LIMITS,
    RARELY_LOOKS,
    Limits,
    LimitsAbove,
)
from jobfeatures_exporter.sampling.host.hugepages import name_size
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, JobDirectory
from jobfeatures_exporter.sampling.parsers.cgroupfiles import (
    parse_limit,
    parse_memory_stat_v1,
    parse_memory_stat_v2,
    parse_number,
)

# Kernel memory, charged memory, its peak; then the limits of memory, and of memory and swap together.
_V1 = (
    *("memory.kmem.usage_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes"),
    *("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
)
# Swap in use, charged memory, its peak (since Linux 5.19); then the limits.
_V2 = ("memory.swap.current", "memory.current", "memory.peak", *LIMITS_V2)
_NO_MEMORY = MemoryBytes()


class GroupMemory:
    """Reads the memory of a group. On v2 `other` (swap; on v1 kernel memory) and `peak` take turns."""

    def __init__(self, directory: JobDirectory, files: GroupFiles, above: LimitsAbove | None) -> None:
        """Open nothing yet. `above` has the limits of what is above the group; None: they do not count."""
        groups = directory.groups
        is_v2 = "memory" not in groups  # also where v1 has other controllers
        top = groups.get("memory") or groups.get(UNIFIED)
        names, parse = (_V2, parse_memory_stat_v2) if is_v2 else (_V1, parse_memory_stat_v1)
        self._is_v2 = is_v2
        self._stat = NO_FILE if top is None else files.file(f"{top}/memory.stat", parse)
        amounts = [
            NO_FILE if top is None else files.file(f"{top}/{each}", parse_number) for each in names[:3]
        ]
        self.other, self.charged, self.peak = amounts
        self.limits: list[GroupFile[int | None]] = [
            NO_FILE if top is None else files.file(f"{top}/{each}", parse_limit) for each in names[3:]
        ]
        self._above = above if is_v2 else None
        # With the root, which has limits in a container.
        self._place = os.path.dirname(groups.get(UNIFIED, "")), directory.path.count("/")
        self._said: tuple[list[int | None], Limits, int | None, int | None] = [], Limits(), None, None
        self._limits: tuple[int | None, ...] = (None,) * 4  # as of what was said
        self._files = files
        figure = "usage_in_bytes" if "hugetlb" in groups else "current"
        self._counted_as = groups.get("hugetlb") or groups.get(UNIFIED), figure
        self._huge_pages: dict[int, GroupFile[int]] = {}  # by size of page

    def read(self) -> MemoryBytes:
        """Return what can be read."""
        parts = self._stat.known() or _NO_MEMORY
        other, charged, peak = self.other.known(), self.charged.known(), self.peak.known()
        limits = [each.known(every=RARELY_LOOKS) for each in self.limits]
        said = (limits, self._find_above(), parts.limit, parts.swap_limit)
        if said != self._said:  # they hardly ever change
            self._said, self._limits = said, self._compute_limits(Limits(*limits), *said[1:])
        if self._is_v2 and peak is not None and charged is not None:
            peak = max(peak, charged)  # which may have risen since the peak was read
        kernel, swap = (parts.kernel, other) if self._is_v2 else (other, parts.swap)
        return MemoryBytes(
            *(parts.anon, parts.file, parts.shmem, kernel, parts.sock, parts.hugetlb, swap),
            *(charged, parts.reclaimable, *self._limits, peak),
        )

    def _compute_limits(
        self, own: Limits, above: Limits, of_all: int | None, with_swap: int | None
    ) -> tuple[int | None, int | None, int | None, int | None]:
        """Return the fields `limit`, `limit_above`, `swap_limit` and `high`; v1 has the lowest `of_all`."""
        lowest = own.lowest(above).lowest(Limits(of_all, with_swap))
        limit, swap = lowest.memory, lowest.swap
        if not self._is_v2:  # there the second limit is that of memory and swap together
            swap = None if limit is None or swap is None else max(0, swap - limit)
        return own.memory, None if limit == own.memory else limit, swap, lowest.high

    def has_new_limits_above(self) -> bool:
        """Return whether a limit above has changed since the last reading."""
        return self._find_above() != self._said[1]

    def read_huge_pages(self, sizes: Iterable[int]) -> int | None:
        """Return the bytes in huge pages of these sizes; None where groups do not count them."""
        top, figure = self._counted_as
        for size in sizes if top is not None else ():
            if size not in self._huge_pages:
                path = f"{top}/hugetlb.{name_size(size)}.{figure}"
                self._huge_pages[size] = self._files.file(path, parse_number)
        return sum_all([self._huge_pages.get(size, NO_FILE).known() for size in sizes])

    def _find_above(self) -> Limits:
        return NO_LIMITS if self._above is None else self._above.of(*self._place)
