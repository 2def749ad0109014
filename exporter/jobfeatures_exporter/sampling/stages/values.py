"""Immutable records that the stages of a sample pass to each other. No I/O."""

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
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns
from jobfeatures_exporter.sampling.layout.jobdirectory import GroupList, JobDirectory
from jobfeatures_exporter.sampling.processes.accumulate import CpuTicks
from jobfeatures_exporter.sampling.processes.attribution import Attribution, Key, Owners


class LastSample(NamedTuple):
    """What a sample needs from the sample before it.

    `key_of` has the job of each control group (`JobDirectory.unique_name`), `jobs` the records of jobs and
    other work.
    """

    key_of: Mapping[str, JobKey | None] = MappingProxyType({})  # as in `Attributed`
    jobs: Mapping[WorkKey, JobSample] = MappingProxyType({})


class NodeReading(NamedTuple):
    """Figures of the node as a whole at one sample.

    `signs` show which files of groups can have changed. `other_devices` are block devices that are no whole
    disks, and whether each is stacked on disks. `epoch` tells this boot from others. `huge_pages` are bytes
    by page size.
    """

    node: NodeSample
    signs: NodeSigns
    other_devices: Mapping[str, bool]  # no whole disks, by device number: whether stacked on some
    epoch: int | None  # names process groups over reboots; None: the time of boot is not known
    huge_pages: Mapping[int, int] | None  # bytes in use by size of page; None: it has none


class ListedGroups(NamedTuple):
    """The control groups of jobs at one sample, and readings of groups made since the sample before.

    `between` has these readings by `JobDirectory.unique_name`. `gone` has, by job, the removed groups that
    have such a reading.
    """

    groups: GroupList
    between: Mapping[str, GroupFigures]  # by `unique_name`
    gone: Mapping[JobKey, Sequence[JobDirectory]]  # removed groups that have such a reading


class ProcessesRead(NamedTuple):
    """The processes read in this sample, and what was read of them to attribute them (`owners`).

    They are all processes of the node if `are_all`.
    """

    processes: Mapping[int, ProcessSample]
    are_all: bool
    owners: Owners = Owners()


class Attributed(NamedTuple):
    """Which processes and control groups belong to which job or other work.

    `keys` is by pid, and `key_of` by `JobDirectory.unique_name` of a control group (None: the group does not
    count). `groups` has the control groups of each job, `members` the processes of each key. `aliases` has
    jobs by the name used before their id was known. `unconfirmed` are jobs whose groups the batch system has
    yet to confirm.
    """

    keys: Mapping[int, Key]  # by pid
    key_of: Mapping[str, JobKey | None]  # by `unique_name` of groups; None: a stranger's
    groups: Mapping[JobKey, Sequence[JobDirectory]]  # none of a job that goes on without any
    members: Mapping[Key, Sequence[ProcessSample]]
    owners: Owners = Owners()
    aliases: Mapping[JobKey, JobKey] = MappingProxyType({})  # what a job was called before its id was known
    unconfirmed: Collection[JobKey] = ()  # of groups that the batch system has yet to confirm

    def of_jobs(self) -> dict[JobKey, Sequence[ProcessSample]]:
        """Return the processes of each job; a job of which only control groups were read has none."""
        found: dict[JobKey, Sequence[ProcessSample]] = dict.fromkeys(self.groups, ())
        found.update((key, those) for key, those in self.members.items() if isinstance(key, JobKey))
        return found


class ProcessTotals(NamedTuple):
    """Totals of what processes have used, ended ones included, by job, unit or process group.

    `ticks` are CPU time in clock ticks.
    """

    ticks: Mapping[Key, CpuTicks]
    io: Mapping[JobKey, ProcessIo]


