"""Takes samples when eBPF sums what jobs use: only a few of their processes are read, and rarely."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping

from jobfeatures_exporter.model.snapshot import KernelChecks
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.bpf.reader import KernelSums
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.groups.groupfiles import read_processes
from jobfeatures_exporter.sampling.groups.memorytree import list_directories
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory

MAX_GAP_SAMPLES = 32
NO_GROUPS_BELOW = 2  # link count of a directory without subdirectories
SETTLED_SAMPLES = 4  # from this gap on, processes are no longer expected to change (by exec, or by a move)


class _Due:
    """When the processes of a control group are next due, after which gap, and which they were last."""

    __slots__ = ("counts", "due_at", "gap", "is_again", "pids")

    def __init__(self, due_at: int) -> None:
        self.due_at = due_at
        self.gap = 0
        self.is_again = False  # due once more because the processes had changed
        self.pids: frozenset[int] = frozenset()
        self.counts: tuple[int, int] | None = None  # tasks so far and processes, at the last listing


class KernelSampler:
    """Reads eBPF's sums at each sample, and chooses the control groups whose processes have to be read too.

    A group's processes are due at its 1st, 2nd, 4th … then every 32nd sample. They show which of them to wait
    for, as their end may be the job's, and the job's user if the kernel does not know it. After the 4th
    sample, the group's list of pids is compared with the last one, and the processes are read, in this sample
    and the next, only if the list has changed. Not even the list is read if the kernel counts as many
    processes as before and no new task. A group whose job or user is unknown is due at every sample; any
    other is due early by `list_again`.
    """

    def __init__(self, kernel: KernelSums, unreadable: Unreadable) -> None:
        self._kernel = kernel
        self._unreadable = unreadable
        self._due: dict[str, _Due] = {}  # by unique_name
        self._sums: Mapping[str, Sums] = {}  # likewise, of the latest sample
        self._number = 0

    @property
    def processes(self) -> int:
        """Return how many processes the latest sample found on the node."""
        return self._kernel.processes

    def sums(self, directories: Collection[JobDirectory]) -> Mapping[str, Sums]:
        """Take a sample; return the kernel's sums of these control groups, by `JobDirectory.unique_name`.

        Groups that the kernel does not sum are left out. Empty if the sums cannot be read.
        """
        self._sums = {}
        try:
            self._kernel.look(directories)
        except OSError as error:
            self._unreadable.add("kernel_sums", error)
        else:
            counts, sums_of = self._kernel.counts, self._kernel.sums_of
            self._sums = {each.unique_name: sums_of(each) for each in directories if counts(each)}
        return self._sums

    def due(
        self, directories: Iterable[JobDirectory], is_settled: Callable[[JobDirectory], bool]
    ) -> set[int]:
        """Return the pids of the processes to read in this sample.

        `is_settled` returns whether a group's job and user are known.
        """
        self._number += 1
        known, self._due = self._due, {}
        found: set[int] = set()
        for each in directories:
            due = known.get(each.unique_name) or _Due(self._number)
            self._due[each.unique_name] = due
            if due.due_at > self._number and is_settled(each):
                continue
            sums = self._sums.get(each.unique_name)
            counts = None if sums is None else (sums.figures.tasks, sums.processes)
            is_same = counts is not None and counts == due.counts and due.gap >= SETTLED_SAMPLES
            pids = due.pids if is_same else self._list(each)
            due.counts = counts
            is_new, has_changed = due.gap < SETTLED_SAMPLES or due.is_again, pids != due.pids
            if is_new or has_changed or not is_settled(each):
                found |= pids
            if due.due_at <= self._number:
                due.is_again = has_changed and not is_new
                if due.is_again:
                    due.due_at = self._number + 1
                else:
                    due.gap = min(max(1, 2 * due.gap), MAX_GAP_SAMPLES)
                    # Groups that existed at the start should not all be due in the same sample for ever.
                    spread = sum(each.inodes.values()) % due.gap if due.gap >= SETTLED_SAMPLES else 0
                    due.due_at = self._number + due.gap + spread
            due.pids = pids
        return found

    def list_again(self, sources: Collection[str]) -> None:
        """Have the processes of these groups (`JobDirectory.unique_name`) listed at the next sample.

        Call this if one of them has ended whose end could have been the job's: others may have taken its
        place.
        """
        for each in self._due.keys() & sources:
            self._due[each].due_at, self._due[each].counts = self._number, None

    @property
    def is_settled(self) -> bool:
        """Return whether no group is new, and no group's list of processes has changed when last compared."""
        return all(each.gap >= SETTLED_SAMPLES and not each.is_again for each in self._due.values())

    def checks(self) -> KernelChecks | None:
        """Return how often the eBPF programs could not count something; None if that cannot be read."""
        return self._unreadable.tried("kernel_sums", self._kernel.checks)

    def _list(self, directory: JobDirectory) -> frozenset[int]:
        found: set[int] = set()
        for top in self._kernel.paths_of(directory):
            pending = [top]
            while pending:
                path = pending.pop()
                try:
                    found.update(map(int, read_processes(path).split()))
                    if os.stat(path).st_nlink != NO_GROUPS_BELOW:
                        pending += list_directories(path)
                except OSError as error:
                    self._unreadable.add("job_cgroup_procs", error)
        found.discard(0)  # a process of another pid namespace
        return frozenset(found)
