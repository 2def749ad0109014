"""What the kernel counts for the control groups of jobs.

Everything is read at the job's own level, which includes its steps, but for
the events of memory on v1, see `memorytree`. Files that a kernel or a
configuration does not have are left out silently; failures are counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.accumulate import CpuTimes
from jobfeatures_exporter.sampling.cgroupfiles import (
    compute_split,
    parse_cpu_stat,
    parse_cpuacct_stat,
    parse_limit,
    parse_memory_stat_v1,
    parse_memory_stat_v2,
    parse_number,
    parse_throttled,
)
from jobfeatures_exporter.sampling.counterfiles import (
    parse_blkio,
    parse_core_usage,
    parse_cpu_list,
    parse_io_stat,
    parse_memory_events,
    parse_pressure,
)
from jobfeatures_exporter.sampling.descriptors import VANISHED, DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groupfiles import ABSENT, GroupFiles
from jobfeatures_exporter.sampling.hierarchy import (
    UNIFIED,
    JobDirectory,
    find_hierarchies,
    list_job_directories,
)
from jobfeatures_exporter.sampling.ledger import Counter, Rows
from jobfeatures_exporter.sampling.memorytree import MemoryTree, NodeKills
from jobfeatures_exporter.sampling.procfs import RESOURCES, TICKS_PER_SEC
from jobfeatures_exporter.snapshot import MemoryBytes

SHARES = ("some", "full")
RARELY_LOOKS = 8  # for limits and sets of CPUs, and for transfers that a kernel does not count
_EVENTS = {"oom_kills": "oom_kill", "limit_hits": "max"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """A job directory's figures; None: unreadable or not there. `counters` lack what is not there."""

    cpu: CpuTimes | None = None
    memory: MemoryBytes
    counters: Mapping[Counter, Rows] = field(default_factory=dict)
    cpus: frozenset[int] | None = None  # of its cpuset

    def merged(self, earlier: JobFigures) -> JobFigures:
        """Return these figures, none of which is lower than before; what is no longer there is as it was."""
        cpu, memory = self.cpu or earlier.cpu, self.memory
        if self.cpu is not None and earlier.cpu is not None:
            cpu = CpuTimes(
                max(self.cpu.user_secs, earlier.cpu.user_secs),
                max(self.cpu.system_secs, earlier.cpu.system_secs),
            )
        if memory == MemoryBytes():
            memory = earlier.memory
        elif earlier.memory.peak is not None:
            memory = replace(memory, peak=max(memory.peak or 0, earlier.memory.peak))
        counters = {
            counter: _merge_rows(self.counters.get(counter), earlier.counters.get(counter))
            for counter in self.counters.keys() | earlier.counters.keys()
        }
        return JobFigures(cpu=cpu, memory=memory, counters=counters, cpus=self.cpus or earlier.cpus)


def _merge_rows(now: Rows, earlier: Rows) -> Rows:
    if now is None or earlier is None:
        return now or earlier
    both = {source: tuple(map(max, now[source], earlier[source])) for source in now.keys() & earlier.keys()}
    return {**earlier, **now, **both}


