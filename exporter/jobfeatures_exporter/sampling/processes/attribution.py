"""Attributes processes to jobs by ids and ancestry: pure. By control groups, see `layout.hierarchies`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures.batch.groups import Membership
from jobfeatures.batch.processes import ActiveJob
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample, UnitKey
from jobfeatures_exporter.sampling.processes.accumulate import MISSED_SAMPLES
from jobfeatures_exporter.sampling.processes.samenumber import Place, place_of

SONAR_EPOCH_SECS = 1577836800  # 2020-01-01T00:00:00Z


# Within a sample a process group is a bare number: most processes have no
# job, and a number hashes faster than a record.
Key = JobKey | UnitKey | int
Owner = tuple[str, str, int | None, str]  # batch system, job name, uid and parent in a control group's path


class Owners(NamedTuple):
    """What was read of processes to find whose they are, by pid: job's control group, unit, effective uid.

    `by_group` has pids by supplementary group id; `active` has jobs found in batch systems' own files.
    """

    memberships: Mapping[int, Membership] = MappingProxyType({})
    units: Mapping[int, UnitKey] = MappingProxyType({})
    uids: Mapping[int, int] = MappingProxyType({})
    by_group: Mapping[int, Collection[int]] = MappingProxyType({})
    active: Mapping[JobKey, ActiveJob] = MappingProxyType({})


class Attribution(NamedTuple):
    """Whose the processes of one sample are (`keys`, by pid), and whose control groups are.

    `aliases` has the job by the name in its group, where that is not its id. `ignored` are owners of groups
    (see `owner_of`) that do not count: of an earlier or another job of that id, or those of which no job's id
    is known yet (at first, or without processes). `claims` are jobs whose groups count once the batch system
    says that the job runs here. `apart` has jobs by id and place, where jobs at several places have one id.
    """

    keys: dict[int, Key]
    aliases: Mapping[JobKey, JobKey]
    ignored: Collection[Owner] = ()
    claims: Collection[JobKey] = ()
    apart: Mapping[Place, JobKey] = MappingProxyType({})

    def job_key(self, membership: Membership) -> JobKey | None:
        """Return a group's job, with the group's name if its id is not known yet; None: ignore the group."""
        if self.ignored and owner_of(membership) in self.ignored:
            return None
        return self.claimed(membership)

    def claimed(self, membership: Membership) -> JobKey:
        """Return the job that a group names, ``ID@PLACE`` if a job at another place has that id."""
        key = self.named(membership)
        return self.apart.get(place_of(key, membership), key) if self.apart else key

    def named(self, membership: Membership) -> JobKey:
        """Return the job that a group names, without regard to the place of the group."""
        key = JobKey(membership.batch_system, membership.name)
        return self.aliases.get(key, key)


def owner_of(membership: Membership) -> Owner:
    """Return batch system, job's name, uid and parent of a control group, as in `Attribution.ignored`."""
    return membership.batch_system, membership.name, membership.uid, membership.parent


def compute_epoch(boot_time_secs: int) -> int:
    """Return a boot time in seconds since 2020, by which Sonar distinguishes process groups across boots."""
    return boot_time_secs - SONAR_EPOCH_SECS


class _Number:
    """A process, process-group or session id that a job names, until the id is reused.

    The kernel reuses a number only after its process, group and session have ended. Their absence from one
    sample does not prove that: what is seen again with the same start time is the same process.
    """

    __slots__ = ("is_unsure", "seen", "spent", "start_ticks", "users")

    def __init__(self) -> None:
        self.seen = False
        self.spent = False
        self.is_unsure = False  # in the last sample it was not in use, or was another process's
        self.start_ticks: int | None = None  # of the process with this id, if it was ever seen
        self.users: dict[int, int] = {}  # start time by pid of the processes last seen with this id

    def observe(self, leader: ProcessSample | None, others: Collection[ProcessSample]) -> None:
        users = {each.pid: each.start_ticks for each in (*others, *((leader,) if leader else ()))}
        if not users:
            self.is_unsure = self.seen
            return
        if leader is not None and self.start_ticks is not None:
            is_same = leader.start_ticks == self.start_ticks
        elif self.seen and (self.is_unsure or leader is not None):
            is_same = not self.users.items().isdisjoint(users.items())
        else:
            is_same = True
        self.spent = self.is_unsure = not is_same
        if is_same:
            self.seen, self.users = True, users
            self.start_ticks = self.start_ticks if leader is None else leader.start_ticks


