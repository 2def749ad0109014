"""What the kernel counts for the control groups of jobs.

Everything is read at the job's own level, which includes its steps, except memory events on v1, see
`memorytree`. Files that a kernel or configuration does not provide are omitted; failures are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groups.figures import JobFigures
from jobfeatures_exporter.sampling.groups.freezing import Freezing
from jobfeatures_exporter.sampling.groups.groupfiles import ABSENT, NO_FILE, GroupFile, GroupFiles
from jobfeatures_exporter.sampling.groups.groupmemory import GroupMemory
from jobfeatures_exporter.sampling.groups.ledger import Counter, Rows
from jobfeatures_exporter.sampling.groups.limitsabove import RARELY_LOOKS, LimitsAbove
from jobfeatures_exporter.sampling.groups.memorytree import MemoryTree
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.groups.turns import Turns
from jobfeatures_exporter.sampling.host.units import RESOURCES, TICKS_PER_SEC
from jobfeatures_exporter.sampling.layout.hierarchy import (
    Listings,
    are_same,
    find_hierarchies,
    list_job_directories,
)
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, GroupList, JobDirectory
from jobfeatures_exporter.sampling.parsers.cgroupfiles import (
    NO_CPU_TIME,
    CpuTimes,
    compute_split,
    parse_cpu_stat,
    parse_cpuacct_stat,
    parse_number,
    parse_throttled,
)
from jobfeatures_exporter.sampling.parsers.counterfiles import (
    parse_blkio,
    parse_core_usage,
    parse_cpu_list,
    parse_io_stat,
    parse_memory_events,
    parse_pressure,
)

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.layout.hierarchies import Places

SHARES = ("some", "full")
STILL_LOOKS = 64  # every so many samples a job is read in full even if none of its threads has run
_EVENTS = {"oom_kills": "oom_kill", "ooms": "oom", "limit_hits": "max", "high_hits": "high"}
# The CPUs in effect; before Linux 3.17, v1 has only the requested ones.
_CPUS_V1 = ("cpuset.effective_cpus", "cpuset.cpus")
_CPUS_V2 = ("cpuset.cpus.effective",)
_NO_MEMORY = MemoryBytes()
_parse_split = partial(parse_cpuacct_stat, ticks_per_sec=TICKS_PER_SEC)

Parsed = TypeVar("Parsed")


class JobCgroup:
    """Reads one job directory, or that of a step, at each sample.

    Given the node's signs, most files of v2 are only read when they may have changed, see `turns`; else
    all are.
    """

    def __init__(
        self,
        directory: JobDirectory,
        budget: DescriptorBudget,
        unreadable: Unreadable,
        above: LimitsAbove | None = None,
    ) -> None:
        """Open nothing yet. `above` has the limits of what is above the group; None: they do not count."""
        self.directory = directory
        self._groups = groups = directory.groups
        # The offset spreads rare reads of different groups over different samples.
        self._files = GroupFiles(budget, unreadable, first_look=sum(directory.inodes.values()) % STILL_LOOKS)
        self._last_cpu = NO_CPU_TIME
        self._transfers = True  # whether blkio has reported any
        self._throttled_usecs: int | None = None
        self._is_v2 = UNIFIED in groups and "memory" not in groups and "cpuacct" not in groups
        self._cpu_stat = self._file(UNIFIED if self._is_v2 else "", "cpu.stat", parse_cpu_stat)
        self._cpu_split = self._file("cpuacct", "cpuacct.stat", _parse_split)
        self._cpu_usage = self._file("cpuacct", "cpuacct.usage", parse_number)
        self._core_usage = self._file("cpuacct", "cpuacct.usage_percpu", parse_core_usage)
        self._throttled = self._file("cpu", "cpu.stat", parse_throttled)
        self._memory = GroupMemory(directory, self._files, above)
        self._moved = self._file("blkio", "blkio.throttle.io_service_bytes_recursive", parse_blkio)
        self._served = self._file("blkio", "blkio.throttle.io_serviced_recursive", parse_blkio)
        self._events = self._file(
            UNIFIED if "memory" not in groups else "", "memory.events", parse_memory_events
        )
        self._io_stat = self._file(UNIFIED if "blkio" not in groups else "", "io.stat", parse_io_stat)
        self._pressures = [
            (each, self._file(UNIFIED, f"{each}.pressure", parse_pressure)) for each in RESOURCES
        ]
        kind, sets = ("cpuset", _CPUS_V1) if "cpuset" in groups else (UNIFIED, _CPUS_V2)
        self._cpus = [self._file(kind, name, parse_cpu_list) for name in sets]
        self._still = self._cpu_usage if "cpuacct" in groups else self._cpu_stat
        # What may change while a job sleeps: its limits, and data it wrote earlier reaches storage.
        self._rare: list[GroupFile[Any]] = [*self._memory.limits, *self._cpus, self._io_stat]
        self._memory_tree: MemoryTree | None = None
        if "memory" in groups:
            self._memory_tree = MemoryTree(groups["memory"], self._files, unreadable)
        self._turns: Turns | None = None
        if self._is_v2:
            memory = self._memory
            files: list[GroupFile[Any]] = [self._events, memory.peak, memory.other, self._io_stat]
            self._turns = Turns([*files, *(file for _, file in self._pressures)])
        self.freezing = Freezing(directory, self._files, unreadable)
        self._node_kills: int | None = None  # at the last sample
        self._is_at_rest = False  # whether nothing has happened since the last sample, but files wait

    def _file(self, controller: str, name: str, parse: Callable[[str], Parsed]) -> GroupFile[Parsed]:
        """Return a file of the group in a hierarchy; `NO_FILE` where the group is not in that hierarchy."""
        top = self._groups.get(controller)
        return NO_FILE if top is None else self._files.file(f"{top}/{name}", parse)

    @property
    def has_lost(self) -> bool:
        """Return whether a group below the memory group was removed unread before the last reading."""
        return self._memory_tree is not None and self._memory_tree.has_lost

    def read(self, signs: NodeSigns | None = None) -> JobFigures:
        """Read all figures."""
        cpu, memory = self.read_use(signs)
        counters = self._read_counters(None if signs is None else signs.kills)
        cpus = next((found for each in self._cpus if (found := each.known(every=RARELY_LOOKS))), None)
        return JobFigures(memory, cpu, counters, cpus)

    def read_use(self, signs: NodeSigns | None = None) -> tuple[CpuTimes | None, MemoryBytes]:
        """Begin a new sample and read only CPU time and memory."""
        self._files.advance()
        if self._is_v2:
            found = self._cpu_stat.known()
            cpu, self._throttled_usecs = found or (None, None)
            if signs is not None and self._turns is not None:
                self._take_turns(self._turns, signs, found)
        else:
            cpu = self._read_cpu_v1()
        return cpu, self._memory.read()

    def stands_still(self, *, cpu: bool) -> bool:
        """Return whether charged memory is unchanged since the last sample; False at each `STILL_LOOKS`th.

        With `cpu`, CPU time has to be unchanged too.
        """
        files, look = self._files, self._files.look + 1
        charged = self._memory.charged
        if not look % STILL_LOOKS or not charged.is_known:
            return False
        also = [each for each in self._rare if each.is_known] if not look % RARELY_LOOKS else ()
        try:
            same = charged.is_same() and all(each.is_same() for each in also)
            if not same or (cpu and not self._still.is_same()) or self._memory.has_new_limits_above():
                return False
        except OSError:  # the full read that follows meets it again
            return False
        if self._turns is not None and self._turns.waiting:
            self._is_at_rest = True
            return False
        files.advance()
        return True

    def _take_turns(self, turns: Turns, node: NodeSigns, use: object) -> None:
        """Choose the files of this sample: those whose turn it is."""
        kills, before = node.kills, self._node_kills
        self._node_kills = kills
        if not self._files.look % STILL_LOOKS:
            turns.doubt()
        signs = () if self._is_at_rest else (use, use, *node.changes)
        self._is_at_rest = False
        turns.choose(signs, at_once=kills is None or kills != before)

    def read_huge_pages(self, sizes: Iterable[int]) -> int | None:
        """Return the bytes in huge pages of these sizes; None where groups do not count them."""
        return self._memory.read_huge_pages(sizes)

    def read_core_usage(self) -> tuple[int, ...]:
        """Return nanoseconds used on each CPU; empty where these are not counted, as on v2."""
        return self._core_usage.known() or ()

    def close(self) -> None:
        """Close the descriptors."""
        self._files.close()

    def _read_cpu_v1(self) -> CpuTimes | None:
        split, nanoseconds = self._cpu_split.known(), self._cpu_usage.known()
        if split is None or nanoseconds is None:
            return split
        self._last_cpu = compute_split(nanoseconds / 1e9, split, self._last_cpu)
        return self._last_cpu

    def _read_counters(self, node_kills: int | None) -> dict[Counter, Rows]:
        counters: dict[Counter, Rows] = {}
        if self._memory_tree is not None:
            counters.update(self._memory_tree.read(node_kills))
        if "blkio" in self._groups:
            counters.update(self._read_block_io_v1())
        if "cpu" in self._groups:
            # Most jobs never have a CPU quota.
            every = 1 if self._throttled_usecs else RARELY_LOOKS
            self._throttled_usecs = self._throttled.known(every=every)
        if self._throttled_usecs is not None:
            counters["throttled"] = {"": (self._throttled_usecs,)}
        if UNIFIED not in self._groups:
            return counters
        if (events := self._events.said()) is not ABSENT:
            for counter, name in _EVENTS.items():
                if events is None:
                    counters[counter] = None
                elif name in events:
                    counters[counter] = {"": (events[name],)}
        if (devices := self._io_stat.said()) is not ABSENT:
            counters["block_io"] = devices
        for resource, file in self._pressures:
            if (stalled := file.said()) is not ABSENT:
                for share in SHARES if stalled is None else stalled:
                    counters[resource, share] = None if stalled is None else {"": (stalled[share],)}
        return counters

    def _read_block_io_v1(self) -> dict[str, Rows]:
        every = 1 if self._transfers else RARELY_LOOKS
        moved, served = self._moved.said(every=every), self._served.said(every=every)
        self._transfers = moved != {} or served != {}
        if moved is None or served is None:
            return {"block_io": None}
        # Without a device either nothing was transferred or nothing is counted: since Linux 6.10 the
        # kernel counts here only for disks with a throttling limit.
        if moved is ABSENT or served is ABSENT or not (moved or served):
            return {}
        rows: Rows = {
            device: (*moved.get(device, (0, 0)), *served.get(device, (0, 0))) for device in moved | served
        }
        return {"block_io": rows}


class JobCgroups:
    """The control groups of all jobs on the node, from one sample to the next."""

    def __init__(
        self,
        root: str,
        budget: DescriptorBudget,
        unreadable: Unreadable,
        *,
        wanted: Callable[[Membership], bool] = lambda _: True,
        places: Callable[[], Places | None] = lambda: None,
    ) -> None:
        """Start empty; `update` keeps only groups that are `wanted`, also at further `places`."""
        self._find_places = places
        self._places = places()
        self._root = root
        self._wanted = wanted
        self._budget = budget
        self._unreadable = unreadable
        self._above = LimitsAbove(budget, unreadable)
        self._known: dict[str, JobCgroup] = {}
        self._hierarchies: Mapping[str, str] = {}  # the last ones that could be found
        self._listings: Listings = {}  # of the last update, if that was complete
        self._listed = GroupList()

    def update(self) -> GroupList:
        """List the directories again; forget those that were removed."""
        self._above.advance()
        before, self._places = self._places, self._find_places()
        if self._listings and self._places is before and are_same(self._listings):
            return self._listed
        listings: Listings = {}
        are_found = True
        try:
            self._hierarchies = find_hierarchies(self._root, listings)
        except OSError as error:
            self._unreadable.add("cgroup_hierarchies", error)
            are_found = False
        listed = {path: each.directory for path, each in self._known.items()}
        found, complete = list_job_directories(
            self._hierarchies, self._unreadable, known=listed, listings=listings, places=self._places
        )
        self._listings = listings if complete and are_found and self._hierarchies else {}
        gone: list[JobDirectory] = []
        directories = {each.path: each for each in found if self._wanted(each.membership)}
        for path, known in list(self._known.items()):
            if directories.get(path) is known.directory:
                continue
            known.close()
            gone.append(self._known.pop(path).directory)
        new = [each for path, each in directories.items() if path not in self._known]
        for each in new:
            self._known[each.path] = JobCgroup(each, self._budget, self._unreadable, self._above)
        if not new and not gone:
            return self._listed
        self._listed = GroupList([each.directory for each in self._known.values()])
        return self._listed._replace(gone=gone, have_changed=True)

    def reader(self, directory: JobDirectory) -> JobCgroup:
        """Return what reads a directory of the latest update."""
        return self._known[directory.path]

    def close(self) -> None:
        """Close all descriptors."""
        for each in self._known.values():
            each.close()
        self._above.close()
        self._known.clear()
        self._listed = GroupList()
