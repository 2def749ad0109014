"""Counters of a foreign job: sums over processes that come and go, which never decrease. Pure.

A process counts what its reaped children used as well: what a process had when it vanished is taken
off what the job grows by afterwards, if an ancestor is there that may wait for it, so that it is not
counted twice. Among processes that are rolled up nobody knows which ended, so what one adds while
another ends may be missed. Too little is counted rather than too much.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobfeatures_exporter.ingest.records import ProcessRecord

MAX_ANCESTORS: Final = 64
DEFUNCT: Final = " <defunct>"  # a zombie still belongs to the processes it was rolled up with


class Counts(NamedTuple):
    """What is counted: seconds, and bytes where the agent sends them."""

    cpu_secs: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    cancelled_bytes: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sum."""
        return Counts(self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3])

    def less(self, other: Counts) -> Counts:
        """Return the difference, nothing below 0."""
        cpu, read, written, cancelled = (
            self[0] - other[0], self[1] - other[1], self[2] - other[2], self[3] - other[3]
        )  # fmt: skip
        return Counts(max(0, cpu), max(0, read), max(0, written), max(0, cancelled))

    def at_most(self, other: Counts) -> Counts:
        """Return the lesser of each."""
        return Counts(*map(min, self, other))


NOTHING: Final = Counts()

_Unit = int | tuple[int, str]  # one process by pid; or what is rolled up, by parent and command


@dataclass(slots=True)
class _Look:
    counts: dict[_Unit, Counts] = field(default_factory=dict)
    ppids: dict[_Unit, int] = field(default_factory=dict)
    commands: dict[_Unit, str] = field(default_factory=dict)
    is_rolled: bool = False

    def add(self, process: ProcessRecord) -> None:
        command = process.command.removesuffix(DEFUNCT)
        is_single = process.pid != 0 and not process.is_rolled_up
        unit: _Unit = process.pid if is_single else (process.ppid, command)
        self.counts[unit] = self.counts.get(unit, NOTHING).plus(_counts_of(process))
        self.ppids[unit] = process.ppid
        self.commands[unit] = command
        self.is_rolled = self.is_rolled or not is_single


@dataclass(slots=True)
class ForeignJobCounters:
    """The counters of one job on one node. `seen_at_secs` is when it had processes last."""

    total: Counts = NOTHING
    seen_at_secs: float = 0.0
    _look: _Look = field(default_factory=_Look)
    _owed: Counts = NOTHING  # had by processes that ended, and not yet seen in those that wait for them

    def update(self, processes: Iterable[ProcessRecord], now_secs: float) -> None:
        """Count what the processes used since they were seen last; all of it for new ones."""
        before, look = self._look, _Look()
        for each in processes:
            look.add(each)
        grown = ended = inherited = NOTHING
        for unit, counts in look.counts.items():
            old = before.counts[unit] if _goes_on(before, look, unit) else NOTHING
            grown = grown.plus(counts.less(old))
        for unit, counts in before.counts.items():
            left = look.counts[unit] if _goes_on(before, look, unit) else NOTHING
            gone = counts.less(left)
            ended = ended.plus(gone)
            if gone != NOTHING and _has_heir(before, look, unit):
                inherited = inherited.plus(gone)
        # Among what is rolled up an ended process cannot be told from one that is now shown elsewhere.
        due = self._owed.plus(ended if before.is_rolled or look.is_rolled else inherited)
        self.total = self.total.plus(grown.less(due))
        self._owed = due.less(grown).at_most(self._owed.plus(inherited))
        self.seen_at_secs = now_secs
        self._look = look


def _counts_of(process: ProcessRecord) -> Counts:
    return Counts(
        process.cpu_secs,
        process.data_read_bytes or 0,
        process.data_written_bytes or 0,
        process.data_cancelled_bytes or 0,
    )


def _goes_on(before: _Look, now: _Look, unit: _Unit) -> bool:
    """Return whether it was there. A pid may name another process; a process may change parent or command."""
    if unit not in before.counts or unit not in now.counts:
        return False
    if isinstance(unit, tuple):
        return True
    if now.counts[unit].cpu_secs < before.counts[unit].cpu_secs:
        return False
    return before.ppids[unit] == now.ppids[unit] or before.commands[unit] == now.commands[unit]


def _has_heir(before: _Look, now: _Look, unit: _Unit) -> bool:
    """Return whether an ancestor within the job lives, alone or among what is rolled up."""
    for _ in range(MAX_ANCESTORS):
        parent = before.ppids[unit]
        if parent in now.counts:
            return True
        if parent not in before.counts:
            return False
        unit = parent
        if (before.ppids[unit], before.commands[unit]) in now.counts:
            return True
    return False
