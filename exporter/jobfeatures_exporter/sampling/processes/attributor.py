"""Attributes processes to jobs, containers, services and sessions, by several methods in a fixed order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.groups import Membership
from jobfeatures.batch.processes import ActiveJob, GroupNames, UnnumberedGroups
from jobfeatures.records.model import Alias, Job, JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.groups.endings import SUPERVISOR_COMMANDS
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from jobfeatures_exporter.sampling.processes.attribution import (
    Attribution,
    Owner,
    Owners,
    ProcessJobs,
    owner_of,
)
from jobfeatures_exporter.sampling.processes.samenumber import Place, tell_apart
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings

log = logging.getLogger(__name__)

NAMING_SECS = (
    10.0  # within which what names a job may come later than its processes: an ad, a record, an answer
)


class Attributor:
    """Attributes the processes of successive samples to jobs, units and process groups.

    A process belongs to the first of these that there is:

    - the job whose control group the process is in, if `is_here` returns that this job is on this node;
    - the job that has one of the process's supplementary group ids;
    - the job whose batch system names the process or an ancestor, or whose supervisor is an ancestor;
    - its container, service or session;
    - its process group.
    """

    def __init__(
        self,
        settings: SamplerSettings,
        unreadable: Unreadable,
        *,
        is_here: Callable[[Membership], bool],
    ) -> None:
        self._is_here = is_here
        self._process_jobs = ProcessJobs()
        self._settings = settings
        self._names: dict[str, GroupNames] = {}  # by batch system; only of those with groups that need it
        self._grouping: set[str] = set()  # batch systems of which there was a job's control group
        self._bare: set[JobKey] = set()  # jobs with a supervisor that had other processes and no group
        self._keys_by_place: Mapping[Place, JobKey] = {}
        self._named: set[Owner] = set()  # whose groups do not count for their job's number
        self._unreadable = unreadable
        self._nameless: Mapping[Owner, float] = {}  # owners of groups without a job's id, and since when

    def attribute(
        self,
        processes: Mapping[int, ProcessSample],
        owners: Owners,
        groups: Collection[JobDirectory],
        jobs: Mapping[JobKey, Job],
        *,
        by_group: bool,
        now_secs: float,
        are_all: bool = True,
        populated: Collection[Membership] = (),
    ) -> Attribution:
        """Return to which job or other work each process and control group of one sample belongs.

        `jobs` are those that batch systems report. `groups` are jobs' control groups, and `populated` those
        that the kernel says have processes, even if none is in `processes`. With `by_group`, a process that
        belongs to nothing else belongs to its process group. Unless `are_all`, `processes` are not all of the
        node, and only those of jobs are attributed. `now_secs` is monotonic.
        """
        attributed, units = owners.memberships, owners.units
        if not are_all:
            attributed = {pid: attributed[pid] for pid in processes if pid in attributed}
            units = {}
        batch = self._on_this_node(attributed)
        distinct = _distinct(batch)
        living = {owner_of(each) for each in (*distinct.values(), *populated)}
        found = Attribution({}, self._resolve(batch, groups, processes, living, jobs))
        self._nameless = {each: self._nameless.get(each, now_secs) for each in _find_nameless(found, groups)}
        unborn = {
            each
            for each, since_secs in self._nameless.items()
            if each not in living or now_secs - since_secs < NAMING_SECS
        }
        memberships = [*(group.membership for group in groups), *distinct.values()]
        self._keys_by_place = tell_apart(found.named, groups, distinct.values(), jobs, self._keys_by_place)
        found = found._replace(keys_by_place=self._keys_by_place)
        claims = {
            owner_of(each): each
            for each in memberships
            if each.needs_confirmation and found.claimed(each) not in jobs
        }
        unconfirmed = {found.named(each) for each in claims.values()} - jobs.keys()
        found = found._replace(ignored={*unborn, *claims}, unconfirmed=unconfirmed)
        rivals = _find_ignored(found, groups, living, jobs)
        self._tell_taken(found, claims)
        self._tell_shared(each for each in memberships if each.is_shared and owner_of(each) in rivals)
        found = found._replace(ignored={*found.ignored, *rivals})
        keys = found.keys
        if by_group and are_all:
            keys.update((pid, process.pgid) for pid, process in processes.items())
        keys.update(units)
        jobs = _with_parents(jobs, owners.active)
        named = self._process_jobs.update(processes, jobs)
        for pid in _find_starters(found, groups, jobs):
            named.pop(pid, None)
        self._drop_families(named, processes, groups, jobs)
        keys.update(named)
        # Directories of ended jobs may remain, and group ids are reused: whose supervisor lives comes last.
        for key, job in sorted(
            owners.active.items(), key=lambda each: not each[1].supervisors.isdisjoint(processes)
        ):
            for gid in job.gids:
                keys.update(dict.fromkeys(owners.by_group.get(gid, ()), key))
        # Processes of one group share one membership object.
        of_batch = {number: found.job_key(each) for number, each in distinct.items()}
        keys.update(
            (pid, of_job) for pid, each in batch.items() if (of_job := of_batch[id(each)]) is not None
        )
        return found

    def _tell_taken(self, found: Attribution, claims: Mapping[Owner, Membership]) -> None:
        """Log the groups that have another job's number and that no batch system confirms."""
        for owner, each in claims.items():
            if found.claimed(each) != found.named(each) and owner not in self._named:
                self._named.add(owner)
                self._unreadable.count("job_number_taken")
                log.warning(
                    "a control group below %s is ignored: its job number, %s, is that of another job; "
                    "if the group is of another cluster, set batch.cgroup_parents",
                    *(each.parent, each.name),
                )

    def _tell_shared(self, refused: Iterable[Membership]) -> None:
        """Log the groups that do not count because another place has one of that name, for another job."""
        for each in refused:
            if each.alias is not None and owner_of(each) not in self._named:
                self._named.add(owner_of(each))
                self._unreadable.count("job_number_taken")
                log.warning(
                    "a control group below %s is ignored: its %s, %s, is also that of another job, "
                    "whose control group lies elsewhere: %s",
                    *(each.parent or "the ordinary place", each.alias.field, each.name, each.alias.remedy),
                )

    def _drop_families(
        self,
        named: dict[int, JobKey],
        processes: Mapping[int, ProcessSample],
        groups: Collection[JobDirectory],
        jobs: Mapping[JobKey, Job],
    ) -> None:
        """Leave out the batch system's own processes of a job, such as a starter that transfers files.

        They count where they have to, since they wait for the job's processes: of a job without control
        group, once it has other processes. Where a batch system makes control groups, these tell its jobs.
        """
        self._grouping.update(each.membership.batch_system for each in groups)
        starters = {
            key: {pid for pid in job.processes if _is_supervisor(processes.get(pid))}
            for key, job in jobs.items()
            if job.processes
        }
        self._bare &= starters.keys()
        families: dict[JobKey, list[int]] = {key: [] for key, those in starters.items() if those}
        for pid, key in named.items() if families else ():
            if key in families and _is_of_family(pid, starters[key], processes):
                families[key].append(pid)
            elif key in families and key.batch_system not in self._grouping:
                self._bare.add(key)
        for pid in [pid for key in families.keys() - self._bare for pid in families[key]]:
            del named[pid]

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
        jobs: Mapping[JobKey, Job],
    ) -> dict[JobKey, JobKey]:
        unnumbered: dict[str, dict[str, list[ProcessSample]]] = {}
        distinct = [each for each in _distinct(batch).values() if each.job_id is None]
        nameless = [each for each in (group.membership for group in groups) if each.job_id is None]
        first: dict[tuple[str, str], str] = {}  # of several places with one name, the one that counts
        for each in (*nameless, *distinct):
            name = each.batch_system, each.name
            first[name] = min(each.parent, first.get(name, each.parent))
        for each in nameless:
            unnumbered.setdefault(each.batch_system, {}).setdefault(each.name, [])
        for pid, each in batch.items() if distinct else ():
            if each.job_id is None and each.parent == first[each.batch_system, each.name]:
                members = unnumbered.setdefault(each.batch_system, {})
                members.setdefault(each.name, []).append(processes[pid])
        for system in unnumbered.keys() - self._names.keys():
            given = self._settings.of_system(system)
            names = SYSTEMS[system].make_group_names(given, self._unreadable)
            if names is not None:
                self._names[system] = names
        aliases: dict[JobKey, JobKey] = {}
        for system, names in self._names.items():
            others = (group.membership for group in groups if group.membership.batch_system == system)
            numbers = names.update(
                UnnumberedGroups(
                    members=unnumbered.get(system, {}),
                    processes=processes,
                    in_groups=batch.keys(),
                    living={name for of, name, *_ in living if of == system},
                    taken={each.job_id for each in others if each.job_id is not None},
                    jobs=jobs,
                )
            )
            aliases.update((JobKey(system, name), JobKey(system, job_id)) for name, job_id in numbers.items())
        return aliases


