"""Joules of the CPU packages, and each job's share of them: does no I/O, but keeps state.

A package does not measure energy by job, so its joules and its memory's between two samples are divided by
CPU time: a job gets them in the ratio of its CPU time to all of the node but idle, waiting for I/O and
stolen. Running jobs thus also bear idle power; the share of processes outside jobs is attributed to no job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.cpurates import cpu_secs_of
from jobfeatures_exporter.snapshot import CpuSecs, JobSample, NodeSample, WorkKey

# No package draws this much: a counter that seems to show more was reset and has not wrapped.
MAX_WATTS = 5000.0
_SHARED = ("package", "dram")


def compute_increase_uj(before_uj: int, now_uj: int, *, max_range_uj: int | None, elapsed_secs: float) -> int:
    """Return the increase of a counter in microjoules, 0 where that cannot be known.

    Source: Documentation/power/powercap/powercap.rst: ``energy_uj`` wraps to 0 beyond
    ``max_energy_range_uj``. One wrap is detected, a second one is not; an increase above `MAX_WATTS` W means
    that it was set back.
    """
    if now_uj >= before_uj:
        return now_uj - before_uj
    if max_range_uj is None or before_uj > max_range_uj:
        return 0
    wrapped = max_range_uj - before_uj + now_uj
    return wrapped if wrapped <= MAX_WATTS * 1e6 * max(elapsed_secs, 0.0) else 0


def compute_shares(
    joules: float, *, busy_secs: float, used_secs: Mapping[JobKey, float]
) -> dict[JobKey, float]:
    """Return the joules of each job by its part of the non-idle CPU time. Their sum never exceeds `joules`.

    The node's time is counted in ticks, the jobs' more finely: if the jobs' sum is greater, it is the total.
    """
    total_secs = max(busy_secs, sum(used_secs.values()))
    if total_secs <= 0 or joules <= 0:
        return dict.fromkeys(used_secs, 0.0)
    return {key: joules * (secs / total_secs) for key, secs in used_secs.items()}


def compute_busy_secs(cpu: CpuSecs) -> float:
    """Return the non-idle CPU time of this machine; stolen time was spent by another."""
    return cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq


def compute_package_joules(domains: Mapping[str, float]) -> float | None:
    """Return the joules of packages and their memory, without `psys` (whole platform); None: unreadable."""
    if not any(name.startswith("package") for name in domains):
        return None
    return sum(joules for name, joules in domains.items() if name.startswith(_SHARED))


class JobEnergy:
    """The joules of each job since it was first seen; they never decrease during its lifetime.

    A sample in which joules or CPU time could not be read distributes nothing:
    the next complete one distributes for both.
    """

    def __init__(self) -> None:
        self._joules: float | None = None
        self._busy_secs = 0.0
        self._used_secs: dict[JobKey, float] = {}
        self._totals: dict[JobKey, float] = {}

    def share(
        self, domains: Mapping[str, float], node: NodeSample, jobs: Mapping[WorkKey, JobSample]
    ) -> tuple[NodeSample, Mapping[WorkKey, JobSample]]:
        """Return node and jobs with their joules at this sample; `domains` are the node's counters, if any."""
        if not domains:
            return node, jobs
        shares = self.update(
            joules=compute_package_joules(domains),
            cpu=node.cpu,
            used_secs={key: cpu_secs_of(sample) for key, sample in jobs.items() if isinstance(key, JobKey)},
        )
        with_joules = dict(jobs)
        for key, joules in shares.items():
            with_joules[key] = replace(jobs[key], energy_joules=joules)
        return replace(node, energy_joules=domains), with_joules

    def update(
        self, *, joules: float | None, cpu: CpuSecs | None, used_secs: Mapping[JobKey, float | None]
    ) -> Mapping[JobKey, float]:
        """Add one sample; return the joules by job, empty if the packages are not readable.

        `joules` and the CPU seconds are counters. A job that was not in the last sample began after it,
        unless it has used more than the whole node has since: then it counts from now on. A job that has used
        less than before is a different one with the same key.
        """
        here = used_secs.keys() - self.find_replaced(used_secs)
        self._used_secs = {key: secs for key, secs in self._used_secs.items() if key in here}
        for key in self._totals.keys() - here:
            del self._totals[key]
        if joules is None or cpu is None:
            return {} if self._joules is None else {key: self._totals.get(key, 0.0) for key in used_secs}
        busy_secs = compute_busy_secs(cpu)
        if self._joules is not None:
            increase = max(0.0, busy_secs - self._busy_secs)
            used = self._increases(used_secs, increase)
            shares = compute_shares(joules - self._joules, busy_secs=increase, used_secs=used)
            for key, share in shares.items():
                self._totals[key] = self._totals.get(key, 0.0) + share
        self._joules, self._busy_secs = joules, busy_secs
        self._used_secs = {
            key: secs if secs is not None else self._used_secs[key]
            for key, secs in used_secs.items()
            if secs is not None or key in self._used_secs
        }
        return {key: self._totals.get(key, 0.0) for key in used_secs}

    def find_replaced(self, used_secs: Mapping[JobKey, float | None]) -> set[JobKey]:
        """Return the keys of different jobs: those that have used less than in the last sample."""
        known = self._used_secs
        return {key for key, secs in used_secs.items() if secs is not None and secs < known.get(key, 0.0)}

    def _increases(self, used_secs: Mapping[JobKey, float | None], most_secs: float) -> dict[JobKey, float]:
        found = {}
        for key, secs in used_secs.items():
            if secs is None:
                continue
            if key in self._used_secs:
                found[key] = max(0.0, secs - self._used_secs[key])
            elif secs <= most_secs:
                found[key] = secs
        return found
