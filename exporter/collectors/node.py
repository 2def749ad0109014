"""The node as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from exporter.context import Context
from exporter.exposition import Family, Metric, Sample, labels
from exporter.snapshot import CpuSecs

MODES = tuple(each.name for each in fields(CpuSecs))

CPU = Metric("batch_node_cpu_seconds", "counter", "CPU time over all cores since boot.", ("mode",), "seconds")
CORE = Metric(
    "batch_node_core_cpu_seconds", "counter", "CPU time of a core since boot.", ("core", "mode"), "seconds"
)
CORES = Metric("batch_node_cores", "gauge", "Logical cores that are online.")
MEMORY = Metric(
    "batch_node_memory_bytes",
    "gauge",
    "Memory of the node by kind, as /proc/meminfo counts it.",
    ("kind",),
    "bytes",
)
LOAD = Metric("batch_node_load", "gauge", "Load average.", ("minutes",))
BOOT = Metric("batch_node_boot_time_seconds", "gauge", "Time of boot since the epoch.", (), "seconds")
PROCESSES = Metric("batch_node_processes", "gauge", "Processes on the node.")
TAKEN = Metric(
    "batch_node_sample_time_seconds",
    "gauge",
    "Time since the epoch at which the node was read.",
    (),
    "seconds",
)
UNREADABLE = Metric(
    "batch_node_unreadable_readings",
    "counter",
    "Readings left out because they could not be made.",
    ("kind",),
)

METRICS = (CPU, CORE, CORES, MEMORY, LOAD, BOOT, PROCESSES, TAKEN, UNREADABLE)

MEMORY_KINDS = {
    "MemTotal": "total",
    "MemFree": "free",
    "MemAvailable": "available",
    "Buffers": "buffers",
    "Cached": "cached",
    "Shmem": "shmem",
    "Slab": "slab",
    "SwapTotal": "swap_total",
    "SwapFree": "swap_free",
}
_MODE_LABELS = {mode: labels(mode=mode) for mode in MODES}


def families(context: Context) -> Iterator[Family]:
    """Yield the node's families; nothing before the first sample."""
    snapshot = context.snapshot
    if snapshot is None:
        return
    yield Family(PROCESSES, [("", len(snapshot.processes))])
    yield Family(TAKEN, [("", snapshot.taken_at_secs)])
    yield Family(
        UNREADABLE, [(labels(kind=kind), count) for kind, count in sorted(snapshot.unreadable.items())]
    )
    node = snapshot.node
    if node is None:
        return
    if node.cpu is not None:
        yield Family(CPU, [(_MODE_LABELS[mode], getattr(node.cpu, mode)) for mode in MODES])
    yield Family(CORE, _cores(context))
    if node.cores:
        yield Family(CORES, [("", len(node.cores))])
    kinds = MEMORY_KINDS.items()
    memory = node.memory_bytes
    yield Family(MEMORY, [(labels(kind=kind), memory[name]) for name, kind in kinds if name in memory])
    loads = (("1", node.load1), ("5", node.load5), ("15", node.load15))
    yield Family(LOAD, [(labels(minutes=minutes), load) for minutes, load in loads if load is not None])
    if node.boot_time_secs is not None:
        yield Family(BOOT, [("", node.boot_time_secs)])


def _cores(context: Context) -> list[Sample]:
    if context.snapshot is None or context.snapshot.node is None:
        return []
    return [
        (f'core="{number}",{_MODE_LABELS[mode]}', getattr(core, mode))
        for number, core in context.snapshot.node.cores.items()
        for mode in MODES
    ]
