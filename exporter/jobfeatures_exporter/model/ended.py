"""A job that has ended on this node: a frozen record, kept so that the job is still shown for a while."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.records.model import Job
from jobfeatures_exporter.model.snapshot import JobGpu, JobSample


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is no longer seen on the node: its last sample, and what was known about it.

    `ended_at_secs` is the Unix time of its end by its batch system, else when the end was noticed.
    """

    sample: JobSample
    job: Job
    ended_at_secs: float  # since the epoch: by its batch system, else when it was noticed
    gpus: tuple[JobGpu, ...] = ()
