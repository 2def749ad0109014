"""Attributes the whole machine's energy to jobs: does no I/O, but keeps state.

Between two samples the cards' part, as reported by their drivers (the whole at most), goes to the jobs that
used them; the rest is divided by CPU time, like the packages' energy. What is left, of idle cards and other
processes, is nobody's. Joules of a card may be charged an interval late.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.power.energy import JobEnergy
from jobfeatures_exporter.snapshot import CpuSecs, Snapshot

UsedCards = Mapping[tuple[JobKey, str], float]


class BoardEnergy:
    """The joules of each job by one sensor of the machine; they never decrease during the job's lifetime."""

    def __init__(self) -> None:
        self._joules: float | None = None
        self._rest = 0.0  # joules not drawn by cards: a counter
        self._by_cpu = JobEnergy()
        self._cards: Mapping[str, float] = {}
        self._used_cards: UsedCards = {}
        self._of_cards: dict[JobKey, float] = {}

    def update(
        self,
        *,
        joules: float,
        cpu: CpuSecs | None,
        used_secs: Mapping[JobKey, float | None],
        cards: Mapping[str, float],
        used_cards: UsedCards,
    ) -> Mapping[JobKey, float]:
        """Add one sample; return the joules by job.

        All arguments are counters: `joules` of the machine, `cards` of each card by UUID, `used_cards` of
        each job's part of a card, which starts at 0 for a job that is new there.
        """
        here = used_secs.keys() - self._by_cpu.find_replaced(used_secs)
        self._used_cards = {use: part for use, part in self._used_cards.items() if use[0] in here}
        for key in self._of_cards.keys() - here:
            del self._of_cards[key]
        if self._joules is not None:
            grown = max(0.0, joules - self._joules)
            drawn = sum(max(0.0, now - self._cards.get(uuid, now)) for uuid, now in cards.items())
            used: dict[JobKey, float] = {}
            for use, now in used_cards.items():
                if use[1] in cards:
                    used[use[0]] = used.get(use[0], 0.0) + max(0.0, now - self._used_cards.get(use, 0.0))
            drawn = max(drawn, sum(used.values()))
            part = min(grown, drawn)
            for key in used.keys() & used_secs.keys() if drawn > 0 else ():
                self._of_cards[key] = self._of_cards.get(key, 0.0) + part * (used[key] / drawn)
            self._rest += grown - part
        self._joules, self._cards, self._used_cards = joules, cards, used_cards
        by_cpu = self._by_cpu.update(joules=self._rest, cpu=cpu, used_secs=used_secs)
        return {key: by_cpu.get(key, 0.0) + self._of_cards.get(key, 0.0) for key in used_secs}


def card_joules(snapshot: Snapshot) -> tuple[Mapping[str, float], UsedCards]:
    """Return the joules of each physical card, and of each job on it; MIG instances have no counter."""
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
