"""A whole cluster at one moment, for its page: each node and each job counted once. Pure.

Made when the page is requested; the sums stored for scrapes are by partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jobfeatures.records.model import Cluster, JobState, JobTable
from jobfeatures_exporter.cluster.draincurves import DrainCurve, compute_drain_curves
from jobfeatures_exporter.cluster.sums import ClusterSums, compute_cluster_sums


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The answers of one batch system; None: not answered yet."""

    source: str
    nodes: ClusterSums | None  # under an empty partition name
    running_jobs: int | None
    pending_jobs: int | None
    curves: tuple[DrainCurve, ...] = ()


def compute_cluster_view(
    source: str, queue: JobTable | None, cluster: Cluster | None, *, now_secs: float
) -> ClusterView:
    """Return the view from the latest answers."""
    states = [] if queue is None else [(job.state, job.tasks) for job in queue.jobs.values()]
    curves: tuple[DrainCurve, ...] = ()
    if queue is not None and cluster is not None:
        curves = compute_drain_curves(queue, cluster, now_secs=now_secs)
    return ClusterView(
        source=source,
        nodes=None if cluster is None else compute_cluster_sums(replace(cluster, partitions=())),
        running_jobs=None if queue is None else sum(tasks for state, tasks in states if state.is_on_node),
        pending_jobs=None
        if queue is None
        else sum(tasks for state, tasks in states if state is JobState.PENDING),
        curves=curves,
    )
