"""Collector: the exporter itself, its build and its resource usage."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from functools import cache

from jobfeatures import __version__
from jobfeatures.errors import ParseError
from jobfeatures.records.metrics import Metric, counter, gauge
from jobfeatures.version import find_revision
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.sampling.descriptors import read_file
from jobfeatures_exporter.sampling.host.procfs import read_stat
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC
from jobfeatures_exporter.sampling.processes.scan import PAGE_BYTES, parse_process_stat

BUILD = Metric(
    "batch_exporter_build",
    "info",
    "Versions of the exporter (with commit, if known) and of Python.",
    ("version", "revision", "python"),
)
SAMPLE = gauge("batch_exporter_sample_duration_seconds", "How long the latest sampling of the node took.")
# Words of the official clients: pages of several exporters, joined, may not differ in them.
CPU = counter("process_cpu_seconds", "Total user and system CPU time spent in seconds.")
RESIDENT = gauge("process_resident_memory_bytes", "Resident memory size in bytes.")
VIRTUAL = gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.")
START = gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.")
OPEN = gauge("process_open_fds", "Number of open file descriptors.")
MAX = gauge("process_max_fds", "Maximum number of open file descriptors.")

RELOADED = gauge(
    "batch_exporter_config_last_reload_successful",
    "1 if the latest reload of the settings succeeded; 0: older ones are in use, or the file is invalid.",
)
RELOADED_AT = gauge(
    "batch_exporter_config_last_reload_success_timestamp_seconds",
    "When settings were last reloaded successfully.",
)

METRICS = (RELOADED, RELOADED_AT, BUILD, SAMPLE, CPU, RESIDENT, VIRTUAL, START, OPEN, MAX)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about this exporter's process; those named process_* are standard ones.

    They are not made by prometheus_client's collector, which lists every open descriptor: this exporter keeps
    thousands open.
    """
    yield Family(BUILD, [((__version__, find_revision(), sys.version.partition(" ")[0]), 1)])
    if context.snapshot is not None:
        yield Family.single(SAMPLE, context.snapshot.duration_secs)
    if context.reload is not None:
        yield Family.single(RELOADED, int(context.reload.successful))
        yield Family.single(RELOADED_AT, context.reload.success_secs)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield Family.single(MAX, float("inf") if limit == resource.RLIM_INFINITY else limit)
    yield Family.single(OPEN, count_open())
    pages = read_file("/proc/self/statm").split()
    yield Family.single(CPU, time.process_time())
    yield Family.single(RESIDENT, int(pages[1]) * PAGE_BYTES)
    yield Family.single(VIRTUAL, int(pages[0]) * PAGE_BYTES)
    yield Family.single(START, _start_secs())


def count_open() -> int:
    """Return how many file descriptors this process has open; Linux 6.2 and later report the count."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))


@cache
def _start_secs() -> float:
    """Return when this process started. Raises ParseError, which is not cached, if that is unknown."""
    boot_secs = read_stat("/proc").boot_time_secs
    if boot_secs is None:
        raise ParseError("no line btime", source="stat")
    return boot_secs + parse_process_stat(read_file("/proc/self/stat")).start_ticks / TICKS_PER_SEC
