"""Collector: GPUs, and what each job uses of them. A failed reading has no series."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobfeatures.records.metrics import JOB, Metric, counter, gauge
from jobfeatures_exporter.families.exposition import Family, Number, Values
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.model.snapshot import GpuSample, JobGpu

CARD = ("uuid",)

INFO = Metric(
    "batch_gpu",
    "info",
    "A GPU, or a MIG instance with the GPU's uuid as parent. index is the driver library's, minor the "
    "device file's; both may change at boot.",
    (
        "uuid",
        "index",
        "minor",
        "parent",
        "address",
        "manufacturer",
        "model",
        "architecture",
        "driver",
        "firmware",
    ),
)
UP = gauge(
    "batch_gpu_driver_up", "1 if the latest reading of the driver was complete and recent.", ("driver",)
)
AGE = gauge("batch_gpu_age_seconds", "Age of the GPU's figures.", CARD)
FAILING = gauge("batch_gpu_failing", "0 while the GPU answers, else the driver's error code.", CARD)
UTILIZATION = gauge(
    "batch_gpu_utilization_ratio", "Share of recent time in which the GPU computed.", CARD, unit=""
)
BUSY = counter(
    "batch_gpu_busy_seconds", "Utilisation integrated over time, since the exporter's start.", CARD
)
ENERGY = counter(
    "batch_gpu_energy_joules",
    "Energy of the GPU since the exporter's start, by the driver's counter, else integrated power.",
    CARD,
)
MEMORY = gauge("batch_gpu_memory_bytes", "Memory of the GPU.", CARD)
MEMORY_USED = gauge("batch_gpu_memory_used_bytes", "Memory of the GPU in use.", CARD)
TEMPERATURE = gauge("batch_gpu_temperature_celsius", "Temperature at the GPU's first sensor.", CARD)
POWER = gauge("batch_gpu_power_watts", "Power that the GPU draws.", CARD)
POWER_LIMIT = gauge("batch_gpu_power_limit_watts", "Power that the GPU may draw.", CARD)
FAN = gauge("batch_gpu_fan_ratio", "Speed of the GPU's first fan, as a share of its highest.", CARD, unit="")
CE_CLOCK = gauge("batch_gpu_clock_hertz", "Clock of the compute units.", CARD)
MEMORY_CLOCK = gauge("batch_gpu_memory_clock_hertz", "Clock of the GPU's memory.", CARD)
PERFORMANCE = gauge("batch_gpu_performance_state", "Performance state of the GPU, 0 is the highest.", CARD)
PROCESSES = gauge("batch_gpu_processes", "Processes that use the GPU.", CARD)
UNATTRIBUTED = gauge(
    "batch_gpu_unattributed_processes", "Processes that the driver reports but this node does not know.", CARD
)

OF_JOB = (*JOB, "uuid")
JOB_ALLOCATED = gauge("batch_job_gpu_allocated", "1 for a GPU allocated to the job.", OF_JOB, sums=True)
JOB_BUSY = counter(
    "batch_job_gpu_busy_seconds",
    "The job's share of the GPU's busy seconds since it was first seen there.",
    OF_JOB,
)
JOB_UTILIZATION = gauge(
    "batch_job_gpu_utilization_ratio", "The job's share of the GPU's utilisation.", OF_JOB, unit=""
)
JOB_MEMORY = gauge(
    "batch_job_gpu_memory_bytes", "Memory of the GPU that the job's processes use.", OF_JOB, sums=True
)
JOB_ENERGY = counter(
    "batch_job_gpu_energy_joules",
    "The job's share of the GPU's energy since it was first seen there.",
    OF_JOB,
)

_OF_CARD: dict[Metric, Callable[[GpuSample], Number | None]] = {
    FAILING: lambda gpu: gpu.failing,
    UTILIZATION: lambda gpu: _ratio(gpu.ce_util_percent),
    BUSY: lambda gpu: gpu.busy_secs,
    ENERGY: lambda gpu: gpu.energy_joules,
    MEMORY: lambda gpu: gpu.card.memory_bytes,
    MEMORY_USED: lambda gpu: gpu.memory_used_bytes,
    TEMPERATURE: lambda gpu: gpu.temperature_celsius,
    POWER: lambda gpu: gpu.power_watts,
    POWER_LIMIT: lambda gpu: gpu.power_limit_watts,
    FAN: lambda gpu: _ratio(gpu.fan_percent),
    CE_CLOCK: lambda gpu: _hertz(gpu.ce_clock_mhz),
    MEMORY_CLOCK: lambda gpu: _hertz(gpu.memory_clock_mhz),
    PERFORMANCE: lambda gpu: gpu.performance_state,
    PROCESSES: lambda gpu: len(gpu.processes),
}
_OF_JOB: dict[Metric, Callable[[JobGpu], Number | None]] = {
    JOB_ALLOCATED: lambda use: 1 if use.allocated else None,
    JOB_BUSY: lambda use: use.busy_secs,
    JOB_UTILIZATION: lambda use: _ratio(use.ce_util_percent),
    JOB_MEMORY: lambda use: use.memory_bytes,
    JOB_ENERGY: lambda use: use.energy_joules,
}

METRICS = (INFO, UP, AGE, *_OF_CARD, UNATTRIBUTED, *_OF_JOB)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about all GPU cards; nothing on a node without cards."""
    snapshot = context.snapshot
    if snapshot is None or not snapshot.gpu_drivers:
        return
    yield Family.by_label(UP, {name: int(up) for name, up in snapshot.gpu_drivers.items()})
    cards = [((gpu.card.uuid,), gpu) for gpu in snapshot.gpus]
    yield Family(INFO, [(_info(gpu), 1) for gpu in snapshot.gpus])
    yield Family(AGE, [(values, max(0.0, context.now_secs - gpu.taken_at_secs)) for values, gpu in cards])
    for metric, value_of in _OF_CARD.items():
        yield Family.known(metric, [(values, value_of(gpu)) for values, gpu in cards])
    yield Family.by_label(UNATTRIBUTED, snapshot.gpu_unattributed)
    uses = [((*job_labels(use.key), use.uuid), use) for use in context.shown_job_gpus]
    for metric, value_of_use in _OF_JOB.items():
        yield Family.known(metric, [(values, value_of_use(use)) for values, use in uses])


def _info(gpu: GpuSample) -> Values:
    fields = ("parent_uuid" if name == "parent" else name for name in INFO.label_names)
    found = (getattr(gpu.card, name) for name in fields)
    return tuple("" if value is None else str(value) for value in found)


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _hertz(mhz: int | None) -> int | None:
    return None if mhz is None else mhz * 1_000_000
