"""Reads each job's control groups, and the memory of processes that no control group counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobfeatures.records.combining import sum_all
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import GroupKey, JobSample, ProcessIo, ProcessSample, UnitKey
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup, JobCgroups
from jobfeatures_exporter.sampling.groups.steps import StepReader
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from jobfeatures_exporter.sampling.parsers.cgroupfiles import compute_memory_sum
from jobfeatures_exporter.sampling.processes.members import Members
from jobfeatures_exporter.sampling.stages.values import (
    Attributed,
    GroupReading,
    JobReading,
    LastSample,
    ListedGroups,
    NodeReading,
    ProcessesRead,
    Readings,
)

_LIMITS = ("limit_above", "swap_limit", "high")  # which groups above may have
_ASLEEP = frozenset("SIT")  # without those that wait for storage or for a CPU


class JobReader:
    """Reads each job's control groups at a sample, unless nothing of the job has run since the last one."""

    def __init__(self, cgroups: JobCgroups, members: Members, steps: StepReader | None) -> None:
        self._cgroups = cgroups
        self._members = members
        self._steps = steps
        self._last: dict[JobKey, tuple[object, JobReading]] = {}  # with what tells whether it stands still
        self._memory: dict[UnitKey | GroupKey, tuple[Sequence[ProcessSample], MemoryBytes]] = {}
        # Jobs with groups of which no process was seen in this sample, and in the last one.
        self._unseen: set[JobKey] = set()
        self._unseen_before: set[JobKey] = set()
        self.counts_memory = False  # whether the memory of a job with groups is known by its processes alone
        self.counts_huge_pages = False  # whether a job's huge pages are known by its processes alone

    def read(
        self,
        found: Attributed,
        listed: ListedGroups,
        read: ProcessesRead,
        sums: Mapping[str, Sums],
        io: Mapping[JobKey, ProcessIo],
        node: NodeReading,
        last: LastSample,
        *,
        with_cores: bool = False,
    ) -> Readings:
        """Return the figures of jobs, and the last figures of their removed groups.

        With `with_cores`, they include CPU time on each CPU.
        """
        gone = {
            job: [_of_removed(each, listed, sums) for each in those] for job, those in listed.gone.items()
        }
        known, self._last = self._last, {}
        self._unseen_before, self._unseen = self._unseen, set()
        jobs: dict[JobKey, JobReading] = {}
        for job, processes in found.of_jobs().items():
            directories, removed = found.groups.get(job, ()), gone.pop(job, ())
            groups = [self._cgroups.reader(each) for each in directories]
            is_frozen = bool(groups) and not removed and all(each.freezing.read() for each in groups)
            seen: object = None  # what tells whether the job stands still
            if not (groups or removed or processes):
                seen = ()
            elif len(groups) == 1 and not removed and self._steps is None and _has_uid(last.jobs.get(job)):
                source = groups[0].directory.unique_name
                summed = sums.get(source)
                seen = (source, summed, io.get(job), None if summed is not None else processes)
            before, reading = known.get(job, (None, None))
            if (
                reading is not None
                and seen is not None
                and seen == before
                and not (groups and groups[0].directory.unique_name in listed.between)
                and _stand_still(groups, processes, sums)
            ):
                if not reading.is_still or reading.is_frozen != is_frozen:
                    reading = reading._replace(is_still=True, is_frozen=is_frozen, has_lost=False)
            else:
                readings = [_read_group(each, listed, sums, node, with_cores=with_cores) for each in groups]
                reading = JobReading(
                    (*readings, *removed),
                    self._read_memory(readings, groups, processes, node, are_all=read.are_all),
                    {} if self._steps is None else self._steps.read(directories),
                    is_frozen,
                    any(each.has_lost for each in groups),
                    self._are_hidden(job, found, readings, reading),
                )
            self._last[job] = seen, reading
            jobs[job] = reading
        if self._steps is not None:
            self._steps.forget_others()
        ended = {job: JobReading(those) for job, those in gone.items()}
        return Readings(jobs, ended, self._read_others(found, node.epoch))

    def _read_memory(
        self,
        readings: Sequence[GroupReading],
        groups: Sequence[JobCgroup],
        processes: Sequence[ProcessSample],
        node: NodeReading,
        *,
        are_all: bool,
    ) -> MemoryBytes:
        """Return the memory of a job's groups, else of its processes.

        Huge pages are those told with it, else by what else counts them. Several processes may share a page,
        but no job has more than the node. None: unknown, or the node has no huge pages.
        """
        counted = [each.figures.memory for each in readings if each.directory.counts_memory]
        memory = compute_memory_sum(counted) if counted else self._members.memory(processes)
        if groups and memory.anon is None and all(each.lacks_memory for each in groups):
            self.counts_memory = True
            if are_all:
                limits = {name: getattr(memory, name) for name in _LIMITS}
                memory = self._members.memory(processes)._replace(**limits)
        huge_bytes = memory.hugetlb or None
        if node.huge_pages is not None:
            huge_bytes, in_use = memory.hugetlb, sum(node.huge_pages.values())
            if huge_bytes is None and in_use:
                huge_bytes = sum_all([each.read_huge_pages(node.huge_pages) for each in groups])
                if huge_bytes is None:
                    self.counts_huge_pages = True
                    huge_bytes = self._members.memory(processes).hugetlb or 0 if are_all else None
            else:
                huge_bytes = huge_bytes or 0
            huge_bytes = None if huge_bytes is None else min(huge_bytes, in_use)
        return memory if huge_bytes == memory.hugetlb else memory._replace(hugetlb=huge_bytes)

    def _are_hidden(
        self, job: JobKey, found: Attributed, readings: Sequence[GroupReading], before: JobReading | None
    ) -> bool:
        """Return whether a job's groups have processes that we cannot see: see `Members.are_hidden`."""
        if found.members.get(job) or any(each.sums and each.sums.processes for each in readings):
            return False
        was_unseen = job in self._unseen_before
        self._unseen.add(job)
        used = [each.figures.cpu for each in readings]
        have_run = was_unseen and before is not None and used != [each.figures.cpu for each in before.groups]
        return self._members.are_hidden(found.groups.get(job, ()), have_run=have_run)

    def _read_others(self, found: Attributed, epoch: int | None) -> Mapping[UnitKey | GroupKey, MemoryBytes]:
        """Return the memory of units and process groups; the same object for the same processes."""
        known, self._memory = self._memory, {}
        memory: dict[UnitKey | GroupKey, MemoryBytes] = {}
        for each, processes in found.members.items():
            if isinstance(each, UnitKey):
                key: UnitKey | GroupKey = each
            elif isinstance(each, int) and epoch is not None:
                key = GroupKey(each, epoch)
            else:
                continue
            last = known.get(key)
            if last is None or last[0] != processes:
                last = processes, self._members.memory(processes)
            memory[key] = last[1]
            if not self._members.memory_failed:
                self._memory[key] = last
        return memory


