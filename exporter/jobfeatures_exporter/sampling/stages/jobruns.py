"""Finds which run of each job is on this node, and keeps what is known of the run.

A requeued job runs several times; docs/evidence.md says when a run begins.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence, Set

from jobfeatures.jobs.evidence import is_another_run
from jobfeatures.records.model import Alias, Job, JobKey, fill_unknown
from jobfeatures_exporter.model.snapshot import JobSample, ProcessIo, ProcessSample
from jobfeatures_exporter.sampling.groups.endings import SUPERVISOR_COMMANDS
from jobfeatures_exporter.sampling.groups.ledger import JobLedger
from jobfeatures_exporter.sampling.layout.hierarchies import IDLE_STEPS, name_place
from jobfeatures_exporter.sampling.parsers.cgroupfiles import NO_CPU_TIME
from jobfeatures_exporter.sampling.processes.attribution import Owners
from jobfeatures_exporter.sampling.stages.values import GroupReading, JobReading


class JobRun:
    """What is known of a job's present run; `ledger` has what this and the job's earlier runs have used."""

    __slots__ = (
        *("alive", "by_cgroup", "has_come", "io", "is_over", "last", "latest", "ledger", "nodes"),
        *("number", "own_place", "owner", "place", "reported", "known", "uid"),
    )

    def __init__(self, ledger: JobLedger, number: int) -> None:
        self.number = number  # no other run of any job has it; later runs have greater ones
        self.ledger = ledger
        self.latest: Job | None = None  # what its batch system or its prolog told last
        self.known: Job | None = None  # all that they have said of this run
        self.is_over = False  # it was said to be here, then no longer, while it had no process
        self.has_come = False  # since then it has had some
        self.alive: Set[object] = frozenset()  # its control groups, else its processes, at the last sample
        self.owner: Alias | int | None = None  # as the control group's path tells
        self.place: str | None = None  # of its control groups; "": an ordinary one
        self.nodes: Set[str] = frozenset()  # in their paths
        self.own_place = ""  # what its id has beside its number
        self.io: ProcessIo | None = None
        self.by_cgroup = False  # once the kernel has counted CPU time for the job, always True
        self.reported = NO_CPU_TIME
        self.uid: int | None = None
        self.last: JobSample | None = None  # the last record; later ones without control groups do not count


class JobRuns:
    """Keeps the present run of each job. A new run begins when a job starts again, as after a requeue."""

    def __init__(self) -> None:
        self._runs: dict[JobKey, JobRun] = {}
        self._numbers = itertools.count()

    def forget_others(self, keys: Collection[object]) -> None:
        """Forget the runs of jobs that are not among `keys`, as they have ended."""
        for ended in self._runs.keys() - keys:
            del self._runs[ended]

    def present(
        self,
        key: JobKey,
        reading: JobReading,
        processes: Sequence[ProcessSample],
        owners: Owners,
        job: Job | None,
    ) -> JobRun:
        """Return the present run of a job: the known one, or a new one if another run has begun.

        `job` is what its batch system reports (None: nothing); the rest was read in this sample.
        """
        groups = reading.groups
        named = [each.directory.membership for each in groups]
        place = name_place(named[0].parent) if named else None
        owner = next((found for each in named if (found := each.owner) is not None), None)
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = JobRun(JobLedger(), next(self._numbers))
        here = {each.directory.unique_name for each in groups if not each.has_gone}
        alive: Set[object] = here or {each.pid for each in processes}
        if run.alive and not run.has_come and not alive & run.alive:
            run.ledger.mark()  # all that it consists of is new
        is_other = owner is not None and run.owner not in {None, owner}
        is_other = is_other or (place is not None and run.place not in {None, place})
        nodes = {each.node for each in named if each.node is not None}
        if nodes and run.nodes and nodes.isdisjoint(run.nodes):
            is_other = is_other or job is None or not job.nodes or not run.nodes | nodes <= {*job.nodes}
        if run.uid and run.last is not None and not run.last.processes:
            # Its group was empty before, so it may have been reused for another user's job.
            is_other = is_other or (find_uid(groups, processes, owners) or run.uid) != run.uid
        if job is not None and run.known is not None and (run.is_over or job is not run.latest):
            is_other = is_other or is_another_run(run.known, job, was_over=run.is_over)
        if is_other:
            run.ledger.begin_run()
            run = self._runs[key] = JobRun(run.ledger, next(self._numbers))
        run.alive = alive
        run.nodes = run.nodes | nodes
        run.owner = owner if run.owner is None else run.owner
        if job is not None:
            if job is not run.latest:
                run.known = job if run.known is None else fill_unknown(job, run.known)
            run.latest, run.is_over, run.has_come = job, False, False
        return run


def find_uid(
    groups: Sequence[GroupReading], processes: Sequence[ProcessSample], owners: Owners
) -> int | None:
    """Return a job's uid: from its groups' paths if they agree, else from its processes; None if unknown."""
    uids = path_uids(groups)
    if len(uids) == 1 and (uid := uids.pop()) is not None:
        return uid
    for each in groups:
        if each.sums is not None and each.sums.user is not None:
            return each.sums.user
    found = set()
    for process in processes:
        membership = owners.memberships.get(process.pid)
        if membership is not None and membership.uid is not None:
            return membership.uid
        if process.command in SUPERVISOR_COMMANDS:
            continue
        owner = owners.uids.get(process.pid)
        if owner:  # not root: any job may run set-user-ID programs
            return owner
        if membership is None or membership.step != IDLE_STEPS.get(membership.batch_system):
            found.add(owner)
    return 0 if 0 in found else None


def path_uids(groups: Sequence[GroupReading]) -> set[int | None]:
    """Return the uids in the paths of these control groups; None stands for a path without a uid."""
    return {each.directory.membership.uid for each in groups}
