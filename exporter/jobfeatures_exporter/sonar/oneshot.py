"""This node's documents for one command: what the daemon has running is started, used once and stopped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from jobfeatures.clock import SystemClock
from jobfeatures.formats.sonar.envelopes import Origin
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu.device import Paths
from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor
from jobfeatures_exporter.sampling.sampler import make_sampler
from jobfeatures_exporter.sonar.node import NodeDocuments

GPU_WAIT_SECS = 5.0  # for drivers to answer once
_LOOK_SECS = 0.05


@contextlib.contextmanager
def node_documents(config: ExporterConfig, origin: Origin) -> Iterator[NodeDocuments]:
    """Give what makes documents. No batch system is asked: jobs are those that the node itself shows."""
    clock = SystemClock()
    gpus = GpuMonitor(
        config.gpu_drivers,
        clock,
        interval_secs=GPU_WAIT_SECS,
        paths=Paths(procfs=config.path_procfs, sysfs=config.path_sysfs),
    )
    sampler = make_sampler(config, clock, sysfs=config.path_sysfs, gpus=gpus)
    gpus.start()
    try:
        deadline_secs = clock.monotonic_secs() + GPU_WAIT_SECS
        while not all(reader.is_up for reader in gpus.readers) and clock.monotonic_secs() < deadline_secs:
            time.sleep(_LOOK_SECS)
        yield NodeDocuments(config, origin, clock, sampler.sample, Unreadable())
    finally:
        gpus.stop()
        sampler.close()
