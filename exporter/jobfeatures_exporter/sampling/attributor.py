"""Whose each process is: every way of finding out, in order of precedence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from jobfeatures.batch.groups import Membership
from jobfeatures.batch.htcondor import EXECUTE
from jobfeatures.model import Job, JobKey
from jobfeatures_exporter.sampling.attribution import ProcessJobs
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gridengine import ActiveJob, GridEngineJobs
from jobfeatures_exporter.sampling.members import Members
from jobfeatures_exporter.sampling.sluid import SluidResolver
from jobfeatures_exporter.snapshot import ProcessSample, UnitKey

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.slots import SlotResolver

# Within a sample a process group is its bare number: most processes have no
# job, and a number hashes faster than a record.
Key = JobKey | UnitKey | int


class Attribution(NamedTuple):
    """One look: whose each process is, and which job is meant where a control group names something else."""

    keys: dict[int, Key]
    aliases: Mapping[JobKey, JobKey]

    def job_key(self, membership: Membership) -> JobKey:
        """Return the identity of a job; SLUID or slot stands for itself until its number is known."""
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
        directories: Iterable[Membership],
        jobs: Mapping[JobKey, Job],
        *,
        by_group: bool,
        are_all: bool = True,
    ) -> Attribution:
        """Return whose each process is, given the control groups of jobs and the jobs that are known.

        Without `by_group` a process that has nothing else has nothing; where these are not all
        processes, only those of jobs have anything.
        """
        attributed, units = self._members.attributed, self._members.units
        if not are_all:
            attributed = {pid: attributed[pid] for pid in processes if pid in attributed}
            units = {}
        batch = self._on_this_node(attributed)
        found = Attribution({}, self._resolve(batch, directories, processes))
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
        known = {number: found.job_key(each) for number, each in _distinct(batch).items()}
        keys.update((pid, known[id(membership)]) for pid, membership in batch.items())
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
        directories: Iterable[Membership],
        processes: Mapping[int, ProcessSample],
    ) -> dict[JobKey, JobKey]:
        sluids: dict[str, list[ProcessSample]] = {}
        slots: dict[str, list[int]] = {}
        numbered: set[str] = set()
        for each in directories:
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
            ("slurm", self._sluids.update(sluids, numbered)),
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


def _distinct(memberships: Mapping[int, Membership]) -> dict[int, Membership]:
    return {id(each): each for each in memberships.values()}
