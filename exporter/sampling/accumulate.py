"""CPU time of jobs that are made of processes: pure.

A sum over live processes falls when one exits, so what each process adds
between two looks is accumulated. A process that ends hands its time to the
parent that waits for it (cutime and cstime of proc_pid_stat(5)); what was
counted while it lived must not be counted again there. All processes of the
node take part, whatever they belong to: the parent may be of another job.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from exporter.snapshot import ProcessSample

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """CPU time in clock ticks."""

    user: int
    system: int


DYING = frozenset("ZX")
_NOTHING = CpuTicks(0, 0)


@dataclass(frozen=True, slots=True)
class _Gone:
    """A process that is no longer there, and who may have its time now."""

    process: ProcessSample
    parent: int | None  # who must have it: its last known parent lives on
    ancestor: int | None  # else who may have it, this one or one above: children of the dead are adopted


@dataclass(frozen=True, slots=True)
class _Look(Generic[Key]):
    """The difference between two looks."""

    processes: Mapping[int, ProcessSample]
    keys: Mapping[int, Key]
    gone: list[_Gone]
    changed: list[tuple[ProcessSample | None, ProcessSample]]  # before (None: not known as of this job), now


class _Part(Generic[Key]):
    """One of the two times, user or system, which are handed on separately.

    `claims` is time that was counted of children that vanished and whose
    parent has not shown it yet, by parent; `loose` is the same where the
    parent ended too, by the next ancestor still there. `unexplained` is what a
    parent showed at the last look without any claim to it: perhaps of a child
    that was read first, then ended, then was read again within its parent.
    """

    def __init__(self, name: str) -> None:
        self._own: Callable[[ProcessSample], int] = attrgetter(f"{name}_ticks")
        self._children: Callable[[ProcessSample], int] = attrgetter(f"children_{name}_ticks")
        self._claims: dict[int, int] = {}
        self._loose: dict[int, int] = {}
        self._unexplained: dict[int, int] = {}
        self.totals: dict[Key, int] = {}
        self.touched: set[Key] = set()

    def advance(self, look: _Look[Key]) -> None:
        self.touched.clear()
        claims, loose = self._claim(look.gone)
        shown = self._count_own(look)
        for pid, amount in self._claims.items():
            _match(shown, pid, amount)
        for pid, amount in claims.items():
            left = amount - _match(shown, pid, amount)
            twice = min(left, self._unexplained.get(pid, 0))
            claims[pid] = left - twice
            self._add(look, pid, -twice)
        for pid, amount in self._loose.items():
            _match_upwards(shown, pid, amount, look.processes)
        for pid, amount in loose.items():
            loose[pid] = amount - _match_upwards(shown, pid, amount, look.processes)
        for pid, amount in shown.items():
            self._add(look, pid, amount)
        self._claims = {pid: amount for pid, amount in claims.items() if amount}
        self._loose = {pid: amount for pid, amount in loose.items() if amount}
        self._unexplained = {pid: amount for pid, amount in shown.items() if amount}

    def _claim(self, gone: list[_Gone]) -> tuple[dict[int, int], dict[int, int]]:
        claims: dict[int, int] = {}
        loose: dict[int, int] = {}
        for each in gone:
            pid = each.process.pid
            amount = self._own(each.process) + self._children(each.process) + self._claims.pop(pid, 0)
            carried = self._loose.pop(pid, 0)
            self._unexplained.pop(pid, None)
            if each.parent is not None:
                claims[each.parent] = claims.get(each.parent, 0) + amount
            else:
                carried += amount
            heir = each.parent if each.parent is not None else each.ancestor
            if heir is not None and carried:
                loose[heir] = loose.get(heir, 0) + carried
        return claims, loose

    def _count_own(self, look: _Look[Key]) -> dict[int, int]:
        """Count what is certain; return by pid what is shown of children, claimed or not."""
        shown = {}
        for before, now in look.changed:
            if before is None:
                self._add(look, now.pid, self._own(now) + self._children(now))
                continue
            self._add(look, now.pid, max(0, self._own(now) - self._own(before)))
            increase = self._children(now) - self._children(before)
            if increase > 0:
                shown[now.pid] = increase
        return shown

    def _add(self, look: _Look[Key], pid: int, amount: int) -> None:
        key = look.keys.get(pid)
        if key is not None:
            self.totals[key] = self.totals.get(key, 0) + amount
            self.touched.add(key)


class CpuAccumulator(Generic[Key]):
    """Totals by job that never fall.

    At each look a process adds the increase of its own time, and of its
    children's time less what had been counted of those that vanished. A
    process that was not there before adds everything it has. A claim lives for
    two looks: one look takes a while, so a child may be missing from it while
    its parent was read before it ended. A total falls short, and never
    exceeds, where a child's time went nowhere (nobody waited for it) in the
    very interval in which its former ancestors showed time of others.
    """

    def __init__(self) -> None:
        self._processes: dict[int, ProcessSample] = {}
        self._keys: dict[int, Key] = {}
        self._user: _Part[Key] = _Part("user")
        self._system: _Part[Key] = _Part("system")
        self._totals: dict[Key, CpuTicks] = {}

    def update(
        self, processes: Mapping[int, ProcessSample], keys: Mapping[int, Key]
    ) -> Mapping[Key, CpuTicks]:
        """Take one look: all processes by pid, and the key of each. Return the totals by key.

        A process without a key is followed but counted nowhere; a key without
        processes is forgotten. The totals hold until the next look, and are the
        same objects where they have not grown. A process that moves to another key brings its
        whole life along: it was there all the time, only nobody knew.
        """
        look = _Look(processes, keys, list(self._gone(processes)), list(self._changed(processes, keys)))
        self._processes = dict(processes)
        self._keys = dict(keys)
        self._user.advance(look)
        self._system.advance(look)
        self._tell(set(keys.values()))
        return self._totals

    def _gone(self, processes: Mapping[int, ProcessSample]) -> Iterator[_Gone]:
        for pid, process in self._processes.items():
            now = processes.get(pid)
            if now is process or (now is not None and now.start_ticks == process.start_ticks):
                continue
            parent = process.ppid
            if self._lives(parent, processes) and processes[parent].state not in DYING:
                yield _Gone(process, parent, None)
                continue
            ancestor = parent
            asked = {pid}
            while not self._lives(ancestor, processes):
                above = self._processes.get(ancestor)
                if above is None or ancestor in asked:
                    yield _Gone(process, None, None)
                    break
                asked.add(ancestor)
                ancestor = above.ppid
            else:
                yield _Gone(process, None, ancestor)

    def _lives(self, pid: int, processes: Mapping[int, ProcessSample]) -> bool:
        before, now = self._processes.get(pid), processes.get(pid)
        return before is not None and now is not None and before.start_ticks == now.start_ticks

    def _changed(
        self, processes: Mapping[int, ProcessSample], keys: Mapping[int, Key]
    ) -> Iterator[tuple[ProcessSample | None, ProcessSample]]:
        for pid, now in processes.items():
            before = self._processes.get(pid)
            if before is not None and self._keys.get(pid) == keys.get(pid):
                if before is now:
                    continue
                yield (before if before.start_ticks == now.start_ticks else None), now
            else:
                yield None, now

    def _tell(self, keys: set[Key]) -> None:
        for key in self._totals.keys() - keys:
            del self._totals[key]
            self._user.totals.pop(key, None)
            self._system.totals.pop(key, None)
        for key in (self._user.touched | self._system.touched) & keys:
            told = self._totals.get(key, _NOTHING)
            user = max(told.user, self._user.totals.get(key, 0))
            system = max(told.system, self._system.totals.get(key, 0))
            if key not in self._totals or (user, system) != (told.user, told.system):
                self._totals[key] = CpuTicks(user, system)


def _match(shown: dict[int, int], pid: int, amount: int) -> int:
    """Take up to `amount` from what a process shows; return how much."""
    taken = min(shown.get(pid, 0), amount)
    if taken:
        shown[pid] -= taken
    return taken


def _match_upwards(
    shown: dict[int, int], pid: int, amount: int, processes: Mapping[int, ProcessSample]
) -> int:
    """Take up to `amount` from a process, then from its ancestors, the nearest first."""
    taken = 0
    asked = set()
    while taken < amount and pid in processes and pid not in asked:
        taken += _match(shown, pid, amount - taken)
        asked.add(pid)
        pid = processes[pid].ppid
    return taken


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU time in seconds, as control groups have it."""

    user_secs: float
    system_secs: float


class CpuLedger:
    """The CPU time of one job over all its control groups; it never falls, also when one of them goes."""

    def __init__(self) -> None:
        self._groups: dict[str, CpuTimes] = {}
        self._ended = CpuTimes(0.0, 0.0)

    def update(self, readings: Mapping[str, CpuTimes | None]) -> CpuTimes | None:
        """Take one reading by group, all groups there are. Return the sum, None where one was unreadable."""
        for name in self._groups.keys() - readings.keys():
            self._ended = _plus(self._ended, self._groups.pop(name))
        for name, now in readings.items():
            if now is not None:
                last = self._groups.get(name, now)
                self._groups[name] = CpuTimes(
                    max(last.user_secs, now.user_secs), max(last.system_secs, now.system_secs)
                )
        if None in readings.values():
            return None
        total = self._ended
        for each in self._groups.values():
            total = _plus(total, each)
        return total


def _plus(a: CpuTimes, b: CpuTimes) -> CpuTimes:
    return CpuTimes(a.user_secs + b.user_secs, a.system_secs + b.system_secs)
