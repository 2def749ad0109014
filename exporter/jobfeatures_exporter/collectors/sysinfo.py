"""How the node is made."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family, Metric, labels

INFO = Metric("batch_node", "info", "Make of the node.", ("model", "architecture", "os_release"))
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
    text = labels(model=node.cpu_model, architecture=node.architecture, os_release=node.os_release)
    yield Family(INFO, [(text, 1)])
    if node.sockets is not None:
        yield Family(SOCKETS, [("", node.sockets)])
        if node.cores_per_socket is not None:
            yield Family(CORES, [("", node.sockets * node.cores_per_socket)])
    if node.threads_per_core is not None:
        yield Family(THREADS, [("", node.threads_per_core)])
    if node.numa_distances:
        yield Family(NUMA, [("", len(node.numa_distances))])
