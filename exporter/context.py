"""What one scrape is made of: everything is already read, nothing here changes any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from exporter.exposition import labels
from exporter.snapshot import GroupKey, Snapshot
from jobfeatures.batch.source import SourceStatus
from jobfeatures.features.machine import Machine
from jobfeatures.model import Job, JobKey
from jobfeatures.publish.publisher import PublisherStatus
from jobfeatures.status.board import StatusView

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
    machine: Machine = field(default_factory=Machine)
    show_groups: bool = False

    def jobs_here(self) -> dict[JobKey, Job]:
        """Return the jobs that occupy this node: known to run, or seen although no source tells of them."""
        here = {key: job for key, job in self.jobs.items() if job.state.is_on_node}
        if self.snapshot is not None:
            for key in self.snapshot.jobs:
                if isinstance(key, JobKey) and key not in here:
                    here[key] = self.jobs.get(key) or Job(key=key)
        return here


@lru_cache(maxsize=65536)
def job_labels(key: JobKey | GroupKey) -> str:
    """Return the labels that identify a job; process groups without a job carry their epoch."""
    if isinstance(key, GroupKey):
        return labels(batch_system="none", job_id=f"{key.pgid}@{key.epoch}")
    return labels(batch_system=key.batch_system, job_id=key.job_id)


@lru_cache(maxsize=65536)
def job_labels_with(key: JobKey | GroupKey, name: str, value: str) -> str:
    """Return `job_labels` with one more label."""
    return f"{job_labels(key)},{labels(**{name: value})}"
