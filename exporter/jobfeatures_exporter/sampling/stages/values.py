"""What the stages of a sample pass to each other: records that no stage changes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    GroupKey,
    JobSample,
    NodeSample,
    ProcessIo,
    ProcessSample,
    UnitKey,
    WorkKey,
)
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.groups.figures import JobFigures
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.layout.jobdirectory import GroupList, JobDirectory
from jobfeatures_exporter.sampling.processes.accumulate import CpuTicks
from jobfeatures_exporter.sampling.processes.attribution import Attribution, Key, Owners


class LastSample(NamedTuple):
    """What a sample needs to know of the sample before it: whose groups were, and the jobs' records."""

    key_of: Mapping[str, JobKey | None] = MappingProxyType({})  # as in `Attributed`
    jobs: Mapping[WorkKey, JobSample] = MappingProxyType({})


class NodeReading(NamedTuple):
    """Figures of the node as a whole at one sample."""

    node: NodeSample
    signs: NodeSigns
    other_devices: Collection[str]  # block devices whose transfers count on others too
    epoch: int | None  # names process groups over reboots; None: the time of boot is not known
    huge_pages: Mapping[int, int] | None  # bytes in use by size of page; None: it has none


class Listed(NamedTuple):
    """The control groups of jobs at one sample, and what was read of them since the sample before."""

    groups: GroupList
    between: Mapping[str, JobFigures]  # by `cpu_source`
    gone: Mapping[JobKey, Sequence[JobDirectory]]  # removed groups that have such a reading


class ProcessesRead(NamedTuple):
    """The processes read at this sample (all of the node unless eBPF sums jobs' use), and their `owners`."""

    processes: Mapping[int, ProcessSample]
    are_all: bool
    owners: Owners = Owners()


class Attributed(NamedTuple):
    """Which processes and control groups belong to which job."""

    keys: Mapping[int, Key]  # by pid
    key_of: Mapping[str, JobKey | None]  # by `cpu_source` of groups; None: a stranger's
    groups: Mapping[JobKey, Sequence[JobDirectory]]  # none of a job that goes on without any
    members: Mapping[Key, Sequence[ProcessSample]]
    owners: Owners = Owners()
    aliases: Mapping[JobKey, JobKey] = MappingProxyType({})  # what a job was called before its id was known
    claims: Collection[JobKey] = ()  # of groups that the batch system has yet to confirm

    def of_jobs(self) -> dict[JobKey, Sequence[ProcessSample]]:
        """Return the processes of each job; empty for a job that has only control groups."""
        found: dict[JobKey, Sequence[ProcessSample]] = dict.fromkeys(self.groups, ())
        found.update((key, those) for key, those in self.members.items() if isinstance(key, JobKey))
        return found


class Counted(NamedTuple):
    """Totals of what processes have used, including those that have ended, by job, unit or process group."""

    ticks: Mapping[Key, CpuTicks]
    io: Mapping[JobKey, ProcessIo]


class GroupReading(NamedTuple):
    """What was read of one control group of a job at a sample."""

    directory: JobDirectory
    figures: JobFigures
    sums: Sums | None = None  # the kernel's, of what is in it
    has_gone: bool = False  # its figures are those of before its end
    core_nanosecs: tuple[int, ...] | None = None  # by CPU, empty where not counted; None: nobody asked


class JobReading(NamedTuple):
    """What was read of a job at a sample; the same object as before if nothing of the job has run since."""

    groups: Sequence[GroupReading] = ()
    memory: MemoryBytes = MemoryBytes()  # of its groups, else of its processes
    steps: Mapping[str, Sequence[tuple[JobDirectory, JobFigures]]] = MappingProxyType({})  # by name
    is_frozen: bool = False
    has_lost: bool = False  # whether a group below one of its groups was removed unread
    is_still: bool = False  # whether nothing of the job has run since it was read before


class Readings(NamedTuple):
    """What was read of present and of ended jobs, and the memory of units and groups outside jobs."""

    jobs: Mapping[JobKey, JobReading] = MappingProxyType({})
    ended: Mapping[JobKey, JobReading] = MappingProxyType({})
    memory: Mapping[UnitKey | GroupKey, MemoryBytes] = MappingProxyType({})


def find_populated(listed: Listed, sums: Mapping[str, Sums]) -> list[Membership]:
    """Return whose the jobs' control groups are that have processes, according to eBPF's sums."""
    found = (each for each in listed.groups.directories if each.cpu_source in sums)
    return [each.membership for each in found if sums[each.cpu_source].processes]


def gather(
    found: Attribution,
    listed: Listed,
    read: ProcessesRead,
    staying: Collection[JobKey] = (),
) -> Attributed:
    """Return control groups and processes by job; a job in `staying` is listed even if it has none."""
    key_of: dict[str, JobKey | None] = {}
    groups: dict[JobKey, list[JobDirectory]] = {}
    for directory in listed.groups.directories:
        job_key = key_of[directory.cpu_source] = found.job_key(directory.membership)
        if job_key is not None:
            groups.setdefault(job_key, []).append(directory)
    members: dict[Key, list[ProcessSample]] = {}
    for pid, key in found.keys.items():
        members.setdefault(key, []).append(read.processes[pid])
    for job in staying:
        groups.setdefault(job, [])
    return Attributed(found.keys, key_of, groups, members, read.owners, found.aliases, found.claims)


def list_groups(groups: GroupList, between: Mapping[str, JobFigures], last: LastSample) -> Listed:
    """Return the present control groups of jobs, and the removed ones of which there is a last reading.

    `between` has the last readings since the `last` sample, by `cpu_source`.
    """
    gone: dict[JobKey, list[JobDirectory]] = {}
    living = {each.cpu_source for each in groups.directories} if groups.gone else ()
    for directory in groups.gone:
        source = directory.cpu_source
        if source in between and source not in living and (key := last.key_of.get(source)) is not None:
            gone.setdefault(key, []).append(directory)
    return Listed(groups, between, gone)


def find_lost(listed: Listed, readings: Readings, last: LastSample) -> set[JobKey | None]:
    """Return the jobs of which a control group, or one below it, was removed since the last sample."""
    lost = {last.key_of.get(each.cpu_source) for each in listed.groups.gone}
    return lost | {key for key, each in readings.jobs.items() if each.has_lost}
