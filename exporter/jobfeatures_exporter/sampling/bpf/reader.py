"""Reads the kernel's sums by control group, and hands them out by job."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from struct import Struct

from jobfeatures_exporter.sampling.bpf.library import Bpf, Object, Table
from jobfeatures_exporter.sampling.bpf.records import OF_FREEZER, RECORD, GroupSums, Sums
from jobfeatures_exporter.sampling.hierarchy import UNIFIED, JobDirectory, find_hierarchies
from jobfeatures_exporter.snapshot import KernelChecks

OBJECT = f"{os.path.dirname(__file__)}/sums.bpf.o"
MAX_GROUPS = 16384
_HOOKS = ("ends", "freed", "moved", "removed")
_CHECKS = Struct("=4Q")
_NO_ROOM = 0  # the group of charges that found none


class KernelSums:
    """The sums of all jobs. One thread looks; closing it ends the counting."""

    def __init__(
        self, cgroup: str = "/sys/fs/cgroup", *, path: str = OBJECT, max_groups: int = MAX_GROUPS
    ) -> None:
        """Load and attach, and take a look. Raises OSError where that is not possible."""
        tops = find_hierarchies(cgroup)
        self._controller = "cpuacct" if "cpuacct" in tops else UNIFIED
        if self._controller not in tops:
            raise OSError(errno.ENOENT, "no control groups that count CPU time", cgroup)
        self._top = tops[self._controller]
        self._freezer = f"{cgroup}/freezer"
        self._hierarchies = 1 + (self._controller != UNIFIED and os.path.isdir(self._freezer))
        self._ids: dict[str, tuple[int, ...]] = {}  # by cpu_source
        self._sums = GroupSums()
        check_owner(path)
        self._bpf = Bpf()
        self._object = Object(
            self._bpf,
            path,
            constants=int(self._controller == UNIFIED).to_bytes(4, "little"),
            hooks=_HOOKS,
            iterator="look",
            sizes={"groups": max_groups},
        )
        self._table = Table(
            self._bpf, self._object.map("groups"), value_bytes=RECORD.size, max_entries=max_groups
        )
        self._checks_at = self._object.map(".bss")
        try:
            self._table.put(_NO_ROOM, bytes(RECORD.size))
            self.look([])
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """End the counting."""
        self._object.close()

    @property
    def processes(self) -> int:
        """Return how many processes the latest look has found on the node."""
        return self._sums.processes

    def counts(self, directory: JobDirectory) -> bool:
        """Tell whether the kernel sums what the processes of this control group do."""
        return self._controller in directory.inodes

    def look(self, directories: Iterable[JobDirectory]) -> None:
        """Charge all tasks, and read the sums for these control groups of jobs. Raises OSError."""
        known, self._ids = self._ids, {}
        for each in directories:
            ids = known.get(each.cpu_source, ())
            # The freezer's directory may be made a moment after the others.
            self._ids[each.cpu_source] = ids if len(ids) == self._hierarchies else self._find_ids(each)
        self._object.run()
        due = self._sums.update(self._table.read(), {number for ids in self._ids.values() for number in ids})
        for group in due:
            self._table.delete(group)

    def sums_of(self, directory: JobDirectory) -> Sums:
        """Return what the processes of a control group and all below it did, as of the latest look."""
        return self._sums.sums_of(self._ids.get(directory.cpu_source, ()))

    def checks(self) -> KernelChecks:
        """Return what the kernel says of its own counting. Raises OSError."""
        full, without_storage, tails, threads = _CHECKS.unpack(
            self._bpf.lookup(self._checks_at, bytes(4), _CHECKS.size)
        )
        return KernelChecks(full, without_storage, tails, threads, self._object.misses())

    def paths_of(self, directory: JobDirectory) -> list[str]:
        """Return the directories below which the processes of a job are listed."""
        path = directory.groups[self._controller]
        return [path] if self._hierarchies == 1 else [path, f"{self._freezer}{path.removeprefix(self._top)}"]

    def _find_ids(self, directory: JobDirectory) -> tuple[int, ...]:
        """Return by what the kernel knows a control group."""
        if not self.counts(directory):
            return ()
        inode = directory.inodes[self._controller]
        if self._hierarchies == 1:
            return (inode,)
        path = directory.groups[self._controller].removeprefix(self._top)
        try:
            return inode, os.stat(f"{self._freezer}{path}").st_ino | OF_FREEZER
        except OSError:
            return (inode,)


def check_owner(path: str) -> None:
    """Make sure that nobody but root, or us, wrote what the kernel is to run. Raises OSError."""
    found = os.stat(path)
    if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "others may write it", path)
