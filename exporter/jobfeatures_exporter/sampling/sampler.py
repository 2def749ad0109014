"""Samples the node: combines what is read of processes, control groups and jobs into snapshots."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.groups import Membership
from jobfeatures.errors import ParseError
from jobfeatures.records.model import Job, JobKey
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.snapshot import Kind, Snapshot, kind_of
from jobfeatures_exporter.sampling.bpf.choice import PROCFS_ALONE, Choice
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroups
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.lastreadings import LastReadings
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.groups.steps import StepReader
from jobfeatures_exporter.sampling.groups.unseenkills import UnseenKills
from jobfeatures_exporter.sampling.host.disks import Disks
from jobfeatures_exporter.sampling.host.hugepages import read_huge_pages
from jobfeatures_exporter.sampling.host.idletime import IdleTimes
from jobfeatures_exporter.sampling.host.procfs import read_node, read_oom_kills
from jobfeatures_exporter.sampling.layout.hierarchies import ORDINARY, Places
from jobfeatures_exporter.sampling.power.energy import JobEnergy
from jobfeatures_exporter.sampling.power.rapl import NodeEnergy
from jobfeatures_exporter.sampling.processes.attribution import compute_epoch, without_lost_ids
from jobfeatures_exporter.sampling.processes.attributor import Attributor
from jobfeatures_exporter.sampling.processes.members import Members
from jobfeatures_exporter.sampling.processes.namespace import GroupNamespace
from jobfeatures_exporter.sampling.processes.openfiles import OpenFileBook
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from jobfeatures_exporter.sampling.processes.threadstates import read_thread_states
from jobfeatures_exporter.sampling.samplersettings import SampleExtras, SamplerSettings
from jobfeatures_exporter.sampling.stages.counting import ProcessCounting
from jobfeatures_exporter.sampling.stages.firstprocesses import FirstProcesses
from jobfeatures_exporter.sampling.stages.jobbook import JobRecorder
from jobfeatures_exporter.sampling.stages.jobreading import JobReader
from jobfeatures_exporter.sampling.stages.kernelsampler import KernelSampler
from jobfeatures_exporter.sampling.stages.reading import ProcessReading
from jobfeatures_exporter.sampling.stages.values import (
    Attributed,
    LastSample,
    NodeReading,
    ProcessesRead,
    find_lost,
    find_populated,
    gather,
    list_groups,
)


class Sampler:
    """Takes snapshots of the node. One thread calls `sample`; any thread may use a snapshot.

    `jobs` returns the jobs that batch systems report now, which may name processes or sessions.
    `last_readings` has the last figures of control groups that were removed between samples. `budget` limits
    how many files stay open, together with other readers that have the same one. `places` returns the unusual
    places at which jobs' groups may be.

    A job's processes and threads include the batch system's own processes in the job's control groups. Memory
    of a job without control groups is the sum over its processes, in which a shared page counts once per
    process.

    If `reader` uses eBPF, the kernel sums what jobs with control groups use. Then all processes are read only
    if there is a job without a group, or if a sample's `SampleExtras` demand it; otherwise only a few are
    read.
    """

    def __init__(
        self,
        settings: SamplerSettings,
        clock: Clock,
        *,
        jobs: Callable[[], Mapping[JobKey, Job]] = dict,
        gpus: GpuMonitor | None = None,
        last_readings: LastReadings | None = None,
        reader: Choice = PROCFS_ALONE,
        budget: DescriptorBudget | None = None,
        places: Callable[[], Places] = lambda: ORDINARY,
    ) -> None:
        procfs, sysfs = settings.procfs, settings.sysfs
        self._clock, self._jobs, self._gpus, self._reader = clock, jobs, gpus, reader
        self._places = places
        self._unreadable = unreadable = Unreadable()
        self._budget = budget = DescriptorBudget() if budget is None else budget
        is_here = partial(_is_here, settings.node_name)
        members = Members(
            procfs, unreadable, absolute=GroupNamespace(settings.cgroup, unreadable).absolute, places=places
        )
        finders = [
            each.make_job_processes(settings.of_system(name), unreadable) for name, each in SYSTEMS.items()
        ]
        steps = StepReader(budget, unreadable) if settings.steps else None
        self._kernel = None if reader.kernel is None else KernelSampler(reader.kernel, unreadable)
        self._node = NodeReader(procfs, sysfs or "/sys", unreadable)
        self._cgroups = JobCgroups(settings.cgroup, budget, unreadable, wanted=is_here, places=places)
        self._last_readings = last_readings
        self._attributor = Attributor(settings, unreadable, is_here=is_here)
        self._counting = ProcessCounting(settings, budget, unreadable)
        scanner = ProcessScanner(procfs, budget=budget, unreadable=unreadable)
        self._processes = ProcessReading(
            scanner,
            members,
            list(filter(None, finders)),
            self._kernel,
            unreadable,
            always_all=self._counting.needs_all,
        )
        self._first = FirstProcesses()
        self._job_reader = JobReader(self._cgroups, members, steps)
        self._book = JobRecorder(tells_io=settings.process_io, tells_network=reader.no_network == "")
        self._kills = UnseenKills()
        self._energy = None if sysfs is None else NodeEnergy(sysfs, clock, budget, unreadable)
        self._job_energy = JobEnergy()
        self._open_files = OpenFileBook(procfs, unreadable)
        self._procfs = procfs
        self._last = LastSample()
        self._between: dict[str, GroupFigures] = {}  # by unique_name: of groups that have run since
        self._is_summed = False  # whether the kernel's sums sufficed at the last sample
        self._closing = ExitStack()
        for each in (scanner, self._cgroups, self._counting, reader.kernel, steps, self._energy):
            if each is not None:
                self._closing.callback(each.close)

    def sample(self, wishes: SampleExtras = SampleExtras()) -> Snapshot:  # noqa: B008  # it cannot change
        """Take a snapshot of the node. What cannot be read is left out and counted.

        `wishes` are readings that only this sample needs.
        """
        taken_at_secs, started_secs = self._clock.now_secs(), self._clock.monotonic_secs()
        last = self._last
        node = self._node.read()
        has_gpus = self._gpus is not None and bool(self._gpus.readers)
        by_processes = self._job_reader.counts_memory or (
            bool(node.huge_pages) and self._job_reader.counts_huge_pages
        )
        every = self._processes.read_all(is_wanted=wishes.all_processes or has_gpus or by_processes)
        between = self._take_between()
        listed = list_groups(self._cgroups.update(), between, last)
        sums = self._processes.read_sums(listed)
        jobs = without_lost_ids(self._jobs(), node.node.boot_time_secs)
        read = every or self._processes.read_due(listed, sums, jobs, last)
        read_at_secs = self._clock.monotonic_secs()
        attribution = self._attributor.attribute(
            read.processes,
            read.owners,
            listed.groups.directories,
            jobs,
            by_group=node.epoch is not None,
            now_secs=read_at_secs,
            are_all=read.are_all,
            populated=find_populated(listed, sums),
        )
        staying = [key for key in jobs if key in last.jobs]  # seen before, and told to be here
        found = gather(attribution, listed, read, staying)
        counted = self._counting.count(read, sums, found)
        if self._last_readings is not None and (awaited := self._first.find(listed, read, found)) is not None:
            self._last_readings.follow(*awaited)
        readings = self._job_reader.read(
            found, listed, read, sums, counted.io, node, last, with_cores=wishes.cores
        )
        records, final = self._book.records(found, counted, readings, node, jobs, last)
        lost = find_lost(listed, readings, last)
        records, final = self._kills.blank_uncertain(node.node.oom_kills, last.jobs, records, final, lost)
        of_node = node.node
        if self._energy is not None:
            of_node, records = self._job_energy.share(self._energy.read(), of_node, records)
        self._last, self._is_summed = LastSample(found.key_of, records), not read.are_all
        of_jobs = (read.processes[pid] for pid, key in found.keys.items() if isinstance(key, JobKey))
        by_command = self._counting.by_command(read, found, records, with_programs=wishes.programs)
        snapshot = Snapshot(
            taken_at_secs=taken_at_secs,
            duration_secs=self._clock.monotonic_secs() - started_secs,
            node=of_node,
            jobs=records,
            final=final,
            unconfirmed=found.unconfirmed,
            read_at_secs=read_at_secs,
            processes=read.processes,
            lists_all=read.are_all,
            process_count=None if read.are_all or self._kernel is None else self._kernel.processes,
            reader=self._reader.process_reader,
            no_network=self._reader.no_network,
            kernel_checks=None if self._kernel is None else self._kernel.checks(),
            keys=found.keys,
            epoch=node.epoch,
            commands=by_command.commands,
            programs=by_command.programs,
            open_files=self._open_files.update(of_jobs) if wishes.open_files else {},
            thread_states=self._read_thread_states(read, found, wishes.thread_states),
            unreadable=self._count_unreadable(),
            reopened=self._budget.refused,
        )
        return snapshot if self._gpus is None else self._gpus.fill(snapshot, jobs)

    @property
    def is_at_rest(self) -> bool:
        """Return whether regular samples are not needed now.

        They are needed if GPUs are read, or if a figure or a batch system here needs all of the node's
        processes. They are needed for jobs whose use eBPF does not sum, and after a job's processes have
        changed: it has to be known which of them, by their end, tell that the job has ended. Otherwise, a
        sample is needed only for a scrape, when a job begins or ends, or if `read_between` returns True.
        """
        needs_processes = self._processes.needs_all or self._counting.needs_all
        has_gpus = self._gpus is not None and bool(self._gpus.readers)
        are_known = self._is_summed and self._kernel is not None and self._kernel.is_settled
        return not (needs_processes or has_gpus or (self.has_jobs and not are_known))

    @property
    def longest_pause_secs(self) -> float:
        """Return after how many seconds a sample could lose joules, as a counter may have wrapped twice."""
        return math.inf if self._energy is None else 0.9 * self._energy.longest_gap_secs

    @property
    def has_jobs(self) -> bool:
        """Return whether the last sample had a job."""
        return any(isinstance(key, JobKey) for key in self._last.jobs)

    @property
    def have_jobs_run(self) -> bool:
        """Return whether `read_between` has found a job that has used CPU time since the last sample."""
        return bool(self._between)

    def read_between(self) -> bool:
        """For each job that has used CPU time, read what would be lost if its control group were removed now.

        Return whether a sample is needed at once, for what is not noticed otherwise: a job was frozen or
        resumed, or its group cannot be read; or the node has counted an OOM kill, which may be a job's.
        """
        for directory, group in self._cgroups.known():
            source = directory.unique_name
            if self._last.key_of.get(source) is None:
                continue
            if group.freezing.has_changed():
                return True
            try:
                figures = group.peek()
            except (OSError, ParseError):  # removed, or the sample meets it again and counts it
                return True
            if figures is not None:
                self._between[source] = figures
        return self.has_jobs and self._node.has_killed()

    def _take_between(self) -> Mapping[str, GroupFigures]:
        """Return the readings of jobs' groups since the last sample, by `unique_name`."""
        between = {} if self._last_readings is None else self._last_readings.take()
        if self._kernel is not None:
            self._kernel.list_again(between.keys())
        for source, figures in self._between.items():
            between[source] = between[source].merged(figures) if source in between else figures
        self._between = {}
        return between

    def _read_thread_states(
        self, read: ProcessesRead, found: Attributed, kinds: Collection[Kind]
    ) -> dict[int, Mapping[str, int]]:
        keys = found.keys.items() if kinds else ()
        processes = [read.processes[pid] for pid, key in keys if kind_of(key) in kinds]
        return read_thread_states(self._procfs, processes, self._unreadable)

    def _count_unreadable(self) -> dict[str, int]:
        counts, refused = self._unreadable.counts, self._places().refusals
        return {**counts, "job_places_refused": refused} if refused else dict(counts)

    def close(self) -> None:
        """Close all descriptors."""
        self._closing.close()


