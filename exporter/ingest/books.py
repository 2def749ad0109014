"""Counters of a foreign job: sums over processes that come and go, which never fall. Pure.

A process counts what its reaped children used as well: what a process had when it vanished is
taken off the growth of its nearest ancestor that is still there, so that it is not counted twice.
Where that is not known, too little is counted rather than too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobfeatures.formats.sonar.records import ProcessRecord

MAX_ANCESTORS: Final = 64


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


NOTHING: Final = Counts()


class _Seen(NamedTuple):
    ppid: int
    command: str
    counts: Counts


_Group = tuple[int, str]  # parent and command: what is rolled up


@dataclass(slots=True)
class JobBook:
    """The counters of one job on one node. `seen_at_secs` is when it had processes last."""

    total: Counts = NOTHING
    seen_at_secs: float = 0.0
    _processes: Mapping[int, _Seen] = field(default_factory=dict)
    _rolled: Mapping[_Group, Counts] = field(default_factory=dict)

    def update(self, processes: Iterable[ProcessRecord], now_secs: float) -> None:
        """Count what the processes used since they were seen last; all of it for new ones."""
        alone, rolled = _sorted(processes, self._rolled)
        before, rolled_before = _regrouped(self._processes, self._rolled, rolled)
        taken_over = _taken_over(before, rolled_before, alone, rolled)
        grown = NOTHING
        for pid, each in alone.items():
            old = before.get(pid)
            growth = each.counts.less(old.counts) if _is_same(old, each) else each.counts  # type: ignore[union-attr]
            grown = grown.plus(growth.less(taken_over.get(pid, NOTHING)))
        for group, counts in rolled.items():
            grown = grown.plus(counts.less(rolled_before.get(group, NOTHING)))
        self.total = self.total.plus(grown)
        self.seen_at_secs = now_secs
        self._processes, self._rolled = alone, rolled


def _counts_of(process: ProcessRecord) -> Counts:
    return Counts(
        process.cpu_secs,
        process.data_read_bytes or 0,
        process.data_written_bytes or 0,
        process.data_cancelled_bytes or 0,
    )


def _sorted(
    processes: Iterable[ProcessRecord], rolled_before: Mapping[_Group, Counts]
) -> tuple[dict[int, _Seen], dict[_Group, Counts]]:
    """Return single processes by pid, and sums of groups in which processes are or were rolled up."""
    processes = list(processes)
    groups = {(each.ppid, each.command) for each in processes if each.pid == 0}.union(rolled_before)
    alone: dict[int, _Seen] = {}
    rolled: dict[_Group, Counts] = {}
    for each in processes:
        group = (each.ppid, each.command)
        if group in groups:
            rolled[group] = rolled.get(group, NOTHING).plus(_counts_of(each))
        else:
            alone[each.pid] = _Seen(each.ppid, each.command, _counts_of(each))
    return alone, rolled


def _regrouped(
    processes: Mapping[int, _Seen], rolled: Mapping[_Group, Counts], groups: Iterable[_Group]
) -> tuple[dict[int, _Seen], dict[_Group, Counts]]:
    """Return what was seen last with those processes in groups that are rolled up now."""
    wanted = set(groups)
    alone: dict[int, _Seen] = {}
    sums = dict(rolled)
    for pid, each in processes.items():
        group = (each.ppid, each.command)
        if group in wanted:
            sums[group] = sums.get(group, NOTHING).plus(each.counts)
        else:
            alone[pid] = each
    return alone, sums


def _is_same(old: _Seen | None, new: _Seen) -> bool:
    """Tell whether a pid still names the same process, which may have a new parent or a new command."""
    if old is None or new.counts.cpu_secs < old.counts.cpu_secs:
        return False
    return old.ppid == new.ppid or old.command == new.command


def _taken_over(
    before: Mapping[int, _Seen],
    rolled_before: Mapping[_Group, Counts],
    alone: Mapping[int, _Seen],
    rolled: Mapping[_Group, Counts],
) -> dict[int, Counts]:
    """Return, by pid of the nearest living ancestor, what those had that are gone."""
    gone = [
        (each.ppid, each.counts) for pid, each in before.items() if not _is_same(each, alone.get(pid, _NONE))
    ]
    gone += [(group[0], counts.less(rolled.get(group, NOTHING))) for group, counts in rolled_before.items()]
    found: dict[int, Counts] = {}
    for ppid, counts in gone:
        ancestor = ppid
        for _ in range(MAX_ANCESTORS):
            if ancestor in alone or ancestor not in before:
                break
            ancestor = before[ancestor].ppid
        if ancestor in alone:
            found[ancestor] = found.get(ancestor, NOTHING).plus(counts)
    return found


_NONE: Final = _Seen(-1, "", Counts(cpu_secs=-1))
