"""Reads what the kernel counts for the control groups of jobs.

All figures are those of the job's own group, which include those of its steps. Only memory events on v1 are
read from all groups below too, see `memorytree`. Files that a kernel does not provide are left out; failures
are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jobfeatures.batch.groups import Membership
from jobfeatures.records.combining import sum_all
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.freezing import Freezing
from jobfeatures_exporter.sampling.groups.groupfiles import ABSENT, NO_FILE, GroupFile, GroupFiles
from jobfeatures_exporter.sampling.groups.limitsabove import RARELY_SAMPLES, LimitsAbove
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.groups.version1 import GroupV1
from jobfeatures_exporter.sampling.groups.version2 import GroupV2
from jobfeatures_exporter.sampling.host.hugepages import name_size
from jobfeatures_exporter.sampling.layout.hierarchy import (
    Listings,
    are_same,
    find_hierarchies,
    has_local_events,
    list_job_directories,
)
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, GroupList, JobDirectory
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes, parse_number

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.layout.hierarchies import Places

STILL_SAMPLES = 64  # every so many samples a job is read in full even if none of its threads has run


class JobCgroup:
    """Reads the control group of one job or step at each sample, from cgroup v1, v2 or both.

    The modules `version1` and `version2` list the files. If `read` gets `NodeSigns`, it reads only some files
    of v2 at each sample, see the module `turns`.
    """

    def __init__(
        self,
        directory: JobDirectory,
        budget: DescriptorBudget,
        unreadable: Unreadable,
        above: LimitsAbove | None = None,
    ) -> None:
        """Open nothing yet. `above` reads the memory limits of groups above; None: they are not applied."""
        self.directory = directory
        groups = directory.groups
        # The offset spreads rare reads of different groups over different samples.
        first_number = sum(directory.inodes.values()) % STILL_SAMPLES
        self._files = files = GroupFiles(budget, unreadable, first_number=first_number)
        v1: GroupV1 | None = None
        v2: GroupV2 | None = None
        if UNIFIED in groups:
            depth, local = directory.path.count("/"), has_local_events()
            v2 = GroupV2(groups[UNIFIED], depth, files, above, groups.keys(), local_events=local)
        if v2 is None or len(groups) > 1:
            v1 = GroupV1(groups, files, unreadable)
        self._v1, self._v2 = v1, v2
        self._memory = v2 if v2 is not None and "memory" not in groups else v1
        self._is_v2 = v2 is not None and groups.keys().isdisjoint({"memory", "cpuacct"})
        both = [each for each in (v1, v2) if each is not None]
        self._cpu_lists = [file for each in both for file in each.cpu_lists]
        # What may change while a job sleeps: its limits, and data it wrote earlier reaches storage.
        self._rare: list[GroupFile[Any]] = [file for each in both for file in each.limits]
        self._rare += [*self._cpu_lists, *([] if v2 is None else [v2.transfers])]
        self._huge_pages: dict[int, list[GroupFile[int]]] = {}  # by size of page
        self.freezing = Freezing(directory, files, unreadable)

    @property
    def has_lost(self) -> bool:
        """Return whether a group below the job's was removed between the latest two readings; False on v2."""
        return self._v1 is not None and self._v1.tree is not None and self._v1.tree.has_lost

    @property
    def lacks_memory(self) -> bool:
        """Return whether memory is not counted for this group: v2 without the memory controller."""
        return self._memory is not None and self._memory.charged.value_or_absent() is ABSENT

    def read(self, signs: NodeSigns | None = None) -> GroupFigures:
        """Begin a new sample and return all figures.

        With `signs`, files of v2 that cannot have changed or have to wait for their turn keep their last
        values.
        """
        cpu, memory = self.read_use(signs)
        counters = {} if self._v2 is None else self._v2.read_counters()
        if self._v1 is not None:
            counters.update(self._v1.read_counters(None if signs is None else signs.kills))
        cpus = next((found for each in self._cpu_lists if (found := each.known(every=RARELY_SAMPLES))), None)
        return GroupFigures(memory, cpu, counters, cpus)

    def read_use(self, signs: NodeSigns | None = None) -> tuple[CpuTimes | None, MemoryBytes]:
        """Begin a new sample; return only CPU time (None: unknown) and memory. `signs` is as in `read`."""
        self._files.advance()
        cpu: CpuTimes | None = None
        if self._v2 is not None and self._is_v2:
            cpu = self._v2.read_cpu(signs, is_whole=not self._files.number % STILL_SAMPLES)
        elif self._v1 is not None:
            cpu = self._v1.read_cpu()
        return cpu, MemoryBytes() if self._memory is None else self._memory.read_memory()

    def sample_if_unchanged(self, *, cpu: bool) -> bool:
        """Return whether charged memory, and with `cpu` also CPU time, is the same as at the last sample.

        If so, this has begun a new sample, and nothing else of the group needs to be read in it. If not, the
        caller has to call `read` or `read_use`. At each `STILL_SAMPLES`th sample it returns False, so that
        all files are read then.
        """
        files, number, memory = self._files, self._files.number + 1, self._memory
        if not number % STILL_SAMPLES or memory is None or not memory.charged.is_known:
            return False
        also = [each for each in self._rare if each.is_known] if not number % RARELY_SAMPLES else []
        counting = self._v2 if self._is_v2 else self._v1
        if cpu and counting is not None:
            also.append(counting.usage)
        try:
            if not all(each.is_same() for each in (memory.charged, *also)):
                return False
            if isinstance(memory, GroupV2) and memory.has_new_limits_above():
                return False
        except OSError:  # the full read that follows meets it again
            return False
        if self._v2 is not None and self._is_v2 and self._v2.has_unread_files():
            return False
        files.advance()
        return True

    def peek(self) -> GroupFigures | None:
        """Return what would be lost if the group were removed before the next sample, which is not changed.

        That is CPU time, peak memory and transfers; None if the group has used no CPU time since the last
        sample, or does not count it. Raises OSError and ParseError if a file cannot be read.
        """
        counting = self._v2 if self._is_v2 else self._v1
        if counting is None or not counting.usage.is_known or counting.usage.is_same():
            return None
        figures = counting.peek()
        if self._memory is None or self._memory is counting:
            return figures
        return figures.merged(self._memory.peek()._replace(cpu=None))

    def read_huge_pages(self, sizes: Collection[int]) -> int | None:
        """Return the bytes in huge pages of these page sizes (in bytes); None if they are not counted."""
        for size in sizes:
            if size not in self._huge_pages:
                tops = [each.huge_pages for each in (self._v1, self._v2) if each is not None]
                self._huge_pages[size] = [
                    self._files.file(f"{top}/hugetlb.{name_size(size)}.{figure}", parse_number)
                    for top, figure in tops
                    if top is not None
                ]
        return sum_all([file.known() for size in sizes for file in self._huge_pages[size] or [NO_FILE]])

    def read_core_usage(self) -> tuple[int, ...]:
        """Return the nanoseconds of CPU time used on each CPU; empty if not counted, as on v2."""
        return () if self._v1 is None else self._v1.read_by_core()

    def close(self) -> None:
        """Close the descriptors."""
        self._files.close()


class JobCgroups:
    """Lists the control groups of all jobs on the node at each sample, and keeps a reader for each."""

    def __init__(
        self,
        root: str,
        budget: DescriptorBudget,
        unreadable: Unreadable,
        *,
        wanted: Callable[[Membership], bool] = lambda _: True,
        places: Callable[[], Places | None] = lambda: None,
    ) -> None:
        """Start empty; `update` keeps only groups that are `wanted`, also those at unusual `places`."""
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
        """List the control groups of jobs again; close the readers of groups that were removed."""
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

    def known(self) -> Iterator[tuple[JobDirectory, JobCgroup]]:
        """Yield each job's control group that the latest `update` listed, with its reader."""
        yield from ((each.directory, each) for each in self._known.values())

    def reader(self, directory: JobDirectory) -> JobCgroup:
        """Return the reader of a control group that the latest `update` listed; else raise KeyError."""
        return self._known[directory.path]

    def close(self) -> None:
        """Close all descriptors."""
        for each in self._known.values():
            each.close()
        self._above.close()
        self._known.clear()
        self._listed = GroupList()
