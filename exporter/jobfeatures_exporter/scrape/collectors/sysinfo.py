"""Hardware and system of the node."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import Metric, gauge
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.scrape.exposition import Family

INFO = Metric(
    "batch_node",
    "info",
    "Hardware and operating system of the node.",
    ("model", "architecture", "os_release"),
)
SOCKETS = gauge("batch_node_sockets", "CPU sockets.")
CORES = gauge("batch_node_physical_cores", "Physical cores that are online, all sockets together.")
THREADS = gauge("batch_node_threads_per_core", "Hardware threads of a core.")
NUMA = gauge("batch_node_numa_nodes", "NUMA nodes.")

METRICS = (INFO, SOCKETS, CORES, THREADS, NUMA)


def families(context: Context) -> Iterator[Family]:
    """Yield what is known; nothing before the first reading."""
    node = context.sysinfo
    if node is None:
        return
    yield Family(INFO, [((node.cpu_model, node.architecture, node.os_release), 1)])
    yield Family.single(SOCKETS, node.sockets)
    if node.sockets is not None and node.cores_per_socket is not None:
        yield Family.single(CORES, node.sockets * node.cores_per_socket)
    yield Family.single(THREADS, node.threads_per_core)
    yield Family.single(NUMA, len(node.numa_distances) or None)
