"""Attributes processes to jobs by ids and by their parents. No I/O.

Attribution by control groups is in `layout.hierarchies`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures.batch.groups import Membership
from jobfeatures.batch.processes import ActiveJob
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample, UnitKey
from jobfeatures_exporter.sampling.processes.accumulate import MISSED_SAMPLES
from jobfeatures_exporter.sampling.processes.samenumber import Place, place_of

SONAR_EPOCH_SECS = 1577836800  # 2020-01-01T00:00:00Z
CLOCK_SKEW_SECS = 300  # between the clock that tells a job's start and the node's


# Within a sample a process group is a bare number: most processes have no
# job, and a number hashes faster than a record.
Key = JobKey | UnitKey | int
Owner = tuple[str, str, int | None, str]  # batch system, job name, uid and parent in a control group's path


class Owners(NamedTuple):
    """What was read of processes in order to attribute them, by pid.

    `memberships` has the job that a process's control group names, `units` its container, service or session,
    and `uids` its effective uid. `by_group` has the pids that have a supplementary group id. `active` has
    jobs found in batch systems' own files.
    """

    memberships: Mapping[int, Membership] = MappingProxyType({})
    units: Mapping[int, UnitKey] = MappingProxyType({})
    uids: Mapping[int, int] = MappingProxyType({})
    by_group: Mapping[int, Collection[int]] = MappingProxyType({})
    active: Mapping[JobKey, ActiveJob] = MappingProxyType({})


class Attribution(NamedTuple):
    """To which job or other work each process and each control group of one sample belongs.

    `keys` has the job, unit or process group of each process, by pid. `aliases` has the job for each name
    that control groups use instead of the job's id. `ignored` are the owners (see `owner_of`) whose groups do
    not count: those of another or an earlier job with the same id, and those whose job is not known yet.
    `unconfirmed` are jobs whose groups count once the batch system says that the job runs on this node.
    `keys_by_place` has the job by id and place, if jobs at several places have the same id.
    """

    keys: dict[int, Key]
    aliases: Mapping[JobKey, JobKey]
    ignored: Collection[Owner] = ()
    unconfirmed: Collection[JobKey] = ()
    keys_by_place: Mapping[Place, JobKey] = MappingProxyType({})

    def job_key(self, membership: Membership) -> JobKey | None:
        """Return the job that a control group belongs to; None if the group is to be ignored.

        While the job's id is not known, the key has the name that the group has instead.
        """
        if self.ignored and owner_of(membership) in self.ignored:
            return None
        return self.claimed(membership)

    def claimed(self, membership: Membership) -> JobKey:
        """Return the job that a group names, with the id ``ID@PLACE`` if a job elsewhere has the same id."""
        key = self.named(membership)
        return self.keys_by_place.get(place_of(key, membership), key) if self.keys_by_place else key

    def named(self, membership: Membership) -> JobKey:
        """Return the job that a group names, whatever the place of the group."""
        key = JobKey(membership.batch_system, membership.name)
        return self.aliases.get(key, key)


def owner_of(membership: Membership) -> Owner:
    """Return what identifies a control group's owner: batch system, job's name, uid and parent's path."""
    return membership.batch_system, membership.name, membership.uid, membership.parent


def compute_epoch(boot_time_secs: int) -> int:
    """Convert a boot time from Unix time to seconds since 2020-01-01 00:00 UTC.

    Process groups of different boots may have the same id. Sonar tells them apart by the boot time in this
    form, which it calls ``epoch``.
    """
    return boot_time_secs - SONAR_EPOCH_SECS


def without_lost_ids(jobs: Mapping[JobKey, Job], boot_time_secs: int | None) -> Mapping[JobKey, Job]:
    """Return the jobs, those that began before the node's boot (epoch seconds; None: unknown) without ids.

    Their processes are gone: the ids that a record still names, such as a file that a crash has left, are
    those of others now.
    """
    before = (boot_time_secs or 0) - CLOCK_SKEW_SECS
    lost = {
        key: replace(job, processes=frozenset(), sessions=frozenset())
        for key, job in jobs.items()
        if (job.processes or job.sessions) and job.start_secs is not None and job.start_secs < before
    }
    return {**jobs, **lost} if lost else jobs


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
    """Attributes processes to jobs whose batch system reports their processes, process groups or sessions.

    A process belongs to a job if its pid or process group is in `Job.processes`, its session is in
    `Job.sessions`, or its parent belongs to the job. It stays the job's until the job or the process ends,
    even if its parent changes. An id that the kernel has reused for another process no longer counts.
    """

    def __init__(self) -> None:
        self._members: dict[int, _Member] = {}  # by pid, including those missed recently
        self._number = 0
        self._numbers: dict[JobKey, dict[tuple[str, int], _Number]] = {}

    def update(self, processes: Mapping[int, ProcessSample], jobs: Mapping[JobKey, Job]) -> dict[int, JobKey]:
        """Return the job of each process that has one, by pid, given one sample and the jobs known then."""
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
