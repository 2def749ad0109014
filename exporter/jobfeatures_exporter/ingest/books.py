"""Counts what a job on a foreign node has used: sums over its processes, which never decrease. Pure.

A process's counters include those of the child processes it has waited for. So when a process vanishes while
an ancestor lives that may wait for it, the vanished counts are subtracted from the job's later growth, and
nothing is counted twice. Where the agent reports several processes as one sum (rolled up), it is unknown
which of them ended, so growth in the same interval may be missed. If in doubt, too little is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobfeatures_exporter.ingest.contents import ProcessRecord

MAX_ANCESTORS: Final = 64
DEFUNCT: Final = " <defunct>"  # a zombie still belongs to the processes it was rolled up with


class Counts(NamedTuple):
    """What processes have used: CPU seconds, and bytes of I/O (0 if the agent does not send them).

    Cancelled bytes were written to files that were deleted or truncated before they reached the disk.
    """

    cpu_secs: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    cancelled_bytes: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return each counter plus that of `other`."""
        return Counts(self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3])

    def less(self, other: Counts) -> Counts:
        """Return each counter minus that of `other`, at least 0."""
        cpu, read, written, cancelled = (
            self[0] - other[0], self[1] - other[1], self[2] - other[2], self[3] - other[3]
        )  # fmt: skip
        return Counts(max(0, cpu), max(0, read), max(0, written), max(0, cancelled))

    def at_most(self, other: Counts) -> Counts:
        """Return the smaller value of each counter."""
        return Counts(*map(min, self, other))


NOTHING: Final = Counts()

_Unit = int | tuple[int, str]  # one process by pid, or rolled-up processes by parent and command


@dataclass(slots=True)
class _Sample:
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
    """The counters of one job on one node: `total` is what its processes have used since it was first seen.

    `seen_at_secs` is the Unix time at which the job last had processes.
    """

    total: Counts = NOTHING
    seen_at_secs: float = 0.0
    _last: _Sample = field(default_factory=_Sample)
    _owed: Counts = NOTHING  # used by ended processes, not yet seen in the counters of ancestors

    def update(self, processes: Iterable[ProcessRecord], now_secs: float) -> None:
        """Add what the processes used since the last call; of new processes, all that they have used."""
        before, sample = self._last, _Sample()
        for each in processes:
            sample.add(each)
        grown = ended = inherited = NOTHING
        for unit, counts in sample.counts.items():
            old = before.counts[unit] if _goes_on(before, sample, unit) else NOTHING
            grown = grown.plus(counts.less(old))
        for unit, counts in before.counts.items():
            left = sample.counts[unit] if _goes_on(before, sample, unit) else NOTHING
            gone = counts.less(left)
            ended = ended.plus(gone)
            if gone != NOTHING and _has_living_ancestor(before, sample, unit):
                inherited = inherited.plus(gone)
        # Among rolled-up processes, an ended one cannot be told from one that is now shown elsewhere.
        due = self._owed.plus(ended if before.is_rolled or sample.is_rolled else inherited)
        self.total = self.total.plus(grown.less(due))
        self._owed = due.less(grown).at_most(self._owed.plus(inherited))
        self.seen_at_secs = now_secs
        self._last = sample


def _counts_of(process: ProcessRecord) -> Counts:
    return Counts(
        process.cpu_secs,
        process.data_read_bytes or 0,
        process.data_written_bytes or 0,
        process.data_cancelled_bytes or 0,
    )


def _goes_on(before: _Sample, now: _Sample, unit: _Unit) -> bool:
    """Return whether a process is the same: pids are reused; a process may change parent or command."""
    if unit not in before.counts or unit not in now.counts:
        return False
    if isinstance(unit, tuple):
        return True
    if now.counts[unit].cpu_secs < before.counts[unit].cpu_secs:
        return False
    return before.ppids[unit] == now.ppids[unit] or before.commands[unit] == now.commands[unit]


def _has_living_ancestor(before: _Sample, now: _Sample, unit: _Unit) -> bool:
    """Return whether an ancestor of a process is still in the job, as a process or in a merged row."""
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
