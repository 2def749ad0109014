"""Samples the node: combines processes, control groups and jobs into snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobfeatures.batch import BatchSettings
from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import Job, JobKey
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.bpf.choice import PROCFS_ALONE, Choice
from jobfeatures_exporter.sampling.cpurates import cpu_secs_of
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
from jobfeatures_exporter.sampling.groups.cgroup import GroupList, JobCgroup, JobCgroups, JobFigures
from jobfeatures_exporter.sampling.groups.endings import complete, find_first_processes
from jobfeatures_exporter.sampling.groups.hierarchy import JobDirectory
from jobfeatures_exporter.sampling.groups.lastwords import LastWords
from jobfeatures_exporter.sampling.groups.steps import StepBook
from jobfeatures_exporter.sampling.groups.turns import NodeSigns
from jobfeatures_exporter.sampling.groups.unseenkills import UnseenKills
from jobfeatures_exporter.sampling.host.disks import Disks
from jobfeatures_exporter.sampling.host.procfs import TICKS_PER_SEC, read_node
from jobfeatures_exporter.sampling.jobbook import JobRecorder, LookFacts
from jobfeatures_exporter.sampling.kernellooks import KernelLooks
from jobfeatures_exporter.sampling.power.energy import JobEnergy, compute_package_joules
from jobfeatures_exporter.sampling.power.rapl import NodeEnergy
from jobfeatures_exporter.sampling.processes.accumulate import CpuAccumulator, CpuTicks
from jobfeatures_exporter.sampling.processes.attribution import compute_epoch
from jobfeatures_exporter.sampling.processes.attributor import Attribution, Attributor, Key
from jobfeatures_exporter.sampling.processes.bycommand import CommandBook
from jobfeatures_exporter.sampling.processes.members import Members
from jobfeatures_exporter.sampling.processes.openfiles import OpenFileBook
from jobfeatures_exporter.sampling.processes.processio import ProcessIoBook
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from jobfeatures_exporter.snapshot import (
    CommandSample,
    GroupKey,
    JobSample,
    NodeSample,
    ProcessIo,
    ProcessSample,
    Snapshot,
    UnitKey,
    WorkKey,
)

if TYPE_CHECKING:
    from jobfeatures_exporter.config import DaemonConfig
    from jobfeatures_exporter.sampling.exits.taskstats import ExitTimes

FIRST_AGAIN_LOOKS = 16  # every so many samples the first processes of jobs are searched in any case
ALL_AGAIN_LOOKS = 64  # every so many samples all processes are read even if the kernel's sums suffice


class Sampler:
    """Takes snapshots of the node. One thread calls `sample`; any thread may use a snapshot.

    `jobs` returns the jobs known at the time, needed for those that name processes or sessions. With
    `node_name`, control groups that name another node (several emulated on one host) are ignored, and their
    processes belong to no job; else all count, and a job on several nodes is summed. `cgroup_root` is the
    path at which the batch systems' control groups begin, if not ``/`` because the node is a container.
    `batch` are the batch systems' settings. `steps` also reads the steps of jobs, `process_io` what their
    processes read and wrote, and `top_commands`, if not 0, rolls up their processes by command.

    A job's processes and threads include those of its batch system in its control groups. Memory of a job
    without control groups is the sum over its processes, in which shared pages count once per process.

    With the kernel's sums, set by `read_by`, the usage of jobs in control groups comes from these, and
    processes are only read for jobs without groups, if `wants_all` is true, and for a few jobs at a time.
    `shows` tells whether other exporters' names need reads_processes, reads_cores or reads_open_files.
    """

    def __init__(
        self,
        *,
        procfs: str = "/proc",
        cgroup: str = "/sys/fs/cgroup",
        sysfs: str | None = None,
        clock: Clock,
        jobs: Callable[[], Mapping[JobKey, Job]],
        node_name: str | None = None,
        cgroup_root: str = "",
        batch: BatchSettings | None = None,
        gpus: GpuMonitor | None = None,
        taskstats: bool = False,
        steps: bool = False,
        process_io: bool = False,
        top_commands: int = 0,
        last_words: LastWords | None = None,
        wants_all: Callable[[], bool] = lambda: True,
        shows: Callable[[str], bool] = lambda _what: False,
    ) -> None:
        self._procfs = procfs
        self._clock = clock
        self._jobs = jobs
        self._node_name = node_name
        self._unreadable = Unreadable()
        self.budget = budget = DescriptorBudget()
        self._scanner = ProcessScanner(procfs, budget=budget, unreadable=self._unreadable)
        self._cgroups = JobCgroups(cgroup, budget, self._unreadable, wanted=self._is_here, prefix=cgroup_root)
        self._members = Members(procfs, self._unreadable, root=cgroup_root)
        self._attributor = Attributor(
            procfs,
            self._members,
            self._unreadable,
            is_here=self._is_here,
            config=batch or BatchSettings(),
        )
        self._accumulator: CpuAccumulator[Key] = CpuAccumulator()
        self._exits: ExitTimes[Key] | None = None
        if taskstats:
            from jobfeatures_exporter.sampling.exits.taskstats import subscribe

            self._exits = subscribe(self._unreadable)
        self._node_energy = None if sysfs is None else NodeEnergy(sysfs, clock, budget, self._unreadable)
        self._job_energy = JobEnergy()
        self._unseen_kills = UnseenKills()
        self._gpus = gpus
        self._disks = Disks(procfs, sysfs or "/sys", self._unreadable)
        self._steps = StepBook(budget, self._unreadable) if steps else None
        self._listed = GroupList()
        self._signs = NodeSigns()
        self._book = JobRecorder(self._members, self._steps, tells_io=process_io)
        self._kernel: KernelLooks | None = None
        self._reader = PROCFS_ALONE
        self._wants_all = wants_all
        self._shows = shows
        self._open_files = OpenFileBook(procfs, self._unreadable)
        self._looks = 0
        self._first: dict[JobKey, tuple[int, ...]] = {}  # pids of each job whose end may be the job's
        self._read: Mapping[JobKey, Sequence[ProcessSample]] = {}  # the job's processes when these were found
        self._process_io = ProcessIoBook(procfs, budget, self._unreadable) if process_io else None
        self._command_book = (
            CommandBook(top=top_commands, ticks_per_sec=TICKS_PER_SEC) if top_commands else None
        )
        self._last_words = last_words
        self._last_jobs: Mapping[WorkKey, JobSample] = {}
        self._keys_of: dict[str, JobKey | None] = {}  # by cpu_source, in the last sample; None: a stranger's
        self._commands: Mapping[JobKey, tuple[CommandSample, ...]] = {}
        self._processes: Mapping[int, ProcessSample] = {}
        self._epoch: int | None = None
        self._boot_time_secs: int | None = None

    def read_by(self, reader: Choice) -> None:
        """Set how processes are read; call it before the first sample."""
        self._kernel = None if reader.kernel is None else KernelLooks(reader.kernel, self._unreadable)
        self._reader = reader

    def sample(self) -> Snapshot:
        """Take a snapshot of the node. What cannot be read is omitted and counted."""
        taken_at_secs, started_secs = self._clock.now_secs(), self._clock.monotonic_secs()
        node = read_node(self._procfs, self._unreadable, self._disks.read())
        self._signs = self._signs.then(node)
        if self._epoch is None and node.boot_time_secs is not None:
            # Only once: the kernel derives the boot time from the clock, and groups must keep their names.
            self._epoch = compute_epoch(node.boot_time_secs)
        self._boot_time_secs = node.boot_time_secs
        if self._exits is not None:
            self._exits.take()
        self._looks += 1
        lists_all = self._needs_all()
        processes = self._scan() if lists_all else {}
        self._listed = self._cgroups.update()
        heard, gone = self._hear()
        lost = {self._keys_of.get(each.directory.cpu_source) for each in self._listed.gone}
        sums = self._sum(gone)
        if not lists_all:
            lists_all, processes = self._read_some(sums)
        if not lists_all:
            self._scanner.close()  # its open descriptors only pay off in consecutive samples of all processes
        read_at_secs = self._clock.monotonic_secs()
        facts = LookFacts(
            signs=self._signs,
            sums=sums,
            heard=heard,
            other_devices=self._disks.others,
            reads_cores=self._shows("reads_cores"),
            counts_network=self._reader.no_network == "",
        )
        keys, jobs, final = self._attribute(processes, gone, facts, are_all=lists_all)
        of_jobs = (processes[pid] for pid, key in keys.items() if isinstance(key, JobKey))
        lost |= {
            self._keys_of.get(each.directory.cpu_source) for each in self._listed.groups if each.take_lost()
        }
        self._unseen_kills.doubt(node.oom_kills, self._last_jobs, jobs, final, lost)
        node, jobs = self._with_energy(node, jobs)
        self._last_jobs = jobs
        snapshot = Snapshot(
            taken_at_secs=taken_at_secs,
            duration_secs=self._clock.monotonic_secs() - started_secs,
            node=node,
            jobs=jobs,
            final=final,
            read_at_secs=read_at_secs,
            processes=processes,
            lists_all=lists_all,
            process_count=None if lists_all or self._kernel is None else self._kernel.processes,
            reader=self._reader.process_reader,
            no_network=self._reader.no_network,
            kernel_checks=None if self._kernel is None else self._kernel.checks(),
            keys=keys,
            epoch=self._epoch,
            commands=self._commands,
            open_files=self._open_files.update(of_jobs) if self._shows("reads_open_files") else {},
            exit_records={} if self._exits is None else dict(self._exits.results),
            unreadable=dict(self._unreadable.counts),
            kept_files=self.budget.kept,
            reopened=self.budget.refused,
        )
        return snapshot if self._gpus is None else self._gpus.fill(snapshot, self._jobs())

    def close(self) -> None:
        """Close all descriptors."""
        some = (self._kernel, self._steps, self._process_io, self._node_energy, self._exits)
        kept = (each for each in some if each is not None)
        for each in (self._scanner, self._cgroups, *kept):
            each.close()

    def _with_energy(
        self, node: NodeSample, jobs: dict[WorkKey, JobSample]
    ) -> tuple[NodeSample, dict[WorkKey, JobSample]]:
        """Return node and jobs with their joules, which jobs get in the ratio of their CPU time."""
        if self._node_energy is None or not (domains := self._node_energy.read()):
            return node, jobs
        shares = self._job_energy.update(
            joules=compute_package_joules(domains),
            cpu=node.cpu,
            used_secs={key: cpu_secs_of(sample) for key, sample in jobs.items() if isinstance(key, JobKey)},
        )
        for key, joules in shares.items():
            jobs[key] = replace(jobs[key], energy_joules=joules)
        return replace(node, energy_joules=domains), jobs

    def _scan(self) -> Mapping[int, ProcessSample]:
        try:
            self._processes = self._scanner.scan()
        except OSError as error:  # no process is known to have ended: keep the last list
            self._unreadable.add("process_list", error)
        self._attributor.read(self._processes)
        return self._processes

    def _needs_all(self) -> bool:
        """Return whether this sample has to read all processes, as every `ALL_AGAIN_LOOKS`th does."""
        return (
            self._kernel is None
            or self._looks % ALL_AGAIN_LOOKS == 1
            or self._exits is not None
            or self._command_book is not None
            or (self._gpus is not None and bool(self._gpus.readers))
            or self._attributor.needs_all
            or self._wants_all()
            or self._shows("reads_processes")
        )

    def _sum(self, gone: Mapping[JobKey, Sequence[JobCgroup]]) -> Mapping[str, Sums]:
        """Return the kernel's sums by the control groups' `cpu_source`; empty without sums in the kernel."""
        if self._kernel is None:
            return {}
        also = [each.directory for those in gone.values() for each in those]
        return self._kernel.sums([*self._listed.directories, *also])

    def _read_some(self, sums: Mapping[str, Sums]) -> tuple[bool, Mapping[int, ProcessSample]]:
        """Return whether all processes were read because the sums do not suffice, and the processes read."""
        suffices = all(
            each.counts_memory
            and each.directory.cpu_source in sums
            and each.directory.membership.slot is None
            for each in self._listed.groups
        )
        named = {key for key, job in self._jobs().items() if job.processes or job.sessions}
        grouped = {self._keys_of.get(each.cpu_source) for each in self._listed.directories}
        if self._kernel is None or not suffices or not named <= grouped:
            return True, self._scan()
        processes = self._scanner.glance(self._kernel.due(self._listed.directories, self._is_settled))
        self._attributor.read(processes, are_all=False)
        return False, processes

    def _is_settled(self, directory: JobDirectory) -> bool:
        """Return whether job and user of a control group are known without reading its processes."""
        key, membership = self._keys_of.get(directory.cpu_source), directory.membership
        sample = None if key is None else self._last_jobs.get(key)
        if key is None or sample is None:
            is_stranger = directory.cpu_source in self._keys_of and key is None
            return is_stranger and membership.job_id is not None  # else it gets a job's id with its processes
        has_number = membership.sluid is None or key.job_id != membership.name
        return has_number and (sample.uid is not None or not sample.processes)

    def _populated(self, sums: Mapping[str, Sums]) -> list[Membership]:
        """Return the control groups that have processes according to the kernel's sums."""
        found = (each for each in self._listed.directories if each.cpu_source in sums)
        return [each.membership for each in found if sums[each.cpu_source].processes]

    def _is_here(self, membership: Membership) -> bool:
        return self._node_name is None or membership.node in {None, self._node_name}

    def _hear(self) -> tuple[Mapping[str, JobFigures], dict[JobKey, list[JobCgroup]]]:
        """Return readings from between samples, by `cpu_source`, and the removed groups that have one."""
        heard = {} if self._last_words is None else self._last_words.take()
        gone: dict[JobKey, list[JobCgroup]] = {}
        living = {each.cpu_source for each in self._listed.directories} if self._listed.gone else ()
        for cgroup in self._listed.gone:
            source = cgroup.directory.cpu_source
            if source in heard and source not in living and (key := self._keys_of.get(source)) is not None:
                gone.setdefault(key, []).append(cgroup)
        return heard, gone

    def _attribute(
        self,
        processes: Mapping[int, ProcessSample],
        gone: Mapping[JobKey, Sequence[JobCgroup]],
        facts: LookFacts,
        *,
        are_all: bool,
    ) -> tuple[dict[int, Key], dict[WorkKey, JobSample], dict[JobKey, JobSample]]:
        """Return the key of each process, the record of each key, and the final records of ended jobs."""
        found = self._attributor.attribute(
            processes,
            self._listed.directories,
            self._jobs(),
            by_group=self._epoch is not None,
            now_secs=self._clock.monotonic_secs(),
            are_all=are_all,
            populated=self._populated(facts.sums),
        )
        keys = found.keys
        cgroups: dict[JobKey, list[JobCgroup]] = {}
        self._keys_of = {}
        for cgroup in self._listed.groups:
            job_key = self._keys_of[cgroup.directory.cpu_source] = found.job_key(cgroup.directory.membership)
            if job_key is not None:
                cgroups.setdefault(job_key, []).append(cgroup)
        members: dict[Key, list[ProcessSample]] = {}
        for pid, key in keys.items():
            members.setdefault(key, []).append(processes[pid])
        of_jobs: dict[JobKey, Sequence[ProcessSample]] = dict.fromkeys(cgroups, ())
        of_jobs.update((key, those) for key, those in members.items() if isinstance(key, JobKey))
        if self._command_book is not None:
            self._commands = self._command_book.update(processes, of_jobs)
        unsummed = {self._keys_of[source] for source in self._keys_of.keys() - facts.sums.keys()}
        unsummed |= of_jobs.keys() - cgroups.keys()
        io = {}
        if self._process_io is not None:
            io = self._process_io.update({job: of_jobs[job] for job in unsummed if job is not None})
        ticks = self._accumulator.update(processes, keys) if are_all else {}
        if self._exits is not None:
            of_batch = {pid: key for pid, key in keys.items() if isinstance(key, JobKey)}
            ticks = self._exits.update(processes, of_batch, ticks, boot_time_secs=self._boot_time_secs)
        if self._last_words is not None and (are_all or members or self._listed.have_changed):
            self._follow(self._last_words, cgroups, members, processes, found, are_all=are_all)
        final: dict[JobKey, JobSample] = {}
        for job, those in gone.items():
            if job in of_jobs:
                cgroups.setdefault(job, []).extend(those)
            elif (last := self._last_jobs.get(job)) is not None:
                final[job] = complete(last, self._book.job(job, those, (), None, None, facts))
        return keys, self._records(members, cgroups, ticks, io, facts), final

    def _follow(
        self,
        last_words: LastWords,
        cgroups: Mapping[JobKey, Sequence[JobCgroup]],
        members: Mapping[Key, Sequence[ProcessSample]],
        processes: Mapping[int, ProcessSample],
        found: Attribution,
        *,
        are_all: bool,
    ) -> None:
        """Tell `last_words` which processes' end may be that of a job, if these have changed."""
        read = {job: members.get(job, ()) for job in cgroups if are_all or job in members}
        again = self._looks % FIRST_AGAIN_LOOKS == 1  # their parents may have changed
        first = {
            job: tuple(find_first_processes(job, read[job], processes, found.keys))
            if job in read and (again or self._read.get(job) != read[job])
            else self._first.get(job, ())
            for job in cgroups
        }
        self._read = read
        if first != self._first or self._listed.have_changed:
            self._first = first
            directories = {job: [each.directory for each in those] for job, those in cgroups.items()}
            by_pid = {pid: directories[job] for job, pids in first.items() for pid in pids}
            last_words.follow([each for those in directories.values() for each in those], by_pid)

    def _records(
        self,
        members: Mapping[Key, Sequence[ProcessSample]],
        cgroups: Mapping[JobKey, Sequence[JobCgroup]],
        ticks: Mapping[Key, CpuTicks],
        io: Mapping[JobKey, ProcessIo],
        facts: LookFacts,
    ) -> dict[WorkKey, JobSample]:
        records: dict[WorkKey, JobSample] = {}
        for key in [*cgroups, *(each for each in members if each not in cgroups)]:
            if isinstance(key, JobKey):
                records[key] = self._book.job(
                    key, cgroups.get(key, ()), members.get(key, ()), ticks.get(key), io.get(key), facts
                )
            elif isinstance(key, UnitKey):
                records[key] = self._book.unit(key, members[key], ticks[key])
            elif self._epoch is not None:
                group = GroupKey(key, self._epoch)
                records[group] = self._book.unit(group, members[key], ticks[key])
        self._book.forget_others(records.keys())
        return records


def make_sampler(config: DaemonConfig, clock: Clock, **more: Any) -> Sampler:
    """Return a sampler of this node for the paths in the settings."""
    return Sampler(
        procfs=config.path_procfs,
        cgroup=config.path_cgroup,
        clock=clock,
        node_name=config.node_name,
        batch=config,
        **{"jobs": dict, **more},
    )
