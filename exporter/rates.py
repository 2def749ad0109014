"""How many CPUs each job uses now, from two looks at the node. Pure but for what it remembers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from exporter.snapshot import CpuSecs, JobSample, Snapshot
from jobfeatures.model import JobKey

MIN_SECS = 5.0  # two looks that are closer would measure clock ticks
APART_SECS = 1.0  # of looks that are kept, however often somebody scrapes
KEPT = 64


def cpu_secs_of(sample: JobSample) -> float | None:
    """Return the CPU seconds that a job has used here, None where one of the modes cannot be read."""
    if sample.user_cpu_secs is None or sample.system_cpu_secs is None:
        return None
    return sample.user_cpu_secs + sample.system_cpu_secs


def busy_secs_of(cpu: CpuSecs) -> float:
    """Return the CPU seconds in which the node did something; waiting for storage is nothing."""
    return cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq + cpu.steal


class CpuRates:
    """CPU seconds a second of each job, between the latest look and the last one at least 5 s before it.

    Time is monotonic, so that setting the clock changes nothing. `node_busy_cpus`
    is the same for the node as a whole, None where it is not known.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, dict[JobKey, float], float | None]] = deque(maxlen=KEPT)
        self.node_busy_cpus: float | None = None

    def update(self, snapshot: Snapshot, monotonic_secs: float) -> Mapping[JobKey, float]:
        """Return the rates after one more look. A job that was not in the earlier one has none yet."""
        used = {
            key: secs
            for key, sample in snapshot.jobs.items()
            if isinstance(key, JobKey) and (secs := cpu_secs_of(sample)) is not None
        }
        while len(self._looks) > 1 and self._looks[1][0] <= monotonic_secs - MIN_SECS:
            self._looks.popleft()
        node = snapshot.node
        busy_secs = None if node is None or node.cpu is None else busy_secs_of(node.cpu)
        rates: dict[JobKey, float] = {}
        self.node_busy_cpus = None
        if self._looks and (elapsed := monotonic_secs - self._looks[0][0]) >= MIN_SECS:
            _, before, busy_before = self._looks[0]
            if busy_secs is not None and busy_before is not None and busy_secs >= busy_before:
                self.node_busy_cpus = (busy_secs - busy_before) / elapsed
            rates = {
                key: (secs - before[key]) / elapsed
                for key, secs in used.items()
                if key in before and secs >= before[key]
            }
        if not self._looks or monotonic_secs - self._looks[-1][0] >= APART_SECS:
            self._looks.append((monotonic_secs, used, busy_secs))
        return rates
