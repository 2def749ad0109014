"""A job that has ended on this node, as it is shown for a while: a frozen record."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.records.model import Job
from jobfeatures_exporter.model.snapshot import JobGpu, JobSample


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is no longer seen on the node: its last figures, and what was known about it."""

    sample: JobSample
    job: Job
    ended_at_secs: float  # since the epoch: by its batch system, else when it was noticed
    gpus: tuple[JobGpu, ...] = ()
