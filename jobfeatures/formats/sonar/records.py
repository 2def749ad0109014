"""The jobs and clusters in Sonar's envelopes, as frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobfeatures.errors import Rejected
from jobfeatures.records.model import Cluster, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobRecord:
    """One record of a job or, if `step` is not empty, of one of its steps."""

    job: Job
    step: str
    node_count: int | None
    exit_code: int | None
    allocated: Mapping[str, str]  # trackable resources by name, as Slurm writes them
    requested: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """Partitions and nodes of a cluster; its time is the cluster's `taken_at_secs`, 0 if empty."""

    cluster: str
    state: Cluster
    rejected: tuple[Rejected, ...] = ()
