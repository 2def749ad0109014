"""Collector in the controller role: the nodes of each batch system, by partition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from jobfeatures.records.metrics import gauge
from jobfeatures_exporter.cluster.sums import samples_of
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

_BY_PARTITION = ("batch_system", "partition")

NODES = gauge(
    "batch_cluster_nodes",
    "Nodes by base state; a node of several partitions counts in each.",
    (*_BY_PARTITION, "state"),
)
FLAGGED = gauge(
    "batch_cluster_nodes_flagged",
    "Nodes by further states, such as DRAIN; a node may have several.",
    (*_BY_PARTITION, "flag"),
)
CPUS = gauge(
    "batch_cluster_cpus",
    "CPUs: allocated, idle (available to jobs), other (of nodes that start no jobs).",
    (*_BY_PARTITION, "kind"),
)
MEMORY = gauge(
    "batch_cluster_memory_bytes",
    "Memory managed by the batch system, by the same kinds.",
    (*_BY_PARTITION, "kind"),
)
GPUS = gauge("batch_cluster_gpus", "GPUs by the same kinds as CPUs.", (*_BY_PARTITION, "kind"))
PARTITION = gauge("batch_cluster_partition_up", "1 if the partition accepts and starts jobs.", _BY_PARTITION)

FEATURES = gauge(
    "batch_cluster_feature_nodes",
    "Nodes with an active feature, by base state; a node counts once for each of its features.",
    ("batch_system", "feature", "state"),
)
REASONS = gauge(
    "batch_cluster_reason_nodes",
    "Nodes with a reason, such as of a drain, by its class and base state.",
    ("batch_system", "reason", "state"),
)

_SUMS = {NODES: "states", FLAGGED: "flags", CPUS: "cpus", MEMORY: "memory_bytes", GPUS: "gpus"}
_OF_NODES = {FEATURES: "features", REASONS: "node_reasons"}
METRICS = (*_SUMS, *_OF_NODES, PARTITION)

# Shown as 0 where there are none.
ALWAYS = {"states": ("ALLOCATED", "DOWN", "IDLE", "MIXED"), "flags": ("DRAIN",)}


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about nodes, for each batch system that has answered."""
    for metric, name in (*_SUMS.items(), *_OF_NODES.items()):
        always = ALWAYS.get(name, ())
        found = (samples_of(sums, name, sums.partitions, always) for sums in context.clusters)
        yield Family(metric, list(chain.from_iterable(found)))
    yield Family(
        PARTITION,
        [
            ((sums.source, partition), int(is_up))
            for sums in context.clusters
            for partition, is_up in sums.partitions.items()
            if is_up is not None
        ],
    )
