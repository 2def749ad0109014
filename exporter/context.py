"""What one scrape is made of: everything is already read, nothing here changes any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from exporter.exposition import labels
from exporter.rates import cpu_secs_of
from exporter.snapshot import GroupKey, JobSample, Kind, Snapshot, UnitKey, WorkKey, kind_of
from jobfeatures.batch.source import SourceStatus
from jobfeatures.drains.drain import machine_shutdown
from jobfeatures.features.machine import Machine
from jobfeatures.model import Job, JobKey
from jobfeatures.publish.drainbook import DrainView
from jobfeatures.publish.publisher import PublisherStatus
from jobfeatures.status.board import StatusView
from jobfeatures.status.waste import compute_cpu_limit_secs

JOB = ("batch_system", "job_id")  # the labels that every series of a job carries


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The input of all collectors."""

    now_secs: float
    snapshot: Snapshot | None = None
    jobs: Mapping[JobKey, Job] = field(default_factory=dict)
    statuses: Mapping[JobKey, StatusView] = field(default_factory=dict)
    status_violations: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[SourceStatus, ...] = ()
    publisher: PublisherStatus | None = None
    feature_answers: Mapping[int, int] = field(default_factory=dict)  # over HTTP, by status
    machine: Machine = field(default_factory=Machine)
    kinds: frozenset[Kind] = frozenset({Kind.BATCH})  # whose series are shown
    drains: DrainView | None = None
    cpu_rates: Mapping[JobKey, float] = field(default_factory=dict)  # CPU seconds a second

    def jobs_here(self) -> dict[JobKey, Job]:
        """Return the jobs that occupy this node: known to run, or seen although no source tells of them."""
        here = {key: job for key, job in self.jobs.items() if job.state.is_on_node}
        if self.snapshot is not None:
            for key in self.snapshot.jobs:
                if isinstance(key, JobKey) and key not in here:
                    here[key] = self.jobs.get(key) or Job(key=key)
        return here

    def shown_samples(self) -> list[JobSample]:
        """Return what every job of the kinds that are shown uses."""
        if self.snapshot is None:
            return []
        return [sample for key, sample in self.snapshot.jobs.items() if kind_of(key) in self.kinds]

    def cpu_remaining_secs(self, key: JobKey) -> float | None:
        """Return the seconds until a job has used up its CPU limit; None where that is not known.

        Of a job on several nodes only a part of its use is seen here.
        """
        job = self.jobs.get(key)
        sample = self.snapshot.jobs.get(key) if self.snapshot is not None else None
        if job is None or sample is None or len(job.nodes) > 1:
            return None
        used_secs = cpu_secs_of(sample)
        if used_secs is None or not isinstance(job.limits.cpu_secs, int):
            return None
        return compute_cpu_limit_secs(
            limit_secs=job.limits.cpu_secs,
            used_secs=used_secs,
            rate_cpus=self.cpu_rates.get(key),
            allocated_cpus=job.allocated_cpus,
        )

    def shutdown_secs(self, job: Job) -> int | None:
        """Return when the node or the job has to end (epoch seconds), whichever comes first."""
        if self.drains is None:
            return None
        times = (machine_shutdown(self.drains.drains, self.drains.announced), self.drains.job_shutdown(job))
        return min((each for each in times if each is not None), default=None)


@lru_cache(maxsize=65536)
def job_labels(key: WorkKey) -> str:
    """Return the labels that identify a job; units stand under their kind, groups carry their epoch."""
    if isinstance(key, GroupKey):
        return labels(batch_system="none", job_id=f"{key.pgid}@{key.epoch}")
    if isinstance(key, UnitKey):
        return labels(batch_system=key.kind.value, job_id=key.name)
    return labels(batch_system=key.batch_system, job_id=key.job_id)


@lru_cache(maxsize=65536)
def job_labels_with(key: WorkKey, name: str, value: str) -> str:
    """Return `job_labels` with one more label."""
    return f"{job_labels(key)},{labels(**{name: value})}"
