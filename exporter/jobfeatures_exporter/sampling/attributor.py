"""Whose each process is: every way of finding out, in order of precedence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jobfeatures.batch.groups import Membership
from jobfeatures.batch.htcondor import EXECUTE
from jobfeatures.model import Job, JobKey
from jobfeatures_exporter.sampling.attribution import ProcessJobs
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gridengine import ActiveJob, GridEngineJobs
from jobfeatures_exporter.sampling.hierarchy import JobDirectory
from jobfeatures_exporter.sampling.members import Members
from jobfeatures_exporter.sampling.sluid import SluidResolver
from jobfeatures_exporter.snapshot import ProcessSample, UnitKey

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.slots import SlotResolver

# Within a sample a process group is its bare number: most processes have no
# job, and a number hashes faster than a record.
Key = JobKey | UnitKey | int
Owner = tuple[str, str, int | None]  # whose a control group is, as its path says


class Attribution(NamedTuple):
    """One look: whose each process is, and which job is meant where a control group names something else.

    `strangers` are groups of other jobs that had the id of one that is here.
    """

    keys: dict[int, Key]
    aliases: Mapping[JobKey, JobKey]
    strangers: Collection[Owner] = ()

    def job_key(self, membership: Membership) -> JobKey | None:
        """Return the identity of a job; SLUID or slot stands for itself until its number is known."""
        if self.strangers and _owner(membership) in self.strangers:
            return None
        key = JobKey(membership.batch_system, membership.name)
        return self.aliases.get(key, key)


class Attributor:
    """Attributes the processes of one look after the other.

    The first that knows a process decides: its batch control group, its Grid Engine group, what names it or
    an ancestor (a list of a batch source, a shepherd), its container, service or session, and last its
    process group. `is_here` says whether a control group is that of a job on this node.
    """

    def __init__(
        self,
        procfs: str,
        members: Members,
        unreadable: Unreadable,
        *,
        is_here: Callable[[Membership], bool],
        condor_execute: str = EXECUTE,
        gridengine_spool: str | None = None,
    ) -> None:
        self._members = members
        self._is_here = is_here
        self._process_jobs = ProcessJobs()
        self._sluids = SluidResolver(procfs, unreadable)
        self._slot_options = procfs, condor_execute, unreadable
        self._grid = GridEngineJobs(procfs, gridengine_spool, unreadable)
        self._active: Mapping[JobKey, ActiveJob] = {}

    @property
    def needs_all(self) -> bool:
        """Return whether all processes of the node have to be known to find those of a job."""
        return self._grid.is_here

    def read(self, processes: Mapping[int, ProcessSample], *, are_all: bool = True) -> None:
        """Read what has to be known of the processes of this look."""
        if are_all:
            self._active = self._grid.update(processes)
            self._members.reads_groups = self._grid.is_here
        self._members.update(processes, are_all=are_all)

    def attribute(
        self,
        processes: Mapping[int, ProcessSample],
        groups: Collection[JobDirectory],
        jobs: Mapping[JobKey, Job],
        *,
        by_group: bool,
        are_all: bool = True,
        populated: Collection[Membership] = (),
    ) -> Attribution:
        """Return whose each process is, given the control groups of jobs and the jobs that are known.

        In those that are `populated` the kernel counts processes, listed or not. Without `by_group` a
        process that has nothing else has nothing; where these are not all processes, only those of jobs have
        anything.
        """
        attributed, units = self._members.attributed, self._members.units
        if not are_all:
            attributed = {pid: attributed[pid] for pid in processes if pid in attributed}
            units = {}
        batch = self._on_this_node(attributed)
        living = {_owner(each) for each in (*_distinct(batch).values(), *populated)}
        found = Attribution({}, self._resolve(batch, groups, processes, living))
        found = found._replace(strangers=_find_strangers(found, groups, living, jobs))
        keys = found.keys
        if by_group and are_all:
            keys.update((pid, process.pgid) for pid, process in processes.items())
        keys.update(units)
        keys.update(self._process_jobs.update(processes, self._with_shepherds(jobs)))
        # Directories of ended jobs may be kept, and groups are given away again: who lives has the last word.
        for key, job in sorted(
            self._active.items(), key=lambda each: not each[1].shepherds.isdisjoint(processes)
        ):
            for gid in job.gids:
                keys.update(dict.fromkeys(self._members.pids_of_group(gid), key))
        # Processes of one group share the record of what its path says.
        of_batch = {number: found.job_key(each) for number, each in _distinct(batch).items()}
        keys.update(
            (pid, of_job) for pid, each in batch.items() if (of_job := of_batch[id(each)]) is not None
        )
        return found

    @cached_property
    def _slots(self) -> SlotResolver:
        from jobfeatures_exporter.sampling.slots import SlotResolver  # where there is one

        return SlotResolver(*self._slot_options)

    def _on_this_node(self, attributed: Mapping[int, Membership]) -> Mapping[int, Membership]:
        distinct = _distinct(attributed).items()
        foreign = {number for number, each in distinct if not self._is_here(each)}
        if not foreign:
            return attributed
        return {pid: each for pid, each in attributed.items() if id(each) not in foreign}

    def _resolve(
        self,
        batch: Mapping[int, Membership],
        groups: Collection[JobDirectory],
        processes: Mapping[int, ProcessSample],
        living: Collection[Owner],
    ) -> dict[JobKey, JobKey]:
        sluids: dict[str, list[ProcessSample]] = {}
        slots: dict[str, list[int]] = {}
        numbered: set[str] = set()
        for each in (group.membership for group in groups):
            if each.sluid is not None:
                sluids.setdefault(each.sluid, [])
            elif each.slot is not None:
                slots.setdefault(each.slot, [])
            elif each.job_id is not None and each.batch_system == "slurm":
                numbered.add(each.job_id)
        named = any(each.job_id is None for each in _distinct(batch).values())
        for pid, each in batch.items() if named else ():
            if each.sluid is not None:
                sluids.setdefault(each.sluid, []).append(processes[pid])
            elif each.slot is not None:
                slots.setdefault(each.slot, []).append(pid)
        aliases: dict[JobKey, JobKey] = {}
        for system, numbers in (
            ("slurm", self._sluids.update(sluids, numbered, {name for _, name, _ in living})),
            ("htcondor", self._slots.update(slots, processes, batch) if slots else {}),
        ):
            aliases.update((JobKey(system, name), JobKey(system, job_id)) for name, job_id in numbers.items())
        return aliases

    def _with_shepherds(self, jobs: Mapping[JobKey, Job]) -> Mapping[JobKey, Job]:
        """Return the jobs with those of Grid Engine, which descend from their shepherds."""
        if not self._active:
            return jobs
        shepherded = {
            key: replace(known, processes=known.processes | active.shepherds)
            for key, active in self._active.items()
            for known in (jobs.get(key) or Job(key=key),)
        }
        return {**jobs, **shepherded}


def _owner(membership: Membership) -> Owner:
    return membership.batch_system, membership.name, membership.uid


def _find_strangers(
    found: Attribution,
    groups: Collection[JobDirectory],
    living: Collection[Owner],
    jobs: Mapping[JobKey, Job],
) -> Collection[Owner]:
    """Return whose groups are not those of the job that has their id now: another user's, or another run's.

    An empty group may outlive its job until the id is given again. The job's are those with processes,
    else, or where several have some, those that its batch system names, else those that were made last.
    """
    rivals: dict[JobKey, dict[Owner, tuple[bool, bool, int]]] = {}
    for group in groups:
        each = group.membership
        key = found.job_key(each)
        if key is None or (each.uid is None and each.sluid is None):
            continue
        job = jobs.get(key)
        is_known = job is not None and (job.sluid if each.sluid else job.uid) == (each.sluid or each.uid)
        owner = _owner(each)
        rank = owner in living, is_known, max(group.inodes.values(), default=0)
        owners = rivals.setdefault(key, {})
        owners[owner] = max(rank, owners.get(owner, rank))
    return {
        owner
        for owners in rivals.values()
        if len(owners) > 1
        for owner in owners.keys() - {max(owners, key=lambda each: owners[each])}
    }


def _distinct(memberships: Mapping[int, Membership]) -> dict[int, Membership]:
    return {id(each): each for each in memberships.values()}
