"""Joules of CPU packages and of the whole machine, and each job's share. Does no I/O, but keeps state.

A package does not measure energy by job. So the joules of a package and its memory between two samples are
divided by CPU time: a job gets the part that is its own CPU time ÷ the node's busy CPU time (without idle,
I/O wait and stolen time). So running jobs bear idle power too. The part of processes outside jobs goes to no
job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import (
    CpuSecs,
    JobSample,
    NodeSample,
    RunKey,
    Snapshot,
    WorkKey,
    cpu_secs_of,
)

MAX_WATTS = 5000.0  # no package draws this much: a counter that shows more was set back or forward
LONG_WATTS = 500.0  # nor this much for long: a counter that could have wrapped twice by then tells nothing
COUNTER_SECS = 0.1  # the kernel's reading may be as much older than ours
UNSEEN = -1  # for the run of a job that has cards and was never seen
UsedCards = Mapping[tuple[JobKey, str], float]
_SHARED = ("package", "dram")


def compute_increase_uj(
    before_uj: int,
    now_uj: int,
    *,
    max_range_uj: int | None,
    elapsed_secs: float,
    max_watts: float = MAX_WATTS,
) -> int:
    """Return the increase of an energy counter in microjoules; 0 if it cannot be known.

    Source: Documentation/power/powercap/powercap.rst: ``energy_uj`` wraps to 0 beyond
    ``max_energy_range_uj``. If it may have wrapped more than once in `elapsed_secs`, the increase is unknown.
    A decrease by less than half the range is no wrap but a step back, and unknown too. An increase beyond
    `max_watts` is refused.
    """
    if max_range_uj is not None and LONG_WATTS * 1e6 * elapsed_secs > max_range_uj:
        return 0
    grown_uj = now_uj - before_uj
    if grown_uj < 0:
        if max_range_uj is None or before_uj > max_range_uj or grown_uj > -max_range_uj / 2:
            return 0
        grown_uj += max_range_uj
    return grown_uj if 0 <= grown_uj <= max_watts * 1e6 * (max(elapsed_secs, 0.0) + COUNTER_SECS) else 0


def compute_shares(
    joules: float, *, busy_secs: float, used_secs: Mapping[RunKey, float]
) -> dict[RunKey, float]:
    """Return each job's joules: `joules` × its CPU time `used_secs` ÷ the node's busy CPU time, `busy_secs`.

    The sum never exceeds `joules`: if the jobs' times add up to more than `busy_secs`, which is counted in
    clock ticks, their sum is used instead.
    """
    total_secs = max(busy_secs, sum(used_secs.values()))
    if total_secs <= 0 or joules <= 0:
        return dict.fromkeys(used_secs, 0.0)
    return {key: joules * (secs / total_secs) for key, secs in used_secs.items()}


def compute_busy_secs(cpu: CpuSecs) -> float:
    """Return the node's CPU seconds that are neither idle, nor waiting for I/O, nor stolen by the host."""
    return cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq


def compute_package_joules(domains: Mapping[str, float]) -> float | None:
    """Return the joules of all CPU packages and their memory; None if no package is known.

    The domain `psys`, which is the whole platform, is not included.
    """
    if not any(name.startswith("package") for name in domains):
        return None
    return sum(joules for name, joules in domains.items() if name.startswith(_SHARED))


class JobEnergy:
    """Counts the CPU packages' joules for each run of a job since it was first seen; they never decrease.

    A sample in which joules or CPU time could not be read gives nothing to jobs. The next sample that has
    both divides the joules of the whole time since.
    """

    def __init__(self) -> None:
        self._joules: float | None = None
        self._busy_secs = 0.0
        self._used_secs: dict[RunKey, float] = {}
        self._totals: dict[RunKey, float] = {}

    def share(
        self, domains: Mapping[str, float], node: NodeSample, jobs: Mapping[WorkKey, JobSample]
    ) -> tuple[NodeSample, Mapping[WorkKey, JobSample]]:
        """Return `node` and `jobs` with their joules set; `domains` are the counters from `NodeEnergy`."""
        joules = compute_package_joules(domains)
        if joules is None:  # none was ever read, or none has ever moved
            return replace(node, energy_joules=domains), jobs
        shares = self.update(joules=joules, cpu=node.cpu, used_secs=used_secs_of(jobs))
        with_joules = dict(jobs)
        for (key, _), joules in shares.items():
            with_joules[key] = replace(jobs[key], energy_joules=joules)
        return replace(node, energy_joules=domains), with_joules

    def update(
        self, *, joules: float | None, cpu: CpuSecs | None, used_secs: Mapping[RunKey, float | None]
    ) -> Mapping[RunKey, float]:
        """Add one sample; return the joules of each run, empty if the packages' joules were never read.

        `joules`, `cpu` and `used_secs` are counters. A run that was not in the last sample is taken to have
        begun since then; but if it has used more CPU time than the whole node since then, it gets no share of
        these joules.
        """
        self._used_secs = {key: secs for key, secs in self._used_secs.items() if key in used_secs}
        for key in self._totals.keys() - used_secs.keys():
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

    def _increases(self, used_secs: Mapping[RunKey, float | None], most_secs: float) -> dict[RunKey, float]:
        found = {}
        for key, secs in used_secs.items():
            if secs is None:
                continue
            if key in self._used_secs:
                found[key] = max(0.0, secs - self._used_secs[key])
            elif secs <= most_secs:
                found[key] = secs
        return found


