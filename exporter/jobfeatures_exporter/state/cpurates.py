"""Computes how many CPUs each job uses now, from two samples of the node. Does no I/O."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import CpuSecs, RunKey, Snapshot, cpu_secs_of

MIN_SECS = 5.0  # samples closer together would measure clock ticks
APART_SECS = 1.0  # between stored samples, however frequent scrapes are
KEPT = 64


def busy_secs_of(cpu: CpuSecs) -> float:
    """Return the CPU seconds in which the node was busy; waiting for I/O is idle, stolen time busy."""
    return cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq + cpu.steal


def idle_secs_of(cpu: CpuSecs) -> float:
    """Return the CPU seconds in which the node was idle, iowait included."""
    return cpu.idle + cpu.iowait


class _Sample(NamedTuple):
    read_at_secs: float  # monotonic
    used_secs: Mapping[RunKey, float]
    node: CpuSecs | None


class CpuRates:
    """Computes how many CPUs each job uses: its CPU seconds per second, between samples at least 5 s apart.

    `node_busy_cpus` is how many CPUs of the whole node are busy, None if unknown. It is the busy share of the
    node's CPU time, multiplied by its CPUs: so a delayed reading cannot push it above their number.
    """

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=KEPT)
        self.node_busy_cpus: float | None = None

    def update(self, snapshot: Snapshot) -> Mapping[JobKey, float]:
        """Add a sample; return how many CPUs each job uses, without jobs that have just begun."""
        now = _sample(snapshot)
        while len(self._samples) > 1 and self._samples[1].read_at_secs <= now.read_at_secs - MIN_SECS:
            self._samples.popleft()
        rates: dict[JobKey, float] = {}
        busy_cpus = None
        cpus = 0 if snapshot.node is None else len(snapshot.node.cores)
        if self._samples and (elapsed := now.read_at_secs - self._samples[0].read_at_secs) >= MIN_SECS:
            before = self._samples[0]
            if cpus and (share := compute_busy_share(before.node, now.node)) is not None:
                busy_cpus = share * cpus
            both = ((key, before.used_secs.get(key), secs) for key, secs in now.used_secs.items())
            found = {key: compute_rate(earlier, secs, elapsed, cpus) for key, earlier, secs in both}
            rates = {key: rate for (key, _), rate in found.items() if rate is not None}
        self.node_busy_cpus = busy_cpus  # at once: pages read it meanwhile
        if not self._samples or now.read_at_secs - self._samples[-1].read_at_secs >= APART_SECS:
            self._samples.append(now)
        return rates


def _sample(snapshot: Snapshot) -> _Sample:
    used = {
        (key, sample.run): secs
        for key, sample in snapshot.jobs.items()
        if isinstance(key, JobKey) and (secs := cpu_secs_of(sample)) is not None
    }
    return _Sample(snapshot.read_at_secs, used, None if snapshot.node is None else snapshot.node.cpu)


def compute_rate(
    before_secs: float | None, secs: float | None, elapsed_secs: float, cpus: float
) -> float | None:
    """Return the CPU seconds per second of a job between two readings of its counter, at most `cpus`.

    The readings `before_secs` and `secs` are `elapsed_secs` apart. `cpus` is how many the node has, 0:
    unknown. Returns None if a reading is unknown, or the later one is lower.
    """
    if before_secs is None or secs is None or secs < before_secs or elapsed_secs <= 0:
        return None
    return min((secs - before_secs) / elapsed_secs, cpus or math.inf)


def compute_busy_share(before: CpuSecs | None, now: CpuSecs | None) -> float | None:
    """Return the busy share, 0 to 1, of the node's CPU time between two readings, None if unknown."""
    if before is None or now is None:
        return None
    busy = busy_secs_of(now) - busy_secs_of(before)
    idle = idle_secs_of(now) - idle_secs_of(before)
    if busy < 0 or busy + idle <= 0:
        return None
    return min(1.0, busy / (busy + idle))  # the kernel's iowait counter may decrease
