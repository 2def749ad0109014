"""Looks at the node where the kernel sums what the processes of jobs do: few are read, and seldom."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping

from jobfeatures_exporter.sampling.bpf.reader import KernelSums
from jobfeatures_exporter.sampling.bpf.records import Sums
from jobfeatures_exporter.sampling.descriptors import VANISHED, Unreadable
from jobfeatures_exporter.sampling.hierarchy import JobDirectory
from jobfeatures_exporter.snapshot import KernelChecks

MAX_GAP_LOOKS = 32


class KernelLooks:
    """The kernel's sums look by look, and whose processes are to be read all the same.

    Those of a control group are due at its 1st, 2nd, 4th … then every 32nd look: they tell who waits
    for the job's end, and whose it is where the kernel does not say. A group of which that is not
    known is due at every look.
    """

    def __init__(self, kernel: KernelSums, unreadable: Unreadable) -> None:
        self._kernel = kernel
        self._unreadable = unreadable
        self._due: dict[str, tuple[int, int]] = {}  # by cpu_source: at which look, and the gap before it
        self._look = 0

    @property
    def processes(self) -> int:
        """Return how many processes the latest look has found on the node."""
        return self._kernel.processes

    def sums(self, directories: Collection[JobDirectory]) -> Mapping[str, Sums]:
        """Take a look; return the sums by `cpu_source`, of the control groups that the kernel sums."""
        try:
            self._kernel.look(directories)
        except OSError as error:
            self._unreadable.add("kernel_sums", error)
            return {}
        return {
            each.cpu_source: self._kernel.sums_of(each) for each in directories if self._kernel.counts(each)
        }

    def due(
        self, directories: Iterable[JobDirectory], is_settled: Callable[[JobDirectory], bool]
    ) -> set[int]:
        """Return the processes that are to be read at this look."""
        self._look += 1
        known, self._due = self._due, {}
        found: set[int] = set()
        for each in directories:
            source = each.cpu_source
            due, gap = known.get(source, (self._look, 0))
            if due <= self._look or not is_settled(each):
                for top in self._kernel.paths_of(each):
                    self._list(top, found)
            if due <= self._look:
                gap = min(max(1, 2 * gap), MAX_GAP_LOOKS)
                # Those that were there at the start do not all come due at once for ever.
                spread = sum(each.inodes.values()) % MAX_GAP_LOOKS if gap == MAX_GAP_LOOKS // 2 else 0
                due = self._look + gap + spread
            self._due[source] = due, gap
        return found

    def checks(self) -> KernelChecks | None:
        """Return what the kernel says of its own counting."""
        try:
            return self._kernel.checks()
        except OSError as error:
            self._unreadable.add("kernel_sums", error)
            return None

    def close(self) -> None:
        """End the counting."""
        self._kernel.close()

    def _list(self, top: str, found: set[int]) -> None:
        """Add the processes that are in a control group, or below it."""
        for path, _, _ in os.walk(top):
            try:
                with open(f"{path}/cgroup.procs", encoding="ascii") as file:
                    found.update(map(int, file.read().split()))
            except OSError as error:
                if error.errno not in VANISHED:
                    self._unreadable.add("job_cgroup_procs", error)
        found.discard(0)  # one of another pid namespace