def _is_here(node_name: str | None, membership: Membership) -> bool:
    return node_name is None or membership.node in {None, node_name}


class NodeReader:
    """Reads the node's own files at each sample, and finds what has changed since the last sample."""

    def __init__(self, procfs: str, sysfs: str, unreadable: Unreadable) -> None:
        self._procfs, self._sysfs = procfs, sysfs
        self._unreadable = unreadable
        self._disks = Disks(procfs, sysfs, unreadable)
        self._idle_times = IdleTimes()
        self._signs = NodeSigns()
        self._epoch: int | None = None
        self._kills: int | None = None

    def has_killed(self) -> bool:
        """Return whether the node's count of OOM kills is unknown, or other than at the last sample."""
        return read_oom_kills(self._procfs, self._unreadable) != self._kills

    def read(self) -> NodeReading:
        """Return the node's figures as they are now. What cannot be read is left out and counted."""
        node = self._idle_times.update(read_node(self._procfs, self._unreadable, self._disks.read()))
        self._signs, self._kills = self._signs.advance(node), node.oom_kills
        if self._epoch is None and node.boot_time_secs is not None:
            # Only once: the kernel derives the boot time from the clock, and groups must keep their names.
            self._epoch = compute_epoch(node.boot_time_secs)
        pages = read_huge_pages(self._sysfs, node.memory_bytes, self._unreadable)
        return NodeReading(node, self._signs, self._disks.others, self._epoch, pages)
