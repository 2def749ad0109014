"""Nodes of each batch system, by partition. Only the controller role knows them.

A node of several partitions counts in each of them; one of none stands under an empty name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from exporter.context import Context
from exporter.exposition import Family, Metric, Sample, labels
from jobfeatures.model import Cluster, ClusterNode

_BY_PARTITION = ("batch_system", "partition")

NODES = Metric(
    "batch_cluster_nodes",
    "gauge",
    "Nodes by base state; a node of several partitions counts in each, one of none under an empty name.",
    (*_BY_PARTITION, "state"),
)
FLAGGED = Metric(
    "batch_cluster_nodes_flagged",
    "gauge",
    "Nodes by what the batch system says beside the base state, such as DRAIN; a node may have several.",
    (*_BY_PARTITION, "flag"),
)
CPUS = Metric(
    "batch_cluster_cpus",
    "gauge",
    "CPUs by kind: allocated, idle (jobs may get them), other (of nodes that start no jobs).",
    (*_BY_PARTITION, "kind"),
)
MEMORY = Metric(
    "batch_cluster_memory_bytes",
    "gauge",
    "Memory that the batch system gives away, by kind as CPUs are.",
    (*_BY_PARTITION, "kind"),
    "bytes",
)
GPUS = Metric("batch_cluster_gpus", "gauge", "GPUs by kind as CPUs are.", (*_BY_PARTITION, "kind"))
PARTITION = Metric(
    "batch_cluster_partition_up",
    "gauge",
    "1 if the partition takes jobs and starts them.",
    _BY_PARTITION,
)

METRICS = (NODES, FLAGGED, CPUS, MEMORY, GPUS, PARTITION)

ALWAYS = ("ALLOCATED", "DOWN", "IDLE", "MIXED")  # shown as 0 where there are none
ALWAYS_FLAGGED = ("DRAIN",)
STARTS_JOBS = frozenset({"IDLE", "MIXED", "ALLOCATED"})
STARTS_NONE = frozenset({"DRAIN", "FAIL", "NOT_RESPONDING", "MAINTENANCE", "MAINT", "REBOOT_ISSUED"})


def families(context: Context) -> Iterator[Family]:
    """Yield the clusters' families."""
    clusters = [_Nodes(each) for each in context.clusters]
    for metric, name, label in (
        (NODES, "states", "state"),
        (FLAGGED, "flags", "flag"),
        (CPUS, "cpus", "kind"),
        (MEMORY, "memory", "kind"),
        (GPUS, "gpus", "kind"),
    ):
        yield Family(metric, [each for nodes in clusters for each in nodes.samples(name, label)])
    yield Family(
        PARTITION,
        [
            (labels(batch_system=each.source, partition=one.name), int(one.state == "UP"))
            for each in context.clusters
            for one in each.partitions
            if one.state is not None
        ],
    )


class _Nodes:
    """Sums over the nodes of one cluster, by partition."""

    def __init__(self, cluster: Cluster) -> None:
        self._source = cluster.source
        self._sums: dict[str, Counter[tuple[str, str]]] = {
            name: Counter() for name in ("states", "flags", "cpus", "memory", "gpus")
        }
        partitions_of: dict[str, list[str]] = {}
        for partition in cluster.partitions:
            self._sums["states"].update(dict.fromkeys(((partition.name, each) for each in ALWAYS), 0))
            self._sums["flags"].update(dict.fromkeys(((partition.name, each) for each in ALWAYS_FLAGGED), 0))
            for name in partition.nodes:
                partitions_of.setdefault(name, []).append(partition.name)
        for node in cluster.nodes:
            for name in partitions_of.get(node.name, [""]):
                self._add(name, node)

    def _add(self, partition: str, node: ClusterNode) -> None:
        base, *flags = node.states or ("UNKNOWN",)
        self._sums["states"][partition, base] += 1
        for flag in flags:
            self._sums["flags"][partition, flag] += 1
        rest = "idle" if base in STARTS_JOBS and STARTS_NONE.isdisjoint(flags) else "other"
        for name, total, allocated in (
            ("cpus", node.cpus, node.allocated_cpus),
            ("memory", node.memory_bytes, node.allocated_memory_bytes),
            ("gpus", node.gpus, node.allocated_gpus),
        ):
            if total is not None and allocated is not None:
                self._sums[name][partition, "allocated"] += allocated
                self._sums[name][partition, rest] += max(0, total - allocated)

    def samples(self, name: str, label: str) -> Iterator[Sample]:
        for (partition, value), number in self._sums[name].items():
            yield (
                labels(**{"batch_system": self._source, "partition": partition, label: value}),
                number,
            )