class BoardEnergy:
    """Counts, for each run of a job, the joules that one sensor of the whole machine measures.

    The joules never decrease. Of those between two samples, the part that GPU cards' drivers report goes to
    the jobs that used the cards. The rest is divided by CPU time, like the packages' energy. The part of idle
    cards and of processes outside jobs goes to no job. Joules of a card may be attributed one interval late.
    """

    def __init__(self) -> None:
        self._joules: float | None = None
        self._rest = 0.0  # joules not drawn by cards: a counter
        self._by_cpu = JobEnergy()
        self._cards: Mapping[str, float] = {}
        self._used_cards: UsedCards = {}
        self._of_cards: dict[RunKey, float] = {}
        self._runs: dict[JobKey, int] = {}

    def update(
        self,
        *,
        joules: float,
        cpu: CpuSecs | None,
        used_secs: Mapping[RunKey, float | None],
        cards: Mapping[str, float],
        used_cards: UsedCards,
    ) -> Mapping[RunKey, float]:
        """Add one sample; return the joules of each run.

        All arguments are counters: `joules` of the machine, `cards` of each GPU card by UUID, and
        `used_cards` of each job's part of a card's joules, which starts at 0 when a run is first seen on that
        card.
        """
        before, self._runs = self._runs, dict(used_secs.keys())
        goes_on = {key for key, run in self._runs.items() if before.get(key, run) == run}
        self._used_cards = {use: part for use, part in self._used_cards.items() if use[0] in goes_on}
        for each in self._of_cards.keys() - used_secs.keys():
            del self._of_cards[each]
        if self._joules is not None:
            grown = max(0.0, joules - self._joules)
            drawn = sum(max(0.0, now - self._cards.get(uuid, now)) for uuid, now in cards.items())
            used: dict[RunKey, float] = {}
            for use, now in used_cards.items():
                if use[1] in cards:
                    whose = use[0], self._runs.get(use[0], UNSEEN)
                    used[whose] = used.get(whose, 0.0) + max(0.0, now - self._used_cards.get(use, 0.0))
            drawn = max(drawn, sum(used.values()))
            part = min(grown, drawn)
            for key in used.keys() & used_secs.keys() if drawn > 0 else ():
                self._of_cards[key] = self._of_cards.get(key, 0.0) + part * (used[key] / drawn)
            self._rest += grown - part
        self._joules, self._cards, self._used_cards = joules, cards, used_cards
        by_cpu = self._by_cpu.update(joules=self._rest, cpu=cpu, used_secs=used_secs)
        return {key: by_cpu.get(key, 0.0) + self._of_cards.get(key, 0.0) for key in used_secs}


def used_secs_of(jobs: Mapping[WorkKey, JobSample]) -> dict[RunKey, float | None]:
    """Return the CPU seconds that the present run of each job has used; None if unknown."""
    return {(key, each.run): cpu_secs_of(each) for key, each in jobs.items() if isinstance(key, JobKey)}


def card_joules(snapshot: Snapshot) -> tuple[Mapping[str, float], UsedCards]:
    """Return the joules of each GPU card by UUID, and each job's part of them by job and UUID.

    MIG instances are left out.
    """
    cards = {
        each.card.uuid: each.energy_joules
        for each in snapshot.gpus
        if each.energy_joules is not None and each.card.parent_uuid is None
    }
    used = {
        (each.key, each.uuid): each.energy_joules
        for each in snapshot.job_gpus
        if each.energy_joules is not None and isinstance(each.key, JobKey) and each.uuid in cards
    }
    return cards, used
