"""The data that one scrape or HTML page shows: a record that is complete when made and not changed later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.drains.drain import machine_shutdown
from jobfeatures.features import keys
from jobfeatures.features.machine import Machine
from jobfeatures.jobs.evidence import HOOKS, Finding
from jobfeatures.publish.drainbook import DrainView
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, multiplied
from jobfeatures.status.board import StatusView
from jobfeatures.status.waste import (
    NodeJob,
    cap_waste,
    compute_cpu_limit_secs,
    compute_draining_waste,
    compute_expected_end,
    compute_kill_waste,
)
from jobfeatures_exporter.families.exposition import Values
from jobfeatures_exporter.families.rows import KeptRows
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.hardware import SysinfoSample
from jobfeatures_exporter.model.missing import JobsWithoutGroup
from jobfeatures_exporter.model.snapshot import (
    GroupKey,
    JobGpu,
    JobSample,
    Kind,
    Snapshot,
    WorkKey,
    cpu_secs_of,
    kind_of,
)
from jobfeatures_exporter.model.statuses import LastReload, WebStatus

if TYPE_CHECKING:  # not needed on most nodes
    from jobfeatures.publish.publisher import PublisherStatus
    from jobfeatures.records.administration import AdministrationAnswer
    from jobfeatures.records.schedulequality import ScheduleQuality
    from jobfeatures_exporter.cluster.sums import ClusterSums, QueueSums
    from jobfeatures_exporter.model.statuses import SinkStatus


class LimitEnd(NamedTuple):
    """When the limits of a job end it; a field is None if unknown or unlimited.

    `wall_end_secs` is the Unix time at which its wall limit is reached, `cpu_remaining_secs` the number of
    seconds until its CPU limit is reached.
    """

    wall_end_secs: float | None
    cpu_remaining_secs: float | None


class OwnWaste(NamedTuple):
    """What draining or killing a job would waste, with its expected end.

    `own` has the waste as the job reports it, or an estimate if it reports nothing. `counted` is the same,
    but at most what its allocated CPUs can do until the expected end (draining) or could do since the start
    (killing), in case the job reports too much.
    """

    own: NodeJob
    counted: NodeJob


@dataclass(frozen=True, kw_only=True)
class Context:
    """All data that one scrape or HTML page shows; values that several collectors need are computed once.

    `leftovers` has the ended jobs with processes left, and the Unix time when their end was reported. `ended`
    has jobs that have just ended, `findings` whether each job is here, as the daemon has concluded, and
    `status_violations` counts faults in $JOBSTATUS by kind. `queues` to `administration` are about whole
    clusters, in the controller role. `kinds` are the kinds of work that are shown, `rows` is a cache of jobs'
    samples on the last page. `faulty` counts documents for Sonar that were not sent, `sonar_unreadable`
    failed reads for these documents.
    """

    now_secs: float
    snapshot: Snapshot | None = None
    jobs: Mapping[JobKey, Job] = field(default_factory=dict)
    leftovers: Mapping[JobKey, float] = field(
        default_factory=dict
    )  # ended jobs with processes left; when their end was reported
    statuses: Mapping[JobKey, StatusView] = field(default_factory=dict)
    status_violations: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[KeeperStatus[Any], ...] = ()
    queues: tuple[QueueSums, ...] = ()  # of whole clusters, in the controller role
    clusters: tuple[ClusterSums, ...] = ()
    schedules: tuple[ScheduleQuality, ...] = ()
    administration: tuple[
        AdministrationAnswer, ...
    ] = ()  # scheduler, licences, shares and reservations, by batch system
    top_users: int = 20  # users of a cluster with series of their own
    publisher: PublisherStatus | None = None
    feature_answers: Mapping[int, int] = field(default_factory=dict)  # over HTTP, by status
    machine: Machine = field(default_factory=Machine)
    kinds: frozenset[Kind] = frozenset({Kind.BATCH})  # whose series are shown
    drains: DrainView | None = None
    cpu_rates: Mapping[JobKey, float] = field(default_factory=dict)  # CPU seconds per second
    node_busy_cpus: float | None = None  # the same for the whole node
    ended: Mapping[JobKey, EndedJob] = field(default_factory=dict)  # their last values are shown for a while
    node_name: str = ""  # as the batch system spells it
    reload: LastReload | None = None
    sysinfo: SysinfoSample | None = None  # without pictures and cards
    sinks: tuple[SinkStatus, ...] = ()
    faulty: Mapping[str, int] = field(default_factory=dict)  # own documents not sent, by type
    sonar_unreadable: Mapping[str, int] = field(default_factory=dict)  # readings for documents, by kind
    web: WebStatus | None = None
    rows: KeptRows = field(default_factory=KeptRows)  # of the last page
    findings: Mapping[JobKey, Finding] = field(default_factory=dict)  # conclusions from the evidence
    missing_groups: JobsWithoutGroup = field(default_factory=JobsWithoutGroup)

    @cached_property
    def jobs_here(self) -> dict[JobKey, Job]:
        """Return the jobs on this node: reported as running on it, or seen on it though unreported."""
        here = {
            key: job for key, job in self.jobs.items() if job.state.is_on_node and key not in self.leftovers
        }
        left = self.leftovers.keys() | self._over
        for key in self._seen:
            if isinstance(key, JobKey) and key not in here and key not in left:
                here[key] = self.jobs.get(key) or _unknown(key)
        return here

    @cached_property
    def _seen(self) -> Mapping[WorkKey, JobSample]:
        return {} if self.snapshot is None else self.snapshot.jobs

    @cached_property
    def jobs_of_empty_groups(self) -> frozenset[JobKey]:
        """Return the jobs of which only a control group without processes is left.

        Their batch system does not know these jobs, reports that they are not on this node, or is not polled.
        If it is polled but fails, its jobs are left out: they may still start processes in their groups.
        """
        return frozenset(
            key
            for key, sample in self._seen.items()
            if sample.in_group
            and not sample.processes
            and isinstance(key, JobKey)
            and self._is_denied(key, sample)
        )

    @cached_property
    def _over(self) -> frozenset[JobKey]:
        """Return the jobs that are over here although a control group without processes may be left."""
        seen = self._seen
        return self.jobs_of_empty_groups | {
            key for key in self.ended if key not in seen or not seen[key].processes
        }

    def _is_denied(self, key: JobKey, sample: JobSample) -> bool:
        if (job := self.jobs.get(key)) is not None and job.state is not JobState.UNKNOWN:
            return not job.state.is_on_node
        if not any(each.name == key.batch_system for each in self.sources):
            return True
        tables = [
            each.table for each in self.sources if not each.last_error and each.name == key.batch_system
        ]
        if sample.alias and sample.alias.stands_for(key):  # a known job is listed under its own id
            return any(isinstance(each, JobTable) and each.complete for each in tables)
        return any(isinstance(each, JobTable) and each.absent_at_secs(key) is not None for each in tables)

    @cached_property
    def ended_with_processes(self) -> dict[JobKey, float]:
        """Return the ended jobs with processes still here, and the Unix time when their end was reported."""
        return {key: reported_secs for key, reported_secs in self.leftovers.items() if key in self._seen}

    @property
    def allocatable_cpus(self) -> int | None:
        """Return how many CPUs of this node jobs can be allocated; None if unknown.

        The number is that of the settings, else the one that batch systems report, else all CPUs of the
        machine.
        """
        given = self._given_cpus
        return self.machine.total_cpus if given is None or self._states_cpus else given

    @property
    def _given_cpus(self) -> int | None:
        """Return the CPUs that batch systems report they can allocate here."""
        tables = (source.table for source in self.sources if isinstance(source.table, JobTable))
        return max((table.node.cpus for table in tables if table.node and table.node.cpus), default=None)

    @property
    def _states_cpus(self) -> bool:
        return keys.TOTAL_CPU.name in self.machine.origins

    @property
    def whole_node_jobs(self) -> dict[JobKey, bool]:
        """Return whether each job on this node has all of it to itself; unknown: the job is left out.

        A job has the node to itself if all allocatable CPUs are allocated to it, and neither another job nor
        a process of an ended job is here. If nobody reports the number of allocatable CPUs, all CPUs of the
        machine count.
        """
        jobs = self.jobs_here
        if len(jobs.keys() | self.ended_with_processes.keys()) > 1:
            return dict.fromkeys(jobs, False)
        given = self._given_cpus
        total = given or self.machine.total_cpus
        found: dict[JobKey, bool] = {}
        for key, job in jobs.items():
            if total is None or job.allocated_cpus is None:
                continue
            if job.allocated_cpus < total:
                if given is not None or self._states_cpus:
                    found[key] = False
            elif self.jobs_are_known:  # otherwise a job not reported yet could be here
                found[key] = True
        return found

    @property
    def jobs_are_known(self) -> bool:
        """Return whether each polled batch system has reported its jobs; False if none is polled."""
        asked = [source for source in self.sources if source.name != HOOKS]
        return bool(asked) and all(source.table is not None for source in asked)

    @cached_property
    def shown_samples(self) -> list[JobSample]:
        """Return the latest sample of all work of the kinds that settings show, ended jobs included."""
        return self._samples(self.kinds)

    @cached_property
    def batch_samples(self) -> list[JobSample]:
        """Return the latest sample of every batch job, ended ones included, even if jobs are not shown."""
        return self._samples(frozenset({Kind.BATCH}))

    @cached_property
    def shown_jobs(self) -> dict[JobKey, Job]:
        """Return the jobs that occupy this node, have just ended here, or have left processes behind."""
        ended = {key: each.job for key, each in self._ended_only.items()}
        leftovers = {key: self.jobs.get(key) or _unknown(key) for key in self.ended_with_processes}
        return {**ended, **leftovers, **self.jobs_here}

    @cached_property
    def shown_job_gpus(self) -> list[JobGpu]:
        """Return the latest use of each GPU by each job that is shown, recently ended jobs included."""
        if self.snapshot is None:
            return []
        shown = [each for each in self.snapshot.job_gpus if kind_of(each.key) in self.kinds]
        if Kind.BATCH in self.kinds:
            still_there = {each.key for each in shown}
            ended = ((key, each.gpus) for key, each in self._ended_only.items())
            shown += [each for key, gpus in ended if key not in still_there for each in gpus]
        return shown

    @cached_property
    def end_times_secs(self) -> dict[JobKey, float]:
        """Return the Unix time at which each ended job that is still shown ended."""
        ended = {
            key: each.ended_at_secs
            for key, each in self._ended_only.items()
            if key not in self.jobs or not self.jobs[key].state.is_on_node
        }
        for key, reported_secs in self.ended_with_processes.items():
            job = self.jobs.get(key)
            ended[key] = reported_secs if job is None or job.end_secs is None else float(job.end_secs)
        return ended

    def _samples(self, kinds: frozenset[Kind]) -> list[JobSample]:
        polled = {each.name for each in self.sources}
        gone = {key for key in self._over if key in self.ended or key.batch_system in polled}
        found = [sample for key, sample in self._seen.items() if kind_of(key) in kinds and key not in gone]
        if Kind.BATCH in kinds and self.snapshot is not None:
            found += [each.sample for each in self._ended_only.values()]
        return found

    @cached_property
    def _ended_only(self) -> dict[JobKey, EndedJob]:
        return {key: each for key, each in self.ended.items() if key in self._over}

    def wall_end_secs(self, job: Job) -> float | None:
        """Return the Unix time, by this node's clock, at which a job reaches its wall limit.

        None if the limit is unknown or there is none.
        """
        ahead_secs = self._clocks_ahead_secs.get(job.key.batch_system, 0.0)
        end_secs = job.end_limit_at(self.now_secs + ahead_secs)
        return None if end_secs is None else end_secs - ahead_secs

    @cached_property
    def _clocks_ahead_secs(self) -> dict[str, float]:
        tables = [source.table for source in self.sources if isinstance(source.table, JobTable)]
        return {table.source: table.clock_ahead_secs or 0.0 for table in tables}

    @cached_property
    def limit_ends(self) -> dict[JobKey, LimitEnd]:
        """Return, for each job on this node, when its wall limit and its CPU limit end it."""
        jobs = self.jobs_here.items()
        return {key: LimitEnd(self.wall_end_secs(job), self.cpu_remaining_secs(key)) for key, job in jobs}

    def cpu_remaining_secs(self, key: JobKey) -> float | None:
        """Return the seconds until a job reaches its CPU limit at its present rate; None if unknown.

        A CPU limit that is only the wall limit times the CPUs is nobody's: it is not reached before that,
        even if the job uses more, as its CPUs may be cores of two threads.
        """
        job, sample = self.jobs.get(key), self._seen.get(key)
        if job is None or sample is None or not isinstance(job.limits.cpu_secs, int) or len(job.nodes) > 1:
            return None
        used_secs = cpu_secs_of(sample)
        if used_secs is None:
            return None
        left_secs = compute_cpu_limit_secs(
            limit_secs=job.limits.cpu_secs,
            used_secs=used_secs,
            rate_cpus=self.cpu_rates.get(key),
            allocated_cpus=job.allocated_cpus,
        )
        end_secs = self.wall_end_secs(job)
        is_own = job.limits.cpu_secs != multiplied(job.limits.wall_secs, job.allocated_cpus)
        if left_secs is None or end_secs is None or is_own:
            return left_secs
        return max(left_secs, end_secs - self.now_secs)

    def shutdown_secs(self, job: Job) -> int | None:
        """Return the Unix time at which a drain of the node or job first ends the job; None: no drain."""
        if self.drains is None:
            return None
        machine, own = self._machine_shutdown_secs, self.drains.job_shutdown(job)
        return machine if own is None or (machine is not None and machine < own) else own

    @cached_property
    def _machine_shutdown_secs(self) -> int | None:
        return None if self.drains is None else machine_shutdown(self.drains.drains, self.drains.announced)

    @cached_property
    def own_wastes(self) -> dict[JobKey, OwnWaste]:
        """Return the expected end of each job on this node, and what draining or killing it would waste."""
        return {key: self._own_waste(key, job) for key, job in self.jobs_here.items()}

    def _own_waste(self, key: JobKey, job: Job) -> OwnWaste:
        view = self.statuses.get(key)
        status = view.status if view is not None else None
        sample = self._seen.get(key)
        wall_end_secs, cpu_secs = self.limit_ends[key]
        cpus, now_secs = job.allocated_cpus, self.now_secs
        cpu_end_secs = None if cpu_secs is None else now_secs + cpu_secs
        limits = (wall_end_secs, job.deadline_secs, cpu_end_secs)
        # CPU time says little about a job that works on GPUs.
        used_secs = None if sample is None or job.allocated_gpus else cpu_secs_of(sample)
        if status is None and used_secs is not None:
            return _measured_waste(cpus, limits, used_secs)
        end, basis = compute_expected_end(status, limit_ends_secs=limits)
        draining = compute_draining_waste(status, allocated_cpus=cpus, now_secs=now_secs)
        kill = compute_kill_waste(
            status, allocated_cpus=cpus, start_secs=job.start_secs, now_secs=now_secs, cpu_secs=used_secs
        )
        own = NodeJob(cpus, end, basis, draining, kill)
        if status is None:  # only a job's own reports can exceed what its CPUs can waste
            return OwnWaste(own, own)
        most_draining = cap_waste(draining, allocated_cpus=cpus, from_secs=now_secs, to_secs=end)
        most_kill = cap_waste(kill, allocated_cpus=cpus, from_secs=job.start_secs, to_secs=now_secs)
        if most_draining is draining and most_kill is kill:
            return OwnWaste(own, own)
        return OwnWaste(own, own._replace(draining=most_draining, kill=most_kill))


@lru_cache(4096)
def _unknown(key: JobKey) -> Job:
    """Return a job of which nothing but its key is known: the same object each time."""
    return Job(key=key)


@lru_cache(4096)
def _measured_waste(cpus: int | None, ends_secs: tuple[float | None, ...], used_secs: float) -> OwnWaste:
    """Return the waste of a job that reports nothing but whose use is known: independent of the time."""
    end, basis = compute_expected_end(None, limit_ends_secs=ends_secs)
    draining = compute_draining_waste(None, allocated_cpus=cpus, now_secs=0)
    kill = compute_kill_waste(None, allocated_cpus=cpus, start_secs=None, now_secs=0, cpu_secs=used_secs)
    own = NodeJob(cpus, end, basis, draining, kill)
    return OwnWaste(own, own)


def job_labels(key: WorkKey) -> Values:
    """Return the values of the labels `batch_system` and `job_id` for a job, or for other work.

    For a container, service or session these are its kind and name, for a process group ``none`` and
    ``PGID@EPOCH`` (see `GroupKey`).
    """
    if isinstance(key, JobKey):
        return key
    if isinstance(key, GroupKey):
        return "none", f"{key.pgid}@{key.epoch}"
    return key.kind.value, key.name
