"""The exporter itself: its build, and what it costs."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from functools import cache

from prometheus_client.process_collector import ProcessCollector

from exporter.context import Context
from exporter.exposition import Family, Metric, labels
from jobfeatures import __version__

BUILD = Metric("batch_exporter_build", "info", "Version of the exporter.", ("version", "python"))
SAMPLE = Metric(
    "batch_exporter_sample_duration_seconds",
    "gauge",
    "How long the latest look at the node took.",
    (),
    "seconds",
)
PROCESS = {
    metric.sample_name: metric
    for metric in (
        Metric("process_cpu_seconds", "counter", "CPU time of the exporter.", (), "seconds"),
        Metric("process_resident_memory_bytes", "gauge", "Resident memory of the exporter.", (), "bytes"),
        Metric("process_virtual_memory_bytes", "gauge", "Virtual memory of the exporter.", (), "bytes"),
        Metric(
            "process_start_time_seconds", "gauge", "Start of the exporter since the epoch.", (), "seconds"
        ),
        Metric("process_open_fds", "gauge", "Open file descriptors of the exporter."),
        Metric("process_max_fds", "gauge", "Limit of open file descriptors."),
    )
}

METRICS = (BUILD, SAMPLE, *PROCESS.values())


@cache
def _process_collector() -> ProcessCollector:
    return ProcessCollector(registry=None)


def families(context: Context) -> Iterator[Family]:
    """Yield the exporter's own families; those named process_* are the ones every exporter has."""
    yield Family(BUILD, [(labels(version=__version__, python=platform.python_version()), 1)])
    if context.snapshot is not None:
        yield Family(SAMPLE, [("", context.snapshot.duration_secs)])
    for family in _process_collector().collect():
        for sample in family.samples:
            if sample.name in PROCESS:
                yield Family(PROCESS[sample.name], [("", sample.value)])
