"""What the kernel counts for the control groups of jobs.

Everything is read at the job's own level, which includes its steps. Files that
a kernel or a configuration does not have are left out silently; failures are
counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from exporter.sampling.accumulate import CpuTimes
from exporter.sampling.attribution import Membership
from exporter.sampling.cgroupfiles import (
    compute_split,
    parse_cpu_stat,
    parse_cpuacct_stat,
    parse_limit,
    parse_memory_stat_v1,
    parse_memory_stat_v2,
    parse_number,
)
from exporter.sampling.descriptors import VANISHED, DescriptorBudget, KeptFile, Unreadable
from exporter.sampling.hierarchy import JobDirectory, find_hierarchies, list_job_directories
from exporter.sampling.procfs import TICKS_PER_SEC
from exporter.snapshot import MemoryBytes
from jobfeatures.errors import ParseError

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """What the kernel counts for one job directory; None is unreadable or not there."""

    cpu: CpuTimes | None = None
    memory: MemoryBytes


class JobCgroup:
    """Reads one job directory again and again."""

    def __init__(self, directory: JobDirectory, budget: DescriptorBudget, unreadable: Unreadable) -> None:
        self.directory = directory
        self._budget = budget
        self._unreadable = unreadable
        self._files: dict[str, KeptFile] = {}
        self._last_cpu = CpuTimes(0.0, 0.0)

    @property
    def counts_cpu(self) -> bool:
        """Tell whether the kernel counts CPU time for this job at all."""
        return self.directory.cpuacct is not None or self.directory.unified is not None

    @property
    def counts_memory(self) -> bool:
        """Tell whether the kernel counts memory for this job at all."""
        return self.directory.memory is not None or self.directory.unified is not None

    def is_there(self) -> bool:
        """Tell whether one of its directories still exists."""
        directory = self.directory
        paths = (directory.cpuacct, directory.memory, directory.unified)
        return any(path is not None and os.path.isdir(path) for path in paths)

    def read(self) -> JobFigures:
        """Read all figures."""
        directory = self.directory
        if directory.unified is not None and directory.memory is None and directory.cpuacct is None:
            return JobFigures(
                cpu=self._read(f"{directory.unified}/cpu.stat", parse_cpu_stat),
                memory=self._read_memory_v2(directory.unified),
            )
        return JobFigures(
            cpu=None if directory.cpuacct is None else self._read_cpu_v1(directory.cpuacct),
            memory=MemoryBytes() if directory.memory is None else self._read_memory_v1(directory.memory),
        )

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _read_cpu_v1(self, path: str) -> CpuTimes | None:
        split = self._read(
            f"{path}/cpuacct.stat", lambda text: parse_cpuacct_stat(text, ticks_per_sec=TICKS_PER_SEC)
        )
        nanoseconds = self._read_number(f"{path}/cpuacct.usage")
        if split is None:
            return None
        if nanoseconds is None:
            return split
        self._last_cpu = compute_split(nanoseconds / 1e9, split, self._last_cpu)
        return self._last_cpu

    def _read_memory_v1(self, path: str) -> MemoryBytes:
        components = self._read(f"{path}/memory.stat", parse_memory_stat_v1) or MemoryBytes()
        return replace(
            components,
            kernel=self._read_number(f"{path}/memory.kmem.usage_in_bytes"),
            charged=self._read_number(f"{path}/memory.usage_in_bytes"),
            limit=self._read_limit(f"{path}/memory.limit_in_bytes"),
            peak=self._read_number(f"{path}/memory.max_usage_in_bytes"),
        )

    def _read_memory_v2(self, path: str) -> MemoryBytes:
        components = self._read(f"{path}/memory.stat", parse_memory_stat_v2) or MemoryBytes()
        return replace(
            components,
            swap=self._read_number(f"{path}/memory.swap.current"),
            charged=self._read_number(f"{path}/memory.current"),
            limit=self._read_limit(f"{path}/memory.max"),
            peak=self._read_number(f"{path}/memory.peak"),  # since Linux 5.19
        )

    def _read_number(self, path: str) -> int | None:
        return self._read(path, lambda text: parse_number(text, source=os.path.basename(path)))

    def _read_limit(self, path: str) -> int | None:
        return self._read(path, lambda text: parse_limit(text, source=os.path.basename(path)))

    def _read(self, path: str, parse: Callable[[str], Parsed]) -> Parsed | None:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = KeptFile(path, self._budget)
        try:
            return parse(file.read().decode("ascii", "replace"))
        except (OSError, ParseError) as error:
            self._unreadable.add(f"job_{os.path.basename(path).replace('.', '_')}", error)
            return None


class JobCgroups:
    """The control groups of all jobs on the node, from one look to the next."""

    def __init__(
        self, root: str, budget: DescriptorBudget, unreadable: Unreadable, *, prefix: str = ""
    ) -> None:
        self._root = root
        self._prefix = prefix
        self._budget = budget
        self._unreadable = unreadable
        self._known: dict[str, JobCgroup] = {}

    def __iter__(self) -> Iterator[JobCgroup]:
        return iter(self._known.values())

    def update(self, wanted: Callable[[Membership], bool]) -> None:
        """List the directories anew, those that are `wanted`; forget what has gone."""
        found: Collection[JobDirectory] = ()
        complete = True
        try:
            hierarchies = find_hierarchies(self._root)
        except OSError as error:
            self._unreadable.add("cgroup_hierarchies", error)
            complete = error.errno in VANISHED
        else:
            found, complete = list_job_directories(hierarchies, self._unreadable, prefix=self._prefix)
        directories = {each.path: each for each in found if wanted(each.membership)}
        for path, known in list(self._known.items()):
            there = directories.get(path)
            if there == known.directory or (there is None and not complete and known.is_there()):
                continue
            known.close()
            del self._known[path]
        for path, directory in directories.items():
            if path not in self._known:
                self._known[path] = JobCgroup(directory, self._budget, self._unreadable)

    def close(self) -> None:
        """Close all descriptors."""
        for each in self._known.values():
            each.close()
        self._known.clear()