def _has_uid(last: JobSample | None) -> bool:
    return last is not None and last.uid is not None


def _stand_still(
    groups: Sequence[JobCgroup], processes: Sequence[ProcessSample], sums: Mapping[str, Sums]
) -> bool:
    """Return whether none of a job's threads has run since the last sample, nor waits for storage.

    Then nothing has changed except memory that the kernel reclaimed. Without sums in the kernel, the
    states of its processes and unchanged CPU time are the evidence.
    """
    if not groups:
        return True
    summed = sums.get(groups[0].directory.unique_name)
    if summed is not None:
        return not (summed.running or summed.blocked) and groups[0].sample_if_unchanged(cpu=False)
    sleep = all(each.threads == 1 and each.state in _ASLEEP for each in processes)
    return sleep and bool(processes) and groups[0].sample_if_unchanged(cpu=True)


def _read_group(
    group: JobCgroup, listed: ListedGroups, sums: Mapping[str, Sums], node: NodeReading, *, with_cores: bool
) -> GroupReading:
    source = group.directory.unique_name
    figures, between = group.read(node.signs), listed.between.get(source)
    return GroupReading(
        group.directory,
        figures if between is None else figures.merged(between),
        sums.get(source),
        core_nanosecs=group.read_core_usage() if with_cores else None,
    )


def _of_removed(directory: JobDirectory, listed: ListedGroups, sums: Mapping[str, Sums]) -> GroupReading:
    """Return what was read of a group before its end: another may have the same path by now."""
    source = directory.unique_name
    return GroupReading(directory, listed.between[source], sums.get(source), has_gone=True)
