"""Collector: CPU time, memory, load and disks of the node as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import NODE_READ_AT, counter, gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import CpuSecs

MODES = CpuSecs._fields

CPU = counter("batch_node_cpu_seconds", "CPU time over all cores since boot.", ("mode",))
CORE = counter("batch_node_core_cpu_seconds", "CPU time of a core since boot.", ("core", "mode"))
CORES = gauge("batch_node_cores", "Logical cores that are online.")
MEMORY = gauge("batch_node_memory_bytes", "Memory of the node by kind of /proc/meminfo.", ("kind",))
LOAD = gauge("batch_node_load", "Load average.", ("minutes",))
BOOT = gauge("batch_node_boot_time_seconds", "Time of boot.")
PROCESSES = gauge("batch_node_processes", "Processes on the node.")
RUNNABLE = gauge("batch_node_runnable_threads", "Threads that run or wait for a CPU.")
THREADS = gauge("batch_node_threads", "Threads on the node, kernel threads included.")
PRESSURE = counter(
    "batch_node_pressure_seconds",
    "Time since boot that tasks were stalled for cpu, memory or io. some: at least one task; full: all "
    "non-idle tasks (not for CPU).",
    ("resource", "share"),
)
DISK_READ = counter("batch_node_disk_read_bytes", "Read from a whole disk since boot.", ("device",))
DISK_WRITTEN = counter("batch_node_disk_written_bytes", "Written to a whole disk since boot.", ("device",))
DISK_READS = counter("batch_node_disk_reads", "Reads from a whole disk since boot.", ("device",))
DISK_WRITES = counter("batch_node_disk_writes", "Writes to a whole disk since boot.", ("device",))
DISK_TIME = counter(
    "batch_node_disk_io_time_seconds", "Time with I/O in progress on a whole disk since boot.", ("device",)
)
KILLS = counter("batch_node_oom_kills", "Processes killed by the kernel's OOM killer since boot.")
REOPENED = counter(
    "batch_node_reopened_files", "Files opened anew to be read, because file descriptors ran short."
)
UNREADABLE = counter("batch_node_unreadable_readings", "Readings left out because they failed.")
UNREADABLE_BY_KIND = counter(
    "batch_node_unreadable_readings_by_kind",
    "Those of batch_node_unreadable_readings_total, by kinds that there were.",
    ("kind",),
)

# Indices of fields after the name in /proc/diskstats, and units; a sector is 512 bytes on every disk.
_OF_DISK = {
    DISK_READ: (2, 512),
    DISK_WRITTEN: (6, 512),
    DISK_READS: (0, 1),
    DISK_WRITES: (4, 1),
    DISK_TIME: (9, 0.001),
}

METRICS = (
    *(CPU, CORE, CORES, MEMORY, LOAD, RUNNABLE, THREADS, PRESSURE, *_OF_DISK),
    *(BOOT, PROCESSES, KILLS, NODE_READ_AT, UNREADABLE, UNREADABLE_BY_KIND, REOPENED),
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


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about the node; nothing before the first sample."""
    snapshot = context.snapshot
    if snapshot is None:
        return
    counted = snapshot.process_count
    yield Family.single(PROCESSES, len(snapshot.processes) if counted is None else counted)
    yield Family.single(NODE_READ_AT, snapshot.taken_at_secs)
    yield Family.single(UNREADABLE, sum(snapshot.unreadable.values()))
    yield Family.by_label(UNREADABLE_BY_KIND, dict(sorted(snapshot.unreadable.items())))
    yield Family.single(REOPENED, snapshot.reopened)
    node = snapshot.node
    if node is None:
        return
    if node.cpu is not None:
        yield Family.by_label(CPU, node.cpu._asdict())
    cores = [(str(number), zip(MODES, core, strict=True)) for number, core in node.cores.items()]
    yield Family(CORE, [((number, mode), secs) for number, core in cores for mode, secs in core])
    yield Family.single(CORES, len(cores) or None)
    memory = node.memory_bytes
    yield Family.known(MEMORY, [((kind,), memory.get(name)) for name, kind in MEMORY_KINDS.items()])
    yield Family.known(LOAD, [(("1",), node.load1), (("5",), node.load5), (("15",), node.load15)])
    yield Family.single(RUNNABLE, node.runnable_entities)
    yield Family.single(THREADS, node.existing_entities)
    yield Family(PRESSURE, list(node.pressure_secs.items()))
    disks = [((name,), disk.stats) for name, disk in node.disks.items() if disk.whole]
    for metric, (place, unit) in _OF_DISK.items():
        yield Family(metric, [(values, stats[place] * unit) for values, stats in disks if place < len(stats)])
    yield Family.single(KILLS, node.oom_kills)
    yield Family.single(BOOT, node.boot_time_secs)
