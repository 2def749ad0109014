"""Computes what it would cost to shut down a whole pool of nodes, by the time of the shutdown. Pure.

The arithmetic is that of `jobfeatures.drains.plan`, but only start, wall limit and CPUs of jobs are known, as
the queue shows them. So all work of a killed job counts as lost, and none of a job's CPUs as idle before its
end. Queues are long: the cost is computed in one pass over the jobs, in the order of their ends.

Partitions that share nodes are one pool: their jobs have to be drained together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobfeatures.drains.nodemetrics import LATE_SECS
from jobfeatures.records.combining import grouped
from jobfeatures.records.model import Cluster, ClusterNode, Job, JobTable
from jobfeatures.status.waste import IdleCpus
from jobfeatures_exporter.cluster.sums import starts_jobs


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The cost of a shutdown `after_secs` from now, in core seconds: idle CPUs until then, and killed work.

    `killed` is the number of jobs that it kills. `core_secs_before` is the total cost an instant earlier,
    when the jobs that end at that time would still be killed.
    """

    after_secs: float
    idle_core_secs: float
    kill_core_secs: float
    core_secs_before: float
    killed: int

    @property
    def core_secs(self) -> float:
        """Return the total cost: idle CPUs and killed work, in core seconds."""
        return self.idle_core_secs + self.kill_core_secs


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainCurve:
    """What shutting down one pool of nodes would cost: a point for now, and one for the end of each job.

    `partitions` are the pool's, and `total_cpus` the CPUs that a drain denies to jobs. `unknown_jobs` counts
    jobs that are left out because their CPUs or start are unknown; `endless_jobs` counts jobs without a known
    end, which any shutdown kills.
    """

    partitions: tuple[str, ...]
    total_cpus: int
    jobs: int
    unknown_jobs: int
    endless_jobs: int  # without a known end: they run at any shutdown time
    points: tuple[CurvePoint, ...]

    @property
    def best(self) -> CurvePoint:
        """Return the point with the least cost."""
        return cheapest(self.points)


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job's CPUs, and the seconds since its start and to its end (infinite: unknown)."""

    cpus: int
    run_secs: float
    end_secs: float


def compute_drain_curves(queue: JobTable, cluster: Cluster, *, now_secs: float) -> tuple[DrainCurve, ...]:
    """Return the cost of shutting down each pool of nodes that runs jobs, the pool with most CPUs first."""
    pools = find_pools(cluster)
    nodes = {node.name: node for node in cluster.nodes}
    of_partition = {name: number for number, pool in enumerate(pools) for name in pool}
    running = ((job.partition or "", job) for job in queue.jobs.values() if job.state.is_on_node)
    by_pool = grouped((of_partition[name], job) for name, job in running if name in of_partition)
    names_of = {each.name: each.nodes for each in cluster.partitions}
    curves = []
    for number, jobs in by_pool.items():
        members = {node for name in pools[number] for node in names_of[name]}
        total = sum(usable_cpus(nodes[name]) for name in members if name in nodes)
        known = [each for job in jobs if (each := read_running(job, now_secs)) is not None]
        curves.append(
            DrainCurve(
                partitions=pools[number],
                total_cpus=total,
                jobs=len(jobs),
                unknown_jobs=len(jobs) - len(known),
                endless_jobs=sum(math.isinf(each.end_secs) for each in known),
                points=compute_points(known, total),
            )
        )
    return tuple(sorted(curves, key=lambda curve: (-curve.total_cpus, curve.partitions)))


def find_pools(cluster: Cluster) -> list[tuple[str, ...]]:
    """Return the pools of a cluster, each as the names of its partitions.

    Partitions belong to one pool if they share nodes, directly or through other partitions.
    """
    pools: list[tuple[set[str], set[str]]] = []  # partitions, nodes
    for partition in cluster.partitions:
        names, nodes = {partition.name}, set(partition.nodes)
        apart = []
        for pool in pools:
            if pool[1].isdisjoint(nodes):
                apart.append(pool)
            else:
                names |= pool[0]
                nodes |= pool[1]
        pools = [*apart, (names, nodes)]
    return [tuple(sorted(names)) for names, _ in pools]


def usable_cpus(node: ClusterNode) -> int:
    """Return how many of a node's CPUs stand idle if it is drained and no job runs there.

    That is all CPUs of a node that accepts jobs, and of any other node only those that jobs use now.
    """
    return (node.cpus if starts_jobs(node) else node.allocated_cpus) or 0


def read_running(job: Job, now_secs: float) -> RunningJob | None:
    """Return a job's CPUs and times for a `DrainCurve`, None if its CPUs or start are unknown."""
    if job.total_cpus is None or job.start_secs is None:
        return None
    end = job.end_limit_at(now_secs)
    return RunningJob(
        job.total_cpus,
        max(0.0, now_secs - job.start_secs),
        math.inf if end is None or end < now_secs - LATE_SECS else max(0.0, end - now_secs),
    )


def compute_points(jobs: Iterable[RunningJob], total_cpus: int) -> tuple[CurvePoint, ...]:
    """Return the cost in core seconds of a shutdown in T seconds, for T = 0 and the end of each job.

    end: seconds until a job ends; run: for how long it has run. All its work is lost if it is killed.

        idle(T): ∫ from 0 to T: max(0, total − Σ over jobs that still run: cpus) dt
        kill(T): Σ over jobs with end > T: cpus × (run + T)
    """
    ordered = sorted(jobs, key=lambda job: job.end_secs)
    idle = IdleCpus(total_cpus, ((job.cpus, job.end_secs) for job in ordered))
    running = sum(job.cpus for job in ordered)  # CPUs of jobs that still run at T
    done = sum(job.cpus * job.run_secs for job in ordered)  # by these
    points: list[CurvePoint] = []
    at = 0
    for time in sorted({0.0, *(job.end_secs for job in ordered if math.isfinite(job.end_secs))}):
        idle_core_secs = idle.until(time)
        before = idle_core_secs + done + running * time
        while at < len(ordered) and ordered[at].end_secs <= time:
            job = ordered[at]
            running -= job.cpus
            done -= job.cpus * job.run_secs
            at += 1
        kill = max(0.0, done + running * time)
        points.append(CurvePoint(time, idle_core_secs, kill, before, len(ordered) - at))
    return tuple(points)


def cheapest(points: Sequence[CurvePoint]) -> CurvePoint:
    """Return the point with the least cost, the earliest of several."""
    return min(points, key=lambda point: (point.core_secs, point.after_secs))


def thin(points: Sequence[CurvePoint], count: int) -> list[CurvePoint]:
    """Return an evenly chosen part of the points, always with the first, the cheapest and the last.

    The result may have a few points more than `count`.
    """
    step = max(1, len(points) // max(1, count))
    kept = {point.after_secs: point for point in (*points[::step], cheapest(points), points[-1])}
    return [kept[after_secs] for after_secs in sorted(kept)]
