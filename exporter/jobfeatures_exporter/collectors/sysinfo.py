"""How the node is made."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.metrics import Metric
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family

INFO = Metric(
    "batch_node",
    "info",
    "Hardware and operating system of the node.",
    ("model", "architecture", "os_release"),
)
SOCKETS = Metric("batch_node_sockets", "gauge", "CPU sockets.")
CORES = Metric("batch_node_physical_cores", "gauge", "Physical cores that are online, all sockets together.")
THREADS = Metric("batch_node_threads_per_core", "gauge", "Hardware threads of a core.")
NUMA = Metric("batch_node_numa_nodes", "gauge", "NUMA nodes.")

METRICS = (INFO, SOCKETS, CORES, THREADS, NUMA)


def families(context: Context) -> Iterator[Family]:
    """Yield what is known; nothing before it was read."""
    node = context.sysinfo
    if node is None:
        return
    yield Family(INFO, [((node.cpu_model, node.architecture, node.os_release), 1)])
    yield Family.single(SOCKETS, node.sockets)
    if node.sockets is not None and node.cores_per_socket is not None:
        yield Family.single(CORES, node.sockets * node.cores_per_socket)
    yield Family.single(THREADS, node.threads_per_core)
    yield Family.single(NUMA, len(node.numa_distances) or None)
