"""What the node and its jobs have used of energy."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.metrics import JOB, counter
from jobfeatures_exporter.context import Context, job_labels
from jobfeatures_exporter.exposition import Family, Sample
from jobfeatures_exporter.snapshot import WorkKey

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

METRICS = (NODE, JOB_ENERGY)


def families(context: Context) -> Iterator[Family]:
    """Yield the families; nothing where the counters are not readable."""
    node = context.snapshot.node if context.snapshot is not None else None
    if node is not None:
        yield Family.by_word(NODE, dict(sorted(node.energy_joules.items())))
    jobs: list[Sample] = [
        ((*job_labels(sample.key), "cpu"), sample.energy_joules)
        for sample in context.shown_samples
        if sample.energy_joules is not None
    ]
    jobs += [((*job_labels(key), "gpu"), joules) for key, joules in _gpu_joules(context).items()]
    yield Family(JOB_ENERGY, jobs)


def _gpu_joules(context: Context) -> dict[WorkKey, float]:
    joules: dict[WorkKey, float] = {}
    for each in context.shown_job_gpus:
        if each.energy_joules is not None:
            joules[each.key] = joules.get(each.key, 0.0) + each.energy_joules
    return joules