def _with_parents(jobs: Mapping[JobKey, Job], active: Mapping[JobKey, ActiveJob]) -> Mapping[JobKey, Job]:
    """Return the jobs, with the batch system's own processes from which those of active jobs descend."""
    if not active:
        return jobs
    found = {key: (jobs.get(key) or Job(key=key), each.supervisors) for key, each in active.items()}
    more = {key: replace(job, processes=job.processes | parents) for key, (job, parents) in found.items()}
    return {**jobs, **more}


def _find_starters(
    found: Attribution, groups: Collection[JobDirectory], jobs: Mapping[JobKey, Job]
) -> Collection[int]:
    """Return the pids that sources name for jobs with control groups: they start the processes in these."""
    starters = {key: job.processes for key, job in jobs.items() if job.processes}
    keys = {found.job_key(group.membership) for group in groups} if starters else set()
    return {pid for key in starters.keys() & keys for pid in starters[key]}


def _is_supervisor(process: ProcessSample | None) -> bool:
    return process is not None and process.command in SUPERVISOR_COMMANDS


def _is_of_family(pid: int, starters: Collection[int], processes: Mapping[int, ProcessSample]) -> bool:
    """Return whether a process is a starter, a fork of one that runs the same program, or a child of that."""
    asked: set[int] = set()
    while pid not in starters and pid in processes and pid not in asked:
        if _is_supervisor(processes[pid]):
            return True
        asked.add(pid)
        pid = processes[pid].ppid
    return not asked and pid in starters


