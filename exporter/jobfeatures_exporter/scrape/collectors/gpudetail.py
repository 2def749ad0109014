"""Collector: profiling metrics, errors and clock throttling of GPUs, and of jobs with GPUs of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from jobfeatures.records.metrics import JOB, Metric, counter, gauge
from jobfeatures_exporter.families.exposition import Family, Values
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.model.snapshot import GpuCount
from jobfeatures_exporter.sampling import gpu

CARD = ("uuid",)
OF_JOB = (*JOB, "uuid")

# Counters of a card: the name after batch_gpu and batch_job_gpu, the meaning, the labels.
_COUNTS: dict[str, tuple[str, str, Values]] = {
    gpu.PROFILED[0]: ("profiled_seconds", "Time covered by the GPU's profile (GPM)", ()),
    gpu.BUSY: (
        "unit_busy_seconds",
        "Use of SMs, their warps, tensor cores or memory bandwidth, integrated",
        ("unit",),
    ),
    gpu.LINK: ("link_bytes", "Bytes over PCIe or NVLink", ("link", "direction")),
    gpu.ECC: ("ecc_errors", "Memory errors since the driver was loaded", ("kind",)),
    gpu.REMAPPED: ("remapped_rows", "Memory rows remapped after errors", ("kind",)),
    gpu.XIDS[0]: ("xids", "XID events since the exporter's start", ()),
    gpu.XID: ("xid_errors", "The same by code, from its first event on", ("xid",)),
    gpu.CLOCK_REASON: ("clock_held_seconds", "Time in which clocks were held back", ("reason",)),
}
OF_CARDS = {
    count: counter(f"batch_gpu_{name}", f"{meaning}.", (*CARD, *labels))
    for count, (name, meaning, labels) in _COUNTS.items()
} | {
    gpu.LIFETIME_ECC: counter(
        "batch_gpu_lifetime_ecc_errors", "Memory errors in the GPU's life.", (*CARD, "kind")
    )
}
OF_JOBS = {
    count: counter(
        f"batch_job_gpu_{name}", f"batch_gpu_{name}_total while only the job held it.", (*OF_JOB, *labels)
    )
    for count, (name, _, labels) in _COUNTS.items()
}
FLAGS = {
    gpu.REMAP_PENDING: gauge("batch_gpu_remap_pending", "1 if rows are remapped at the next reset.", CARD),
    gpu.REMAP_FAILED: gauge("batch_gpu_remap_failed", "1 if a row could not be remapped.", CARD),
    gpu.XIDS_WATCHED: gauge("batch_gpu_xids_watched", "1 while XID events are received.", CARD),
}
METRICS: tuple[Metric, ...] = (*OF_CARDS.values(), *FLAGS.values(), *OF_JOBS.values())


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about GPU details; what a card cannot or failed to report has no series."""
    snapshot = context.snapshot
    if snapshot is None or not snapshot.gpu_drivers:
        return
    cards = [((each.card.uuid,), each) for each in snapshot.gpus]
    yield from _counters(OF_CARDS, [(values, each.counts) for values, each in cards])
    for flag, metric in FLAGS.items():
        yield Family(
            metric, [(values, int(each.flags[flag])) for values, each in cards if flag in each.flags]
        )
    yield from _counters(
        OF_JOBS, [((*job_labels(use.key), use.uuid), use.counts) for use in context.shown_job_gpus]
    )


def _counters(
    metrics: Mapping[str, Metric], found: Iterable[tuple[Values, Mapping[GpuCount, float]]]
) -> Iterator[Family]:
    samples: dict[str, list[tuple[Values, float]]] = {count: [] for count in metrics}
    for values, counted in found:
        for (count, *labels), value in counted.items():
            if count in samples:
                samples[count].append(((*values, *labels), value))
    for count, metric in metrics.items():
        yield Family(metric, samples[count])
