"""What the stages of a sample pass to each other: records that no stage changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.snapshot import (
    JobSample,
    NodeSample,
    ProcessIo,
    ProcessSample,
    WorkKey,
)
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.groups.cgroup import GroupList, JobCgroup, JobFigures
from jobfeatures_exporter.sampling.groups.turns import NodeSigns
from jobfeatures_exporter.sampling.processes.accumulate import CpuTicks
from jobfeatures_exporter.sampling.processes.attributor import Attribution, Key


class LastLook(NamedTuple):
    """What a sample needs of the one before it."""

    key_of: Mapping[str, JobKey | None] = MappingProxyType({})  # as in `Attributed`
    jobs: Mapping[WorkKey, JobSample] = MappingProxyType({})


class NodeLook(NamedTuple):
    """The node as a whole."""

    node: NodeSample
    signs: NodeSigns
    other_devices: Collection[str]  # block devices whose transfers count on others too
    epoch: int | None  # names process groups over reboots; None: the time of boot is not known
    huge_pages: Mapping[int, int] | None  # bytes in use by size of page; None: it has none


class Listed(NamedTuple):
    """The control groups of jobs, and what was read of them between samples."""

    groups: GroupList
    heard: Mapping[str, JobFigures]  # by `cpu_source`
    gone: Mapping[JobKey, Sequence[JobCgroup]]  # removed groups that have such a reading


class ProcessesRead(NamedTuple):
    """The processes read at this sample: all of the node, or with the kernel's sums a few of jobs."""

    processes: Mapping[int, ProcessSample]
    are_all: bool


class Attributed(NamedTuple):
    """Which processes and control groups belong to which job."""

    keys: Mapping[int, Key]  # by pid
    key_of: Mapping[str, JobKey | None]  # by `cpu_source` of groups; None: a stranger's
    groups: Mapping[JobKey, Sequence[JobCgroup]]  # none of a job that goes on without any
    members: Mapping[Key, Sequence[ProcessSample]]
    aliases: Mapping[JobKey, JobKey] = MappingProxyType({})  # what a job was called before its id was known
    claims: Collection[JobKey] = ()  # of groups that the batch system has yet to confirm

    def of_jobs(self) -> dict[JobKey, Sequence[ProcessSample]]:
        """Return the processes of each job, none for one that has only control groups."""
        found: dict[JobKey, Sequence[ProcessSample]] = dict.fromkeys(self.groups, ())
        found.update((key, those) for key, those in self.members.items() if isinstance(key, JobKey))
        return found


class Counted(NamedTuple):
    """What processes have used in all, those that have ended included."""

    ticks: Mapping[Key, CpuTicks]
    io: Mapping[JobKey, ProcessIo]


class LookFacts(NamedTuple):
    """What records of jobs are made from besides each job's own groups and processes."""

    signs: NodeSigns
    sums: Mapping[str, Sums]
    heard: Mapping[str, JobFigures]
    other_devices: Collection[str]
    reads_cores: bool
    counts_network: bool
    huge_pages: Mapping[int, int] | None = None  # bytes in use on the node by size; None: it has none
    has_all_processes: bool = True  # whether each job's processes are complete
    jobs: Mapping[JobKey, Job] = MappingProxyType({})  # those said to be here


def find_populated(listed: Listed, sums: Mapping[str, Sums]) -> list[Membership]:
    """Return the control groups that have processes according to the kernel's sums."""
    found = (each for each in listed.groups.directories if each.cpu_source in sums)
    return [each.membership for each in found if sums[each.cpu_source].processes]


def gather(
    found: Attribution,
    listed: Listed,
    processes: Mapping[int, ProcessSample],
    staying: Collection[JobKey] = (),
) -> Attributed:
    """Return groups and processes by job, also of those that are `staying` without any."""
    key_of: dict[str, JobKey | None] = {}
    groups: dict[JobKey, list[JobCgroup]] = {}
    for cgroup in listed.groups.groups:
        job_key = key_of[cgroup.directory.cpu_source] = found.job_key(cgroup.directory.membership)
        if job_key is not None:
            groups.setdefault(job_key, []).append(cgroup)
    members: dict[Key, list[ProcessSample]] = {}
    for pid, key in found.keys.items():
        members.setdefault(key, []).append(processes[pid])
    for job in staying:
        groups.setdefault(job, [])
    return Attributed(found.keys, key_of, groups, members, found.aliases, found.claims)


def list_groups(groups: GroupList, heard: Mapping[str, JobFigures], last: LastLook) -> Listed:
    """Return the present groups, and those removed since the `last` sample by the jobs that had them.

    `heard` are the readings since then, by `cpu_source`.
    """
    gone: dict[JobKey, list[JobCgroup]] = {}
    living = {each.cpu_source for each in groups.directories} if groups.gone else ()
    for cgroup in groups.gone:
        source = cgroup.directory.cpu_source
        if source in heard and source not in living and (key := last.key_of.get(source)) is not None:
            gone.setdefault(key, []).append(cgroup)
    return Listed(groups, heard, gone)