def _find_nameless(found: Attribution, groups: Collection[JobDirectory]) -> Collection[Owner]:
    """Return the owners of groups whose name is no job id and whose job is not known."""
    return {
        owner_of(each)
        for each in (group.membership for group in groups)
        if each.job_id is None and JobKey(each.batch_system, each.name) not in found.aliases
    }


def _find_ignored(
    found: Attribution,
    groups: Collection[JobDirectory],
    living: Collection[Owner],
    jobs: Mapping[JobKey, Job],
) -> Collection[Owner]:
    """Return the owners of groups that carry a job's id but belong to another user or another run.

    An empty group may outlive its job until the id is reused. The job's own groups are those with processes;
    if none or several have processes, those that match its batch system's record; else the newest. One at an
    ordinary place comes first.
    """
    further = any(group.membership.parent for group in groups)
    rivals: dict[JobKey, dict[Owner, tuple[bool, bool, bool, int]]] = {}
    for group in groups:
        each = group.membership
        key = found.job_key(each)
        if key is None or (each.owner is None and not further):
            continue
        job = jobs.get(key)
        alias = each.owner
        is_known = job is not None and (alias.is_of(job) if isinstance(alias, Alias) else alias == job.uid)
        owner = owner_of(each)
        rank = not each.parent, owner in living, is_known, max(group.inodes.values(), default=0)
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