class GroupReading(NamedTuple):
    """What was read of one control group of a job at a sample.

    `sums` are the kernel's (eBPF). With `has_gone`, the group was removed and the figures are its last ones.
    `core_nanosecs` is CPU time on each CPU, empty if not counted; None: not requested.
    """

    directory: JobDirectory
    figures: GroupFigures
    sums: Sums | None = None  # the kernel's, of what is in it
    has_gone: bool = False  # its figures are those of before its end
    core_nanosecs: tuple[int, ...] | None = None  # by CPU, empty where not counted; None: nobody asked


class JobReading(NamedTuple):
    """What was read of one job at a sample; of an earlier sample if nothing of it has run since (`is_still`).

    `memory` is that of its groups, else the sum over its processes. `steps` has the groups of each step.
    `has_lost` says that a group below the job's was removed before it was read, `hides_processes` that its
    processes are in another PID namespace.
    """

    groups: Sequence[GroupReading] = ()
    memory: MemoryBytes = MemoryBytes()  # of its groups, else of its processes
    steps: Mapping[str, Sequence[tuple[JobDirectory, GroupFigures]]] = MappingProxyType({})  # by name
    is_frozen: bool = False
    has_lost: bool = False  # whether a group below one of its groups was removed unread
    hides_processes: bool = False  # whether its processes are of another PID namespace
    is_still: bool = False  # whether nothing of the job has run since it was read before


class Readings(NamedTuple):
    """What was read of jobs that are present (`jobs`) or have `ended`, and the memory of other work.

    `memory` is that of containers, services, sessions and process groups outside jobs.
    """

    jobs: Mapping[JobKey, JobReading] = MappingProxyType({})
    ended: Mapping[JobKey, JobReading] = MappingProxyType({})
    memory: Mapping[UnitKey | GroupKey, MemoryBytes] = MappingProxyType({})


def find_populated(listed: ListedGroups, sums: Mapping[str, Sums]) -> list[Membership]:
    """Return the memberships of the jobs' control groups that have processes, according to eBPF's sums."""
    found = (each for each in listed.groups.directories if each.unique_name in sums)
    return [each.membership for each in found if sums[each.unique_name].processes]


def gather(
    found: Attribution,
    listed: ListedGroups,
    read: ProcessesRead,
    staying: Collection[JobKey] = (),
) -> Attributed:
    """Return which control groups and processes belong to which job.

    A job in `staying` is included even if it has neither.
    """
    key_of: dict[str, JobKey | None] = {}
    groups: dict[JobKey, list[JobDirectory]] = {}
    for directory in listed.groups.directories:
        job_key = key_of[directory.unique_name] = found.job_key(directory.membership)
        if job_key is not None:
            groups.setdefault(job_key, []).append(directory)
    members: dict[Key, list[ProcessSample]] = {}
    for pid, key in found.keys.items():
        members.setdefault(key, []).append(read.processes[pid])
    for job in staying:
        groups.setdefault(job, [])
    return Attributed(found.keys, key_of, groups, members, read.owners, found.aliases, found.unconfirmed)


def list_groups(groups: GroupList, between: Mapping[str, GroupFigures], last: LastSample) -> ListedGroups:
    """Return the present control groups of jobs, and the removed groups that were read at their end.

    `between` has the readings made since the `last` sample, by `JobDirectory.unique_name`.
    """
    gone: dict[JobKey, list[JobDirectory]] = {}
    living = {each.unique_name for each in groups.directories} if groups.gone else ()
    for directory in groups.gone:
        source = directory.unique_name
        if source in between and source not in living and (key := last.key_of.get(source)) is not None:
            gone.setdefault(key, []).append(directory)
    return ListedGroups(groups, between, gone)


def find_lost(listed: ListedGroups, readings: Readings, last: LastSample) -> set[JobKey | None]:
    """Return the jobs that have lost a control group, or a group below it, since the last sample.

    None is among them if a lost group belonged to no known job.
    """
    lost = {last.key_of.get(each.unique_name) for each in listed.groups.gone}
    return lost | {key for key, each in readings.jobs.items() if each.has_lost}
