"""How many CPUs each job uses now, from two looks at the node. Pure but for what it remembers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from exporter.snapshot import JobSample, Snapshot
from jobfeatures.model import JobKey

MIN_SECS = 5.0  # two looks that are closer would measure clock ticks
APART_SECS = 1.0  # of looks that are kept, however often somebody scrapes
KEPT = 64


def cpu_secs_of(sample: JobSample) -> float | None:
    """Return the CPU seconds that a job has used here, None where one of the modes cannot be read."""
    if sample.user_cpu_secs is None or sample.system_cpu_secs is None:
        return None
    return sample.user_cpu_secs + sample.system_cpu_secs


class CpuRates:
    """CPU seconds a second of each job, between the latest look and the last one at least 5 s before it.

    Time is monotonic, so that setting the clock changes nothing.
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, dict[JobKey, float]]] = deque(maxlen=KEPT)

    def update(self, snapshot: Snapshot, monotonic_secs: float) -> Mapping[JobKey, float]:
        """Return the rates after one more look. A job that was not in the earlier one has none yet."""
        used = {
            key: secs
            for key, sample in snapshot.jobs.items()
            if isinstance(key, JobKey) and (secs := cpu_secs_of(sample)) is not None
        }
        while len(self._looks) > 1 and self._looks[1][0] <= monotonic_secs - MIN_SECS:
            self._looks.popleft()
        rates: dict[JobKey, float] = {}
        if self._looks and (elapsed := monotonic_secs - self._looks[0][0]) >= MIN_SECS:
            before = self._looks[0][1]
            rates = {
                key: (secs - before[key]) / elapsed
                for key, secs in used.items()
                if key in before and secs >= before[key]
            }
        if not self._looks or monotonic_secs - self._looks[-1][0] >= APART_SECS:
            self._looks.append((monotonic_secs, used))
        return rates
