"""The node as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family, Metric, Sample, labels
from jobfeatures_exporter.snapshot import CpuSecs

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
RUNNABLE = Metric("batch_node_runnable_threads", "gauge", "Threads that run or would, if there were CPUs.")
THREADS = Metric("batch_node_threads", "gauge", "Threads on the node, those of the kernel included.")
PRESSURE = Metric(
    "batch_node_pressure_seconds",
    "counter",
    "Time since boot that tasks stalled for want of a resource (cpu, memory, io). Share some: at least one "
    "did; full: all that were not idle did at once, which cannot be for want of CPUs.",
    ("resource", "share"),
    "seconds",
)
DISK_READ = Metric(
    "batch_node_disk_read_bytes", "counter", "Read from a whole disk since boot.", ("device",), "bytes"
)
DISK_WRITTEN = Metric(
    "batch_node_disk_written_bytes", "counter", "Written to a whole disk since boot.", ("device",), "bytes"
)
DISK_READS = Metric("batch_node_disk_reads", "counter", "Reads from a whole disk since boot.", ("device",))
DISK_WRITES = Metric("batch_node_disk_writes", "counter", "Writes to a whole disk since boot.", ("device",))
DISK_TIME = Metric(
    "batch_node_disk_io_time_seconds",
    "counter",
    "Time since boot that a whole disk had something to do.",
    ("device",),
    "seconds",
)
KILLS = Metric(
    "batch_node_oom_kills", "counter", "Processes that the kernel killed for want of memory since boot."
)
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

# Fields of /proc/diskstats behind the name, and what one counts; sectors are 512 bytes on every disk.
_OF_DISK = {
    DISK_READ: (2, 512),
    DISK_WRITTEN: (6, 512),
    DISK_READS: (0, 1),
    DISK_WRITES: (4, 1),
    DISK_TIME: (9, 0.001),
}

METRICS = (
    *(CPU, CORE, CORES, MEMORY, LOAD, RUNNABLE, THREADS, PRESSURE, *_OF_DISK),
    *(BOOT, PROCESSES, KILLS, TAKEN, UNREADABLE),
)

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
    if node.runnable_entities is not None:
        yield Family(RUNNABLE, [("", node.runnable_entities)])
    if node.existing_entities is not None:
        yield Family(THREADS, [("", node.existing_entities)])
    pressures = node.pressure_secs.items()
    yield Family(
        PRESSURE, [(labels(resource=resource, share=share), secs) for (resource, share), secs in pressures]
    )
    disks = [(labels(device=name), disk.stats) for name, disk in node.disks.items() if disk.whole]
    for metric, (place, unit) in _OF_DISK.items():
        yield Family(metric, [(text, stats[place] * unit) for text, stats in disks if place < len(stats)])
    if node.oom_kills is not None:
        yield Family(KILLS, [("", node.oom_kills)])
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
