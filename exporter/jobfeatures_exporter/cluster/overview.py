"""Computes what the controller's page shows of a cluster, and finds jobs for its search. Pure.

Each node and job counts once. These sums are computed when the page is requested: those that are stored for
scrapes are by partition, so they may count a node or job several times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from jobfeatures.records.model import Cluster, Job, JobState, JobTable
from jobfeatures_exporter.cluster.draincurves import DrainCurve, compute_drain_curves
from jobfeatures_exporter.cluster.sums import ClusterSums, compute_cluster_sums

MOST = 200  # of the jobs found, those shown
_PARTS = "_.[+@"  # separates the number of an array from that of its task, or from its schedd


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What the controller's page shows of one batch system; fields are None if it has not answered yet.

    `curves` are the costs of shutting down its pools of nodes.
    """

    source: str
    nodes: ClusterSums | None  # under an empty partition name
    running_jobs: int | None
    pending_jobs: int | None
    curves: tuple[DrainCurve, ...] = ()


def compute_cluster_view(
    source: str, queue: JobTable | None, cluster: Cluster | None, *, now_secs: float
) -> ClusterView:
    """Return what the page shows of the batch system `source`.

    `queue` and `cluster` are its latest answers about jobs and nodes, None if there is none yet.
    """
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


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """The jobs that a search found, running ones first, at most `MOST`; `count` includes those left out."""

    jobs: tuple[Job, ...] = ()
    count: int = 0


def find_jobs(tables: Iterable[JobTable], text: str, hide: Callable[[Job], Job]) -> FoundJobs:
    """Return the jobs whose ID, array or user is `text`; if none, of users whose names contain it.

    `tables` are the queues to search. `hide` returns a job as it may be shown: hidden names are not searched.
    """
    wanted = text.casefold()
    if not wanted:
        return FoundJobs()
    exact: list[Job] = []
    near: list[Job] = []
    users: dict[tuple[str | None, int | None], str] = {}
    for table in tables:
        for key, job in table.jobs.items():
            number = key.job_id.casefold()
            who = job.user, job.uid
            user = users.get(who)
            if user is None:
                user = users[who] = user_of(hide(job)).casefold()
            is_job = number == wanted or (number.startswith(wanted) and number[len(wanted)] in _PARTS)
            if is_job or user == wanted:
                exact.append(job)
            elif wanted in user:
                near.append(job)
    found = exact or near
    found.sort(key=lambda job: (job.state is not JobState.RUNNING, job.key))
    return FoundJobs(tuple(hide(job) for job in found[:MOST]), len(found))


def user_of(job: Job) -> str:
    """Return the user's name of a job, else ``uid UID``; empty if unknown."""
    return job.user or ("" if job.uid is None else f"uid {job.uid}")
