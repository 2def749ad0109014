"""Which run of a job is here, and what is known of it: docs/evidence.md says when another one begins."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence, Set

from jobfeatures.jobs.evidence import is_another_run
from jobfeatures.records.model import Alias, Job, JobKey, fill_unknown
from jobfeatures_exporter.model.snapshot import JobSample, ProcessIo, ProcessSample
from jobfeatures_exporter.sampling.bpf.byjob import Sums
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup
from jobfeatures_exporter.sampling.groups.endings import SHEPHERD_COMMANDS
from jobfeatures_exporter.sampling.groups.ledger import JobLedger
from jobfeatures_exporter.sampling.groups.steps import StepBook
from jobfeatures_exporter.sampling.layout.hierarchies import IDLE_STEPS, name_place
from jobfeatures_exporter.sampling.parsers.cgroupfiles import NO_CPU_TIME
from jobfeatures_exporter.sampling.processes.members import Members
from jobfeatures_exporter.sampling.stages.values import LookFacts


class JobRun:
    """What is known of a job's present run. `ledger` has what was used, also by earlier ones."""

    __slots__ = (
        *("alive", "by_cgroup", "has_come", "heard", "io", "is_over", "last", "ledger", "nodes"),
        *("number", "own_place", "owner", "place", "reported", "seen", "told", "uid"),
    )

    def __init__(self, ledger: JobLedger, number: int) -> None:
        self.number = number  # no other run of any job has it; later runs have greater ones
        self.ledger = ledger
        self.heard: Job | None = None  # what its batch system or its prolog said last
        self.told: Job | None = None  # all that they have said of this run
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
        self.seen: tuple[object, ...] | None = None  # what tells whether the job stands still


class JobRuns:
    """The present run of each job."""

    def __init__(self, members: Members, steps: StepBook | None) -> None:
        self._members = members
        self._steps = steps
        self._runs: dict[JobKey, JobRun] = {}
        self._numbers = itertools.count()

    def forget_others(self, keys: Collection[object]) -> None:
        """Forget the runs of jobs that are not among `keys`: they have ended."""
        for ended in self._runs.keys() - keys:
            del self._runs[ended]

    def present(
        self, key: JobKey, cgroups: Sequence[JobCgroup], processes: Sequence[ProcessSample], facts: LookFacts
    ) -> JobRun:
        """Return the present run of a job, which may begin now."""
        named = [each.directory.membership for each in cgroups]
        place = name_place(named[0].parent) if named else None
        owner = next((found for each in named if (found := each.owner) is not None), None)
        job = facts.jobs.get(key)
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = JobRun(JobLedger(), next(self._numbers))
        here = {each.directory.cpu_source for each in cgroups if not each.has_gone}
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
            is_other = is_other or (self.uid(cgroups, processes, facts.sums) or run.uid) != run.uid
        if job is not None and run.told is not None and (run.is_over or job is not run.heard):
            is_other = is_other or is_another_run(run.told, job, was_over=run.is_over)
        if is_other:
            if self._steps is not None:
                self._steps.begin_run(key)
            run.ledger.begin_run()
            run = self._runs[key] = JobRun(run.ledger, next(self._numbers))
        run.alive = alive
        run.nodes = run.nodes | nodes
        run.owner = owner if run.owner is None else run.owner
        if job is not None:
            if job is not run.heard:
                run.told = job if run.told is None else fill_unknown(job, run.told)
            run.heard, run.is_over, run.has_come = job, False, False
        return run

    def uid(
        self, cgroups: Sequence[JobCgroup], processes: Sequence[ProcessSample], summed: Mapping[str, Sums]
    ) -> int | None:
        """Return the uid of a job's user, from its groups' paths if these agree, else from its processes."""
        uids = path_uids(cgroups)
        if len(uids) == 1 and (uid := uids.pop()) is not None:
            return uid
        for each in cgroups:
            sums = summed.get(each.directory.cpu_source)
            if sums is not None and sums.user is not None:
                return sums.user
        owners = set()
        for process in processes:
            membership = self._members.attributed.get(process.pid)
            if membership is not None and membership.uid is not None:
                return membership.uid
            if process.command in SHEPHERD_COMMANDS:
                continue
            owner = self._members.uid(process.pid)
            if owner:  # not root: any job may run set-user-ID programs
                return owner
            if membership is None or membership.step != IDLE_STEPS.get(membership.batch_system):
                owners.add(owner)
        return 0 if 0 in owners else None


def path_uids(cgroups: Sequence[JobCgroup]) -> set[int | None]:
    """Return the uids in the paths of control groups, None where one has none."""
    return {each.directory.membership.uid for each in cgroups}
