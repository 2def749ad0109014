"""Collector: hardware and operating system of the node."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import Metric
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

INFO = Metric(
    "batch_node",
    "info",
    "Hardware and system of the node; physical_cores: online, of all sockets. Unknown labels are empty.",
    (
        *("model", "architecture", "os_release"),
        *("sockets", "physical_cores", "threads_per_core", "numa_nodes"),
    ),
)
METRICS = (INFO,)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about hardware; nothing before the first reading, nor what is unknown."""
    node = context.sysinfo
    if node is None:
        return
    cores = node.physical_cores or (node.sockets or 0) * (node.cores_per_socket or 0)
    counts = (node.sockets, cores, node.threads_per_core, len(node.numa_distances))
    found = (str(each) if each else "" for each in counts)
    yield Family(INFO, [((node.cpu_model, node.architecture, node.os_release, *found), 1)])
