"""Reads what the kernel has summed by control group (eBPF), and returns the sums of each job."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from itertools import cycle
from struct import Struct

from jobfeatures_exporter.model.snapshot import KernelChecks
from jobfeatures_exporter.sampling.bpf.byjob import FIGURES, OF_FREEZER, RECORD, GroupSums, Sums
from jobfeatures_exporter.sampling.bpf.library import (
    Bpf,
    Table,
    close_all,
    load_object,
    read_misses,
    run_iterator,
)
from jobfeatures_exporter.sampling.descriptors import read_file
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, JobDirectory

OBJECT = f"{os.path.dirname(__file__)}/sums.bpf.o"
MAX_GROUPS = 16384
MAX_GAP_SAMPLES = 64
_HOOKS = ("ends", "freed", "moved", "removed")
_ITERATOR = "look"
_PACKETS = ("received", "sent")
_MAPS = ("groups", "ended", ".bss")
NAMES = (*_HOOKS, *(f"{name}-program" for name in _HOOKS), _ITERATOR, *_MAPS)
_CHECKS = Struct("=4Q")
_NO_ROOM = 0  # the group charged where the map had no room for another


class KernelSums:
    """Loads the eBPF programs that sum what tasks use, and reads their sums for each job.

    Only one thread may call `look`.
    """

    def __init__(
        self,
        cgroup: str = "/sys/fs/cgroup",
        *,
        max_groups: int = MAX_GROUPS,
        kept: Mapping[str, int] | None = None,
        network: bool = False,
    ) -> None:
        """Load and attach the programs, or go on with descriptors `kept` from a former process.

        With `network`, packets are counted too; `no_network` says why they are not, "" if they are.
        Raises OSError if that fails.
        """
        tops = find_hierarchies(cgroup)
        self._controller = "cpuacct" if "cpuacct" in tops else UNIFIED
        if self._controller not in tops:
            raise OSError(errno.ENOENT, "no hierarchy of control groups counts CPU time", cgroup)
        self._top = tops[self._controller]
        self._freezer = f"{cgroup}/freezer"
        self._hierarchies = 1 + (self._controller != UNIFIED and os.path.isdir(self._freezer))
        self._ids: dict[str, tuple[int, ...]] = {}  # by source
        self._misses: dict[str, int] = {}
        self._turns = cycle(_HOOKS)
        self._sought: dict[str, int] = {}  # attempts by source, while not all its groups are found
        self._bpf = Bpf()
        self.descriptors: dict[str, int] = {}  # by name: what a successor process needs to continue
        self.goes_on = False
        self.no_network: str | None = None
        if network:
            try:
                self._begin(max_groups, kept or {}, _PACKETS)
                self.no_network = ""
            except OSError as error:
                self.no_network = describe(error)
        if not self.descriptors:
            self._begin(max_groups, kept or {}, ())
        try:
            self._groups = self._table("groups", RECORD.size, max_groups)
            self._ended = self._table("ended", FIGURES.size, MAX_GROUPS)
            if not self.goes_on:
                self._groups.put(_NO_ROOM, bytes(RECORD.size))
            self._written = {key: FIGURES.unpack(value) for key, value in self._ended.read()}
            self._sums = GroupSums(self._written)
            self.try_out()
        except OSError:
            self.close()
            raise

    def _begin(self, max_groups: int, kept: Mapping[str, int], packets: tuple[str, ...]) -> None:
        if packets and self._controller != UNIFIED:
            raise OSError(
                errno.EOPNOTSUPP, "packets can be counted in control groups v2 only, but jobs are in v1"
            )
        names = {*NAMES, *packets}
        self.goes_on = names <= kept.keys()
        if self.goes_on:
            self.descriptors = {name: kept[name] for name in names}
            return
        check_owner(OBJECT)
        self.descriptors = load_object(
            self._bpf,
            OBJECT,
            constants=int(self._controller == UNIFIED).to_bytes(4, "little"),
            hooks=_HOOKS,
            iterator=_ITERATOR,
            packets=_PACKETS,
            group=self._top if packets else None,
            maps=dict.fromkeys(_MAPS, 0) | {"groups": max_groups},
        )

    def _table(self, name: str, value_bytes: int, max_entries: int) -> Table:
        return Table(self._bpf, self.descriptors[name], value_bytes=value_bytes, max_entries=max_entries)

    def close(self) -> None:
        """Close all descriptors: the kernel stops counting unless another process has them open."""
        close_all(self.descriptors)
        self.descriptors = {}

    def try_out(self) -> None:
        """Read all sums like a sample does and discard them. Raises OSError if that does not work."""
        run_iterator(self._bpf, self.descriptors[_ITERATOR])
        for _ in self._groups.read():
            pass

    @property
    def processes(self) -> int:
        """Return how many processes the latest sample found on the node."""
        return self._sums.processes

    def counts(self, directory: JobDirectory) -> bool:
        """Return whether the kernel sums what the processes of this job's control group use."""
        return self._controller in directory.inodes

    def look(self, directories: Iterable[JobDirectory]) -> None:
        """Take a sample: have the kernel charge what all tasks have used up to now, then read its sums.

        `directories` are the control groups of all jobs. Raises OSError if that fails.
        """
        known, self._ids = self._ids, {}
        for each in directories:
            source = each.source(self._controller)
            ids = known.get(source, ())
            if len(ids) < self._hierarchies and self._is_to_seek(source):
                ids = self._find_ids(each)
            self._ids[source] = ids
        if len(self._sought) > len(self._ids):
            self._sought = {source: count for source, count in self._sought.items() if source in self._ids}
        run_iterator(self._bpf, self.descriptors[_ITERATOR])
        due = self._sums.update(self._groups.read(), {number for ids in self._ids.values() for number in ids})
        self._write_ended()
        for group in due:
            self._groups.delete(group)

    def _write_ended(self) -> None:
        """Write sums of removed groups, whose records are deleted, to the map for a successor process."""
        gone = self._sums.gone
        if gone == self._written:
            return
        for job, figures in gone.items():
            if self._written.get(job) != figures:
                self._ended.put(job, FIGURES.pack(*figures))
        for job in self._written.keys() - gone.keys():
            self._ended.delete(job)
        self._written = dict(gone)

    def sums_of(self, directory: JobDirectory) -> Sums:
        """Return the sums of a job's control group and all groups below it, as of the latest sample."""
        return self._sums.sums_of(self._ids.get(directory.source(self._controller), ()))

    def checks(self) -> KernelChecks:
        """Return how often the eBPF programs could not count something. Raises OSError if that fails."""
        full, without_storage, tails, threads = _CHECKS.unpack(
            self._bpf.lookup(self.descriptors[".bss"], bytes(4), _CHECKS.size)
        )
        name = next(self._turns)  # one program per call: the sum may lag, which is good enough
        self._misses[name] = read_misses(self._bpf, self.descriptors[f"{name}-program"])
        return KernelChecks(full, without_storage, tails, threads, sum(self._misses.values()))

    def paths_of(self, directory: JobDirectory) -> list[str]:
        """Return directories whose ``cgroup.procs`` files together list all processes of a job's group."""
        return find_lists(directory, "" if self._hierarchies == 1 else self._freezer)

    def _is_to_seek(self, source: str) -> bool:
        """Return whether to look for the freezer group now, which is created after the others or never."""
        count = self._sought[source] = self._sought.get(source, 0) + 1
        return count & (count - 1) == 0 or count % MAX_GAP_SAMPLES == 0

    def _find_ids(self, directory: JobDirectory) -> tuple[int, ...]:
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


def find_lists(directory: JobDirectory, freezer: str) -> list[str]:
    """Return directories whose ``cgroup.procs`` files together list all processes of a job.

    One is any of the job's directories. Unless `freezer` is "", another is the directory at the same path
    below `freezer`, the root of v1's freezer hierarchy: some of a job's processes may be in no other group of
    the job.
    """
    any_of_them = next(iter(directory.groups.values()))
    beside = f"{freezer}{directory.path}"
    return [any_of_them, beside] if freezer and any_of_them != beside else [any_of_them]


def digest_of() -> str:
    """Return 16 hexadecimal digits that identify the BPF object file. Raises OSError if it is unreadable."""
    return hashlib.sha256(read_file(OBJECT)).hexdigest()[:16]


def describe(error: OSError) -> str:
    """Return an error as ``PATH: REASON``, for a metric's label; only ``REASON`` if it has no path."""
    where = error.filename if isinstance(error.filename, str) else ""
    reason = error.strerror or str(error)
    return f"{where}: {reason}" if where else reason


def check_owner(path: str) -> None:
    """Raise OSError if anybody but root and our own user may write the file, which the kernel is to run."""
    found = os.stat(path)
    if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "writable by others (chmod go-w)", path)