class _Member(NamedTuple):
    start_ticks: int
    key: JobKey
    seen_at: int  # number of the sample


class ProcessJobs:
    """Attributes processes to jobs whose batch system names their processes, process groups or sessions.

    A process belongs to a job if its pid or process group is in `Job.processes`, its session is in
    `Job.sessions`, or its parent belongs to it. It stays the job's until job or process ends, even if its
    parent changes. An id that the kernel has reused for another process no longer counts.
    """

    def __init__(self) -> None:
        self._members: dict[int, _Member] = {}  # by pid, including those missed recently
        self._number = 0
        self._numbers: dict[JobKey, dict[tuple[str, int], _Number]] = {}

    def update(self, processes: Mapping[int, ProcessSample], jobs: Mapping[JobKey, Job]) -> dict[int, JobKey]:
        """Return by pid the job of each process that has one, by one sample and the jobs known then."""
        naming = {key: job for key, job in jobs.items() if job.processes or job.sessions}
        if not naming and not self._members:
            self._numbers.clear()
            return {}
        self._number += 1
        groups, sessions = self._listed(processes, naming)
        found: dict[int, JobKey | None] = {}
        missed: dict[int, _Member] = {}
        for pid, member in self._members.items():
            process = processes.get(pid)
            if member.key not in jobs:
                continue
            if process is None and self._number - member.seen_at <= MISSED_SAMPLES:
                missed[pid] = member
            elif process is not None and process.start_ticks == member.start_ticks:
                found[pid] = member.key
        for pid in processes:
            if pid not in found:
                _resolve(pid, processes, groups, sessions, found)
        members = {pid: key for pid, key in found.items() if key is not None}
        self._members = missed | {
            pid: _Member(processes[pid].start_ticks, key, self._number) for pid, key in members.items()
        }
        return members

    def _listed(
        self, processes: Mapping[int, ProcessSample], naming: Mapping[JobKey, Job]
    ) -> tuple[dict[int, JobKey], dict[int, JobKey]]:
        """Return the jobs by process or process-group id, and by session id, without ids that were reused."""
        for key in self._numbers.keys() - naming.keys():
            del self._numbers[key]
        of_group: dict[int, list[ProcessSample]] = {}
        of_session: dict[int, list[ProcessSample]] = {}
        for process in processes.values() if naming else ():
            of_group.setdefault(process.pgid, []).append(process)
            of_session.setdefault(process.session, []).append(process)
        groups: dict[int, JobKey] = {}
        sessions: dict[int, JobKey] = {}
        for key, job in naming.items():
            known = self._numbers.setdefault(key, {})
            for kind, ids, users, valid in (
                ("group", job.processes, of_group, groups),
                ("session", job.sessions, of_session, sessions),
            ):
                for each in ids:
                    if each <= 0:  # 0 is the group and session of kernel threads
                        continue
                    number = known.setdefault((kind, each), _Number())
                    number.observe(processes.get(each), users.get(each, ()))
                    if not number.spent:
                        valid.setdefault(each, key)
        return groups, sessions


def _resolve(
    pid: int,
    processes: Mapping[int, ProcessSample],
    groups: Mapping[int, JobKey],
    sessions: Mapping[int, JobKey],
    found: dict[int, JobKey | None],
) -> None:
    """Find the job of one process by walking up its ancestors, and record it for all of them."""
    asked = []
    key = None
    while pid not in found:
        process = processes.get(pid)
        if process is None:
            break
        found[pid] = None  # ends a cycle, which only an inconsistent process table can have
        asked.append(pid)
        key = groups.get(pid) or groups.get(process.pgid) or sessions.get(process.session)
        if key is not None:
            break
        pid = process.ppid
    else:
        key = found[pid]
    for each in asked:
        found[each] = key
