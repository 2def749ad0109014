"""GPUs, and what each job does on them. A reading that could not be made has no series."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobfeatures.metrics import JOB, Metric
from jobfeatures_exporter.context import Context, job_labels
from jobfeatures_exporter.exposition import Family, Number, Values
from jobfeatures_exporter.snapshot import GpuSample, JobGpu

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
UP = Metric(
    "batch_gpu_driver_up",
    "gauge",
    "1 if the latest reading of the driver was complete and recent.",
    ("driver",),
)
AGE = Metric("batch_gpu_age_seconds", "gauge", "Age of the GPU's figures.", CARD)
FAILING = Metric("batch_gpu_failing", "gauge", "0 while the GPU answers, else the driver's error code.", CARD)
UTILIZATION = Metric(
    "batch_gpu_utilization_ratio", "gauge", "Share of recent time in which the GPU computed.", CARD, unit=""
)
BUSY = Metric(
    "batch_gpu_busy_seconds", "counter", "Utilisation integrated over time, since the exporter's start.", CARD
)
ENERGY = Metric(
    "batch_gpu_energy_joules",
    "counter",
    "Energy of the GPU since the exporter's start, by the driver's counter, else integrated power.",
    CARD,
)
MEMORY = Metric("batch_gpu_memory_bytes", "gauge", "Memory of the GPU.", CARD)
MEMORY_USED = Metric("batch_gpu_memory_used_bytes", "gauge", "Memory of the GPU in use.", CARD)
TEMPERATURE = Metric("batch_gpu_temperature_celsius", "gauge", "Temperature at the GPU's first sensor.", CARD)
POWER = Metric("batch_gpu_power_watts", "gauge", "Power that the GPU draws.", CARD)
POWER_LIMIT = Metric("batch_gpu_power_limit_watts", "gauge", "Power that the GPU may draw.", CARD)
FAN = Metric(
    "batch_gpu_fan_ratio", "gauge", "Speed of the GPU's first fan, as a share of its highest.", CARD, unit=""
)
CE_CLOCK = Metric("batch_gpu_clock_hertz", "gauge", "Clock of the compute units.", CARD)
MEMORY_CLOCK = Metric("batch_gpu_memory_clock_hertz", "gauge", "Clock of the GPU's memory.", CARD)
PERFORMANCE = Metric(
    "batch_gpu_performance_state", "gauge", "Performance state of the GPU, 0 is the highest.", CARD
)
PROCESSES = Metric("batch_gpu_processes", "gauge", "Processes that use the GPU.", CARD)
UNATTRIBUTED = Metric(
    "batch_gpu_unattributed_processes",
    "gauge",
    "Processes that the driver reports but this node does not know.",
    CARD,
)

OF_JOB = (*JOB, "uuid")
JOB_ALLOCATED = Metric(
    "batch_job_gpu_allocated", "gauge", "1 for a GPU allocated to the job.", OF_JOB, sums=True
)
JOB_BUSY = Metric(
    "batch_job_gpu_busy_seconds",
    "counter",
    "The job's share of the GPU's busy seconds since it was first seen there.",
    OF_JOB,
)
JOB_UTILIZATION = Metric(
    "batch_job_gpu_utilization_ratio", "gauge", "The job's share of the GPU's utilisation.", OF_JOB, unit=""
)
JOB_MEMORY = Metric(
    "batch_job_gpu_memory_bytes",
    "gauge",
    "Memory of the GPU that the job's processes use.",
    OF_JOB,
    sums=True,
)
JOB_ENERGY = Metric(
    "batch_job_gpu_energy_joules",
    "counter",
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
    """Yield the families of all cards, nothing on a node without any."""
    snapshot = context.snapshot
    if snapshot is None or not snapshot.gpu_drivers:
        return
    yield Family.by_word(UP, {name: int(up) for name, up in snapshot.gpu_drivers.items()})
    cards = [((gpu.card.uuid,), gpu) for gpu in snapshot.gpus]
    yield Family(INFO, [(_info(gpu), 1) for gpu in snapshot.gpus])
    yield Family(AGE, [(values, max(0.0, context.now_secs - gpu.taken_at_secs)) for values, gpu in cards])
    for metric, value_of in _OF_CARD.items():
        yield Family.known(metric, [(values, value_of(gpu)) for values, gpu in cards])
    yield Family.by_word(UNATTRIBUTED, snapshot.gpu_unattributed)
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
