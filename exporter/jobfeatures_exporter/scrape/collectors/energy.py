"""Collector: the energy used by the node and by its jobs."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import JOB, counter, gauge
from jobfeatures_exporter.families.exposition import Family, Sample
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.model.snapshot import WorkKey

NODE = counter(
    "batch_node_energy_joules",
    "Energy by RAPL domain since the exporter's start: package-N a processor, dram-N its memory, psys the "
    "whole platform.",
    ("domain",),
)
JOB_ENERGY = counter(
    "batch_job_energy_joules",
    "Energy of the job since it was first seen here. cpu: its share of the packages' and memory's energy, "
    "by CPU time; gpu: of its GPUs.",
    (*JOB, "source"),
)
_BY_SENSOR = "sensor dcmi (the management controller's), hwmon (the board's), pdu (before the power supply)"
POWER = gauge("batch_node_power_watts", f"What the whole machine draws, by {_BY_SENSOR}.", ("sensor",))
UP = gauge("batch_node_power_sensor_up", "1 if the sensor answered recently, else 0.", ("sensor",))
BOARD = counter(
    "batch_node_board_energy_joules", "Energy of the whole machine since the exporter's start.", ("sensor",)
)
JOB_BOARD = counter(
    "batch_job_board_energy_joules",
    "The job's share of that since it was first seen here: what its GPUs drew, and of the rest by CPU time.",
    (*JOB, "sensor"),
)

METRICS = (NODE, JOB_ENERGY, POWER, UP, BOARD, JOB_BOARD)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about energy; a counter that cannot be read has no series."""
    node = context.snapshot.node if context.snapshot is not None else None
    if node is not None:
        yield Family.by_label(NODE, dict(sorted(node.energy_joules.items())))
    jobs: list[Sample] = [
        ((*job_labels(sample.key), "cpu"), sample.energy_joules)
        for sample in context.shown_samples
        if sample.energy_joules is not None
    ]
    jobs += [((*job_labels(key), "gpu"), joules) for key, joules in _gpu_joules(context).items()]
    yield Family(JOB_ENERGY, jobs)
    if node is not None and node.board is not None:
        yield Family.by_label(POWER, node.board.watts)
        yield Family.by_label(UP, {sensor: int(up) for sensor, up in node.board.up.items()})
        yield Family.by_label(BOARD, node.board.joules)
        yield Family(
            JOB_BOARD,
            [
                ((*job_labels(sample.key), sensor), joules)
                for sample in context.shown_samples
                for sensor, joules in sample.board_joules.items()
            ],
        )


def _gpu_joules(context: Context) -> dict[WorkKey, float]:
    joules: dict[WorkKey, float] = {}
    for each in context.shown_job_gpus:
        if each.energy_joules is not None:
            joules[each.key] = joules.get(each.key, 0.0) + each.energy_joules
    return joules