class JobCgroup:
    """Reads one job directory, or that of a step, again and again."""

    def __init__(
        self,
        directory: JobDirectory,
        budget: DescriptorBudget,
        unreadable: Unreadable,
        kills: NodeKills | None = None,
    ) -> None:
        self.directory = directory
        self.heard: JobFigures | None = None  # read beside the looks since the last one
        self.has_gone = False
        self._groups = directory.groups
        # What is read rarely is not read of all groups at the same look.
        self._files = GroupFiles(budget, unreadable, first_look=sum(directory.inodes.values()) % RARELY_LOOKS)
        # What says the same while nothing happens: memory, then CPU time.
        top = directory.groups.get
        self._still = (
            f"{top('memory')}/memory.usage_in_bytes" if top("memory") else f"{top(UNIFIED)}/memory.current",
            f"{top('cpuacct')}/cpuacct.usage" if top("cpuacct") else f"{top(UNIFIED)}/cpu.stat",
        )
        self._last_cpu = CpuTimes(0.0, 0.0)
        self._transfers = True  # whether blkio has reported any
        self._throttled_usecs: int | None = None
        self._memory_tree: MemoryTree | None = None
        if "memory" in directory.groups:
            self._memory_tree = MemoryTree(
                directory.groups["memory"], self._files, unreadable, kills or NodeKills()
            )

    @property
    def counts_cpu(self) -> bool:
        """Return whether the kernel counts CPU time for this job at all."""
        return "cpuacct" in self._groups or UNIFIED in self._groups

    @property
    def counts_memory(self) -> bool:
        """Return whether the kernel counts memory for this job at all."""
        return "memory" in self._groups or UNIFIED in self._groups

    def is_there(self) -> bool:
        """Return whether one of its directories still exists."""
        return any(os.path.isdir(path) for path in self._groups.values())

    def read(self) -> JobFigures:
        """Read all figures; of a group that has gone return what was heard last."""
        heard, self.heard = self.heard, None
        if self.has_gone:  # another group may have its path by now
            return heard or JobFigures(memory=MemoryBytes())
        cpu, memory = self.read_use()
        figures = JobFigures(cpu=cpu, memory=memory, counters=self._read_counters(), cpus=self._read_cpus())
        return figures if heard is None else figures.merged(heard)

    def read_use(self) -> tuple[CpuTimes | None, MemoryBytes]:
        """Begin a new look and read CPU time and memory only."""
        self._files.begin_look()
        groups = self._groups
        if UNIFIED in groups and "memory" not in groups and "cpuacct" not in groups:
            top = groups[UNIFIED]
            said = self._files.read_known(
                f"{top}/cpu.stat", lambda text: (parse_cpu_stat(text), parse_throttled(text))
            )
            cpu, self._throttled_usecs = (None, None) if said is None else said
            return cpu, self._read_memory_v2(top)
        return (
            self._read_cpu_v1(groups["cpuacct"]) if "cpuacct" in groups else None,
            self._read_memory_v1(groups["memory"]) if "memory" in groups else MemoryBytes(),
        )

    def stands_still(self, *, cpu: bool) -> bool:
        """Tell whether as much memory is charged as at the last look; never at each `RARELY_LOOKS`th.

        With `cpu` also whether no CPU time has been used.
        """
        if self.has_gone or self.heard is not None:
            return False
        paths = self._still if cpu else self._still[:1]
        return self._files.are_same(paths, every=RARELY_LOOKS)

    def read_core_usage(self) -> tuple[int, ...]:
        """Return nanoseconds by CPU; empty where they are not counted, as on v2."""
        if "cpuacct" not in self._groups or self.has_gone:
            return ()
        return (
            self._files.read_known(f"{self._groups['cpuacct']}/cpuacct.usage_percpu", parse_core_usage) or ()
        )

    def close(self) -> None:
        """Close the descriptors."""
        self._files.close()

    def _read_cpu_v1(self, path: str) -> CpuTimes | None:
        split = self._files.read_known(
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
        components = self._files.read_known(f"{path}/memory.stat", parse_memory_stat_v1) or MemoryBytes()
        limit = self._read_limit(f"{path}/memory.limit_in_bytes")
        both = self._read_limit(f"{path}/memory.memsw.limit_in_bytes")
        return replace(
            components,
            kernel=self._read_number(f"{path}/memory.kmem.usage_in_bytes"),
            charged=self._read_number(f"{path}/memory.usage_in_bytes"),
            limit=limit,
            swap_limit=None if limit is None or both is None else max(0, both - limit),
            peak=self._read_number(f"{path}/memory.max_usage_in_bytes"),
        )

    def _read_memory_v2(self, path: str) -> MemoryBytes:
        components = self._files.read_known(f"{path}/memory.stat", parse_memory_stat_v2) or MemoryBytes()
        return replace(
            components,
            swap=self._read_number(f"{path}/memory.swap.current"),
            charged=self._read_number(f"{path}/memory.current"),
            limit=self._read_limit(f"{path}/memory.max"),
            swap_limit=self._read_limit(f"{path}/memory.swap.max"),
            peak=self._read_number(f"{path}/memory.peak"),  # since Linux 5.19
        )

    def _read_counters(self) -> dict[Counter, Rows]:
        counters: dict[Counter, Rows] = {}
        if self._memory_tree is not None:
            counters.update(self._memory_tree.read())
        if "blkio" in self._groups:
            counters.update(self._read_block_io_v1(f"{self._groups['blkio']}/blkio.throttle."))
        if "cpu" in self._groups:
            # Most jobs have no quota, and never will.
            every = 1 if self._throttled_usecs else RARELY_LOOKS
            self._throttled_usecs = self._files.read_known(
                f"{self._groups['cpu']}/cpu.stat", parse_throttled, every=every
            )
        if self._throttled_usecs is not None:
            counters["throttled"] = {"": (self._throttled_usecs,)}
        if UNIFIED not in self._groups:
            return counters
        top = self._groups[UNIFIED]
        if "memory" not in self._groups:
            events = self._files.read(f"{top}/memory.events", parse_memory_events)
            for counter, name in _EVENTS.items():
                if events is None:
                    counters[counter] = None
                elif events is not ABSENT and name in events:
                    counters[counter] = {"": (events[name],)}
        if "blkio" not in self._groups:
            devices = self._files.read(f"{top}/io.stat", parse_io_stat)
            if devices is not ABSENT:
                counters["block_io"] = devices
        for resource in RESOURCES:
            counters.update(self._read_pressure(top, resource))
        return counters

    def _read_block_io_v1(self, prefix: str) -> dict[str, Rows]:
        every = 1 if self._transfers else RARELY_LOOKS
        name = f"{prefix}io_service_bytes_recursive"
        moved = self._files.read(
            name, lambda text: parse_blkio(text, source="blkio io_service_bytes"), every=every
        )
        name = f"{prefix}io_serviced_recursive"
        served = self._files.read(
            name, lambda text: parse_blkio(text, source="blkio io_serviced"), every=every
        )
        self._transfers = moved != {} or served != {}
        if moved is None or served is None:
            return {"block_io": None}
        # Without a device either nothing was moved or nothing is counted: since Linux 6.10 the kernel
        # counts here for disks only that somebody has set a limit of transfers on.
        if moved is ABSENT or served is ABSENT or not (moved or served):
            return {}
        rows: Rows = {
            device: (*moved.get(device, (0, 0)), *served.get(device, (0, 0))) for device in moved | served
        }
        return {"block_io": rows}

    def _read_pressure(self, top: str, resource: str) -> dict[Counter, Rows]:
        name = f"{resource}.pressure"
        said = self._files.read(f"{top}/{name}", lambda text: parse_pressure(text, source=name))
        if said is ABSENT:
            return {}
        if said is None:
            return {(resource, share): None for share in SHARES}
        return {(resource, share): {"": (said[share],)} for share in said}

    def _read_cpus(self) -> frozenset[int] | None:
        """Return the CPUs that are in effect; before Linux 3.17 v1 has those that were asked for only."""
        if "cpuset" not in self._groups:
            top = self._groups.get(UNIFIED)
            return self._read_cpu_list(f"{top}/cpuset.cpus.effective") or None if top is not None else None
        top = self._groups["cpuset"]
        return (
            self._read_cpu_list(f"{top}/cpuset.effective_cpus")
            or self._read_cpu_list(f"{top}/cpuset.cpus")
            or None
        )

    def _read_cpu_list(self, path: str) -> frozenset[int] | None:
        source = os.path.basename(path)
        return self._files.read_known(
            path, lambda text: parse_cpu_list(text, source=source), every=RARELY_LOOKS
        )

    def _read_number(self, path: str) -> int | None:
        return self._files.read_known(path, lambda text: parse_number(text, source=os.path.basename(path)))

    def _read_limit(self, path: str) -> int | None:
        return self._files.read_known(
            path, lambda text: parse_limit(text, source=os.path.basename(path)), every=RARELY_LOOKS
        )


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
        self.gone: list[JobCgroup] = []  # since the last update; closed
        self.have_changed = False  # in the last update
        self.kills = NodeKills()

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
            listed = {path: each.directory for path, each in self._known.items()}
            found, complete = list_job_directories(
                hierarchies, self._unreadable, prefix=self._prefix, known=listed
            )
        self.gone = []
        self.have_changed = False
        directories = {each.path: each for each in found if wanted(each.membership)}
        for path, known in list(self._known.items()):
            there = directories.get(path)
            if (
                there is known.directory
                or there == known.directory
                or (there is None and not complete and known.is_there())
            ):
                continue
            known.close()
            known.has_gone = True
            self.gone.append(self._known.pop(path))
            self.have_changed = True
        for path, directory in directories.items():
            if path not in self._known:
                self.have_changed = True
                self._known[path] = JobCgroup(directory, self._budget, self._unreadable, self.kills)

    def close(self) -> None:
        """Close all descriptors."""
        for each in self._known.values():
            each.close()
        self._known.clear()
