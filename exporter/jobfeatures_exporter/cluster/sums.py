"""Computes sums over a queue and over the nodes of a cluster, by partition. Pure.

Computed once for each answer of the batch system, not at each scrape: queues are long. A job that may start
in several partitions, or a node in several, counts in each of them; one in none counts under an empty name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from jobfeatures.records.combining import grouped
from jobfeatures.records.model import Cluster, ClusterNode, Job, JobState, JobTable
from jobfeatures.records.waiting import cause_of

Sums = Mapping[tuple[str, str], int]  # by partition, and state, flag, kind or reason

OTHER = "other"
_STARTS_JOBS = frozenset({"IDLE", "MIXED", "ALLOCATED"})
# Slurm's make_node_avail() in node_mgr.c passes over those that are powered down; BLOCKED: for another job.
_STARTS_NONE = frozenset(
    {
        *("DRAIN", "FAIL", "NOT_RESPONDING", "MAINTENANCE", "REBOOT_ISSUED"),
        *("POWER_DOWN", "POWERING_DOWN", "BLOCKED"),
    }
)

_WORD = re.compile(r"[A-Za-z_]{1,40}\Z")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The pending jobs of a partition that may start: their number, and since when they have waited.

    `sum_since_secs` is the sum, `first_since_secs` the earliest of the Unix times since which they may start.
    """

    jobs: int
    sum_since_secs: int
    first_since_secs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSums:
    """Sums over one batch system's jobs that have not ended, by partition and a second key.

    The second key is the job's state in `jobs` (a number of jobs), `cpus`, `nodes` and `gpus`. In `reasons`
    it is the reason of a pending job, and in `not_eligible` what a pending job that may not start waits for.
    `waiting` describes the pending jobs that may start, by partition.
    """

    source: str
    jobs: Sums
    cpus: Sums
    nodes: Sums
    gpus: Sums
    reasons: Sums  # of pending jobs
    not_eligible: Sums  # pending jobs that may not start, by what they wait for
    waiting: Mapping[str, Waiting]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSums:
    """Sums over one batch system's nodes, most of them by partition and a second key.

    `states` and `flags` count nodes by state or flag. `cpus`, `memory_bytes` and `gpus` are amounts that are
    allocated, idle or other (of nodes that accept no jobs). `features` and `node_reasons` count nodes by
    their feature or reason, and state. `partitions` says which partitions accept jobs (None: unknown).
    """

    source: str
    partitions: Mapping[str, bool | None]
    states: Sums
    flags: Sums
    cpus: Sums
    memory_bytes: Sums
    gpus: Sums
    features: Sums  # nodes, by feature and base state
    node_reasons: Sums  # nodes, by class of reason and base state


def samples_of(
    sums: QueueSums | ClusterSums, name: str, partitions: Iterable[str], always: Iterable[str] = ()
) -> Iterator[tuple[tuple[str, str, str], int]]:
    """Yield each sum in the field `name`, labelled with batch system, partition and a state, flag or reason.

    `always` are states, flags or reasons for which each of the `partitions` gets a sum, 0 if there is none.
    """
    found: Sums = getattr(sums, name)
    zeros = dict.fromkeys(((partition, word) for partition in partitions for word in always), 0)
    for (partition, word), number in {**zeros, **found}.items():
        yield (sums.source, partition, word), number


def compute_queue_sums(table: JobTable) -> QueueSums:
    """Return the sums over a batch system's queue."""
    sums: dict[str, Counter[tuple[str, str]]] = {
        name: Counter() for name in ("jobs", "cpus", "nodes", "gpus", "reasons", "not_eligible")
    }
    waiting: dict[str, Waiting] = {}
    for job in table.jobs.values():
        if job.has_ended:
            continue
        cause = cause_of(job.reason, is_held=job.is_held)
        since = None if cause else _waits_since(job, table.taken_at_secs)
        amounts = (("cpus", job.total_cpus), ("nodes", job.total_nodes), ("gpus", job.total_gpus))
        for partition in dict.fromkeys((job.partition or "").split(",")):
            place = partition, job.state.value
            sums["jobs"][place] += job.tasks
            for name, amount in amounts:
                if amount is not None:
                    sums[name][place] += amount * job.tasks
            if job.state is JobState.PENDING:
                reason = (job.reason or "").partition(",")[0]  # ReqNodeNotAvail, UnavailableNodes:n1
                sums["reasons"][partition, reason if _WORD.match(reason) else OTHER] += job.tasks
                if cause is not None:
                    sums["not_eligible"][partition, cause] += job.tasks
            if since is not None:
                old = waiting.get(partition, Waiting(0, 0, since))
                waiting[partition] = Waiting(
                    old.jobs + job.tasks,
                    old.sum_since_secs + since * job.tasks,
                    min(old.first_since_secs, since),
                )
    return QueueSums(source=table.source, waiting=waiting, **sums)


def _waits_since(job: Job, now_secs: float) -> int | None:
    """Return since when a job could start; None for one that runs, or may not start yet."""
    if job.state is not JobState.PENDING:
        return None
    since = job.eligible_secs if job.eligible_secs is not None else job.submit_secs
    return since if since is not None and since <= now_secs else None


def compute_cluster_sums(cluster: Cluster) -> ClusterSums:
    """Return the sums over a cluster's nodes."""
    sums: dict[str, Counter[tuple[str, str]]] = {
        name: Counter()
        for name in ("states", "flags", "cpus", "memory_bytes", "gpus", "features", "node_reasons")
    }
    partitions_of = grouped((name, each.name) for each in cluster.partitions for name in each.nodes)
    for node in cluster.nodes:
        for partition in partitions_of.get(node.name, [""]):
            _add_node(sums, partition, node)
        base = (node.states or ("UNKNOWN",))[0]
        for feature in node.features:
            sums["features"][feature, base] += 1
        if node.reason:
            sums["node_reasons"][node.reason, base] += 1
    return ClusterSums(
        source=cluster.source,
        partitions={
            each.name: None if each.state is None else each.state == "UP" for each in cluster.partitions
        },
        **sums,
    )


def starts_jobs(node: ClusterNode) -> bool:
    """Return whether a node accepts jobs, by its states."""
    base, *flags = node.states or ("UNKNOWN",)
    return base in _STARTS_JOBS and _STARTS_NONE.isdisjoint(flags)


def _add_node(sums: Mapping[str, Counter[tuple[str, str]]], partition: str, node: ClusterNode) -> None:
    base, *flags = node.states or ("UNKNOWN",)
    sums["states"][partition, base] += 1
    for flag in flags:
        sums["flags"][partition, flag] += 1
    rest = "idle" if starts_jobs(node) else OTHER
    for name, total, allocated in (
        ("cpus", node.cpus, node.allocated_cpus),
        ("memory_bytes", node.memory_bytes, node.allocated_memory_bytes),
        ("gpus", node.gpus, node.allocated_gpus),
    ):
        if total is not None and allocated is not None:
            sums[name][partition, "allocated"] += allocated
            sums[name][partition, rest] += max(0, total - allocated)
