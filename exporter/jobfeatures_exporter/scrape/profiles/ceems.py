"""Profile: metrics as CEEMS' exporter names them; its compute units are batch jobs with a control group.

Source: its pkg/collector/cgroup.go; for the series that tell which cards a job has (``gpu_index_flag``), the
output that its tests expect. Pressure is the "full" one, in seconds. `uuid` is the job's id, `gpuuuid` the
card's, `gpuiid` a MIG instance's number on the card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import JobSample, NodeSample
from jobfeatures_exporter.scrape.collectors.node import MODES
from jobfeatures_exporter.scrape.profiles.common import (
    ContextView,
    Reading,
    counter,
    cpu_readings,
    gauge,
    is_unlimited,
    known,
    memory_failures,
    number_text,
    page_cache,
    swap_used,
)

UNIT = ("manager", "hostname", "cgrouphostname", "uuid")
DEVICE = (*UNIT, "device")

UNITS = gauge("ceems_compute_units", "Jobs.", ("manager", "hostname"))
USER = counter("ceems_compute_unit_cpu_user_seconds_total", "User CPU time.", UNIT)
SYSTEM = counter("ceems_compute_unit_cpu_system_seconds_total", "System CPU time.", UNIT)
CPUS = gauge("ceems_compute_unit_cpus", "CPUs that the job may use.", UNIT)
RSS = gauge("ceems_compute_unit_memory_rss_bytes", "Anonymous memory.", UNIT)
CACHE = gauge("ceems_compute_unit_memory_cache_bytes", "Page cache, shmem included.", UNIT)
USED = gauge("ceems_compute_unit_memory_used_bytes", "Memory held against the limit.", UNIT)
LIMIT = gauge("ceems_compute_unit_memory_total_bytes", "Memory limit; without one, the node's memory.", UNIT)
FAILURES = gauge(
    "ceems_compute_unit_memory_fail_count",
    "Hits of the limit; on v2, times without memory.",
    UNIT,
)
SWAP = gauge("ceems_compute_unit_memsw_used_bytes", "Swap; on v1 memory and swap.", UNIT)
CPU_PRESSURE = gauge("ceems_compute_unit_cpu_psi_seconds", "Time that all tasks stalled for CPU.", UNIT)
MEMORY_PRESSURE = gauge(
    "ceems_compute_unit_memory_psi_seconds", "Time that all tasks stalled for memory.", UNIT
)
READ_BYTES = gauge("ceems_compute_unit_blkio_read_total_bytes", "Bytes read, over all devices.", DEVICE)
WRITE_BYTES = gauge("ceems_compute_unit_blkio_write_total_bytes", "Bytes written, over all devices.", DEVICE)
READS = gauge("ceems_compute_unit_blkio_read_total_requests", "Reads, over all devices.", DEVICE)
WRITES = gauge("ceems_compute_unit_blkio_write_total_requests", "Writes, over all devices.", DEVICE)
FLAG = gauge(
    "ceems_compute_unit_gpu_index_flag",
    "1 for each card that the job has or uses.",
    ("manager", "hostname", "cgrouphostname", "uuid", "index", "hindex", "gpuuuid", "gpuiid"),
)

SWITCHES = counter("ceems_perf_context_switches_total", "Context switches.", UNIT)
FAULTS = counter("ceems_perf_major_faults_total", "Page faults that read storage.", UNIT)
NODE_CPU = counter("ceems_cpu_seconds_total", "CPU time of the node.", ("hostname", "mode"))
NODE_CPUS = gauge("ceems_cpu_count", "Logical CPUs of the node.", ("hostname",))
PER_CORE = gauge("ceems_cpu_per_core_count", "Logical CPUs of a core.", ("hostname",))
MEMINFO = {
    name: gauge(f"ceems_meminfo_{name}_bytes", f"{name} of the node.", ("hostname",))
    for name in ("MemTotal", "MemFree", "MemAvailable")
}
RAPL = {
    domain: counter(
        f"ceems_rapl_{domain}_joules_total",
        f"Energy of a {domain} since our start.",
        ("hostname", "index", "path"),
    )
    for domain in ("package", "dram")
}

METRICS = (
    UNITS, USER, SYSTEM, CPUS, RSS, CACHE, USED, LIMIT, FAILURES, SWAP, CPU_PRESSURE, MEMORY_PRESSURE,
    READ_BYTES, WRITE_BYTES, READS, WRITES, FLAG, SWITCHES, FAULTS,
    NODE_CPU, NODE_CPUS, PER_CORE, *MEMINFO.values(), *RAPL.values(),
)  # fmt: skip


def of_job(view: ContextView, sample: JobSample) -> Iterator[Reading]:
    """Yield the readings of one job under CEEMS' names; none for a job without a control group."""
    if sample.cgroup is None or not isinstance(sample.key, JobKey):
        return
    host = view.context.node_name
    values = _manager(sample.key), host, sample.node or "", sample.key.job_id
    memory = sample.memory
    node = view.snapshot.node or NodeSample()
    limit = node.memory_bytes.get("MemTotal") if is_unlimited(memory) else memory.limit
    yield from cpu_readings(USER, SYSTEM, None, values, sample)
    yield from known(
        values,
        (CPUS, sample.cpus),
        (RSS, memory.anon),
        (CACHE, page_cache(memory)),
        (USED, memory.charged),
        (LIMIT, limit),
        (FAILURES, memory_failures(sample)),
        (SWAP, swap_used(sample)),
        (CPU_PRESSURE, sample.pressure_secs.get(("cpu", "full"))),
        (MEMORY_PRESSURE, sample.pressure_secs.get(("memory", "full"))),
    )
    if sample.block_io is not None:
        moved = sample.block_io
        of_devices = (*values, "")
        yield READ_BYTES, of_devices, moved.read_bytes
        yield WRITE_BYTES, of_devices, moved.written_bytes
        yield READS, of_devices, moved.reads
        yield WRITES, of_devices, moved.writes
    if sample.scheduling is not None:
        counts = sample.scheduling
        yield SWITCHES, values, counts.voluntary_switches + counts.involuntary_switches
        yield FAULTS, values, counts.major_faults
    for card in view.cards_of(sample.key):
        index = number_text(view.card_number(card)[0])
        uuid, instance = card.card.parent_uuid or card.card.uuid, number_text(card.card.instance_id)
        yield FLAG, (*values, index, f"{host}/gpu-{index}", uuid, instance), 1


def of_node(view: ContextView) -> Iterator[Reading]:
    """Yield the number of jobs of each batch system, and the node's figures that CEEMS' rules need."""
    units = Counter(
        _manager(sample.key)
        for sample in view.context.shown_samples
        if sample.cgroup is not None and isinstance(sample.key, JobKey)
    )
    for system, count in sorted(units.items()):
        yield UNITS, (system, view.context.node_name), count
    host = (view.context.node_name,)
    made = view.context.sysinfo
    yield from known(host, (PER_CORE, made.threads_per_core if made is not None else None))
    node = view.snapshot.node or NodeSample()
    if node.cpu is not None:
        for mode in MODES:
            yield NODE_CPU, (*host, mode), getattr(node.cpu, mode)
    yield from known(host, (NODE_CPUS, len(node.cores) or None))
    for name, metric in MEMINFO.items():
        yield from known(host, (metric, node.memory_bytes.get(name)))
    for zone, joules in sorted(node.energy_joules.items()):
        domain, _, index = zone.partition("-")
        if domain in RAPL:
            yield RAPL[domain], (*host, index, ""), joules


def _manager(key: JobKey) -> str:
    return {"pbs": "openpbs"}.get(key.batch_system, key.batch_system)
