"""What jobs that are made of processes used, CPU time above all: pure.

A sum over live processes falls when one exits, so what each process adds
between two looks is accumulated. A process that ends hands its time to the
parent that waits for it (cutime and cstime of proc_pid_stat(5)), and so its
input and output; what was counted while it lived must not be counted again
there. All processes that may be the parent of another have to take part,
whatever they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from jobfeatures_exporter.snapshot import ProcessIo, ProcessSample


@dataclass(frozen=True, slots=True)
class IoReading:
    """What a process had read and written when it was looked at."""

    pid: int
    ppid: int
    start_ticks: int
    state: str
    io: ProcessIo


Key = TypeVar("Key", bound=Hashable)
Record = TypeVar("Record", bound=ProcessSample | IoReading)
Totals = TypeVar("Totals", bound=tuple[int, ...])


class CpuTicks(NamedTuple):
    """CPU time in clock ticks."""

    user: int
    system: int


DYING = frozenset("ZX")


@dataclass(frozen=True, slots=True)
class _Gone(Generic[Record]):
    """A process that is no longer there, and who may have its time now."""

    process: Record
    parent: int | None  # who must have it: its last known parent lives on
    ancestor: int | None  # else who may have it, this one or one above: children of the dead are adopted


@dataclass(frozen=True, slots=True)
class _Look(Generic[Key, Record]):
    """The difference between two looks."""

    processes: Mapping[int, Record]
    keys: Mapping[int, Key]
    gone: list[_Gone[Record]]
    changed: list[tuple[Record | None, Record]]  # before (None: not known as of this job), now


class Figure(NamedTuple):
    """How to take one figure of a process: its own, and what it has of children that it waited for."""

    own: Callable[[Any], int]
    children: Callable[[Any], int]


class _Part(Generic[Key, Record]):
    """One of the figures, such as user or system time, which are handed on separately.

    `claims` is time that was counted of children that vanished and whose
    parent has not shown it yet, by parent; `loose` is the same where the
    parent ended too, by the next ancestor still there. `unexplained` is what a
    parent showed at the last look without any claim to it: perhaps of a child
    that was read first, then ended, then was read again within its parent.
    """

    def __init__(self, figure: Figure) -> None:
        self._own, self._children = figure
        self._claims: dict[int, int] = {}
        self._loose: dict[int, int] = {}
        self._unexplained: dict[int, int] = {}
        self.totals: dict[Key, int] = {}
        self.touched: set[Key] = set()

    def advance(self, look: _Look[Key, Record]) -> None:
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

    def _claim(self, gone: list[_Gone[Record]]) -> tuple[dict[int, int], dict[int, int]]:
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

    def _count_own(self, look: _Look[Key, Record]) -> dict[int, int]:
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

    def _add(self, look: _Look[Key, Record], pid: int, amount: int) -> None:
        key = look.keys.get(pid)
        if key is not None:
            self.totals[key] = self.totals.get(key, 0) + amount
            self.touched.add(key)


class Accumulator(Generic[Key, Record, Totals]):
    """Totals by key that never fall; what follows is said of time and holds for every figure.

    At each look a process adds the increase of its own time, and of its
    children's time less what had been counted of those that vanished. A
    process that was not there before adds everything it has. A claim lives for
    two looks: one look takes a while, so a child may be missing from it while
    its parent was read before it ended. A total falls short, and never
    exceeds, where a child's time went nowhere (nobody waited for it) in the
    very interval in which its former ancestors showed time of others.

    A process that moves to another key brings its whole life along where
    `brings_life` is set: it was there all the time, only nobody knew. Else it
    does so only if it had no key, and adds to the other from then on.
    """

    def __init__(
        self,
        figures: Sequence[Figure],
        make: Callable[[Iterable[int]], Totals],
        *,
        brings_life: bool = True,
    ) -> None:
        self._processes: Mapping[int, Record] = {}
        self._keys: Mapping[int, Key] = {}
        self._parts: list[_Part[Key, Record]] = [_Part(figure) for figure in figures]
        self._make = make
        self._brings_life = brings_life
        self._nothing = make([0] * len(figures))
        self._totals: dict[Key, Totals] = {}

    def update(self, processes: Mapping[int, Record], keys: Mapping[int, Key]) -> Mapping[Key, Totals]:
        """Take one look: all processes by pid, and the key of each. Return the totals by key.

        A process without a key is followed but counted nowhere; a key without
        processes is forgotten. The totals hold until the next look, and are the
        same objects where they have not grown. What is given is kept until then
        and must not be changed.
        """
        look = _Look(processes, keys, list(self._gone(processes)), list(self._changed(processes, keys)))
        self._processes = processes
        self._keys = keys
        for part in self._parts:
            part.advance(look)
        self._tell(set(keys.values()))
        return self._totals

    def _gone(self, processes: Mapping[int, Record]) -> Iterator[_Gone[Record]]:
        get = processes.get
        # Most are the very records of last time: those are passed over without looking into them.
        others = [(pid, process) for pid, process in self._processes.items() if get(pid) is not process]
        for pid, process in others:
            now = get(pid)
            if now is not None and now.start_ticks == process.start_ticks:
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

    def _lives(self, pid: int, processes: Mapping[int, Record]) -> bool:
        before, now = self._processes.get(pid), processes.get(pid)
        return before is not None and now is not None and before.start_ticks == now.start_ticks

    def _changed(
        self, processes: Mapping[int, Record], keys: Mapping[int, Key]
    ) -> Iterator[tuple[Record | None, Record]]:
        get, get_key = self._processes.get, self._keys.get
        if keys == self._keys:
            others = [(pid, now) for pid, now in processes.items() if get(pid) is not now]
        else:
            others = [
                (pid, now)
                for pid, now in processes.items()
                if get(pid) is not now or get_key(pid) != keys.get(pid)
            ]
        for pid, now in others:
            before = get(pid)
            last = get_key(pid)
            same = last == keys.get(pid) or (last is not None and not self._brings_life)
            if before is not None and same:
                if before is not now:
                    yield (before if before.start_ticks == now.start_ticks else None), now
            else:
                yield None, now

    def _tell(self, keys: set[Key]) -> None:
        for key in self._totals.keys() - keys:
            del self._totals[key]
            for part in self._parts:
                part.totals.pop(key, None)
        touched: set[Key] = set().union(*(part.touched for part in self._parts))
        for key in touched & keys:
            told = self._totals.get(key, self._nothing)
            now = [
                max(before, part.totals.get(key, 0)) for before, part in zip(told, self._parts, strict=True)
            ]
            if key not in self._totals or now != list(told):
                self._totals[key] = self._make(now)


class CpuAccumulator(Accumulator[Key, ProcessSample, CpuTicks]):
    """CPU time of all processes of the node, by key."""

    def __init__(self, *, brings_life: bool = True) -> None:
        figures = [
            Figure(attrgetter(f"{name}_ticks"), attrgetter(f"children_{name}_ticks"))
            for name in CpuTicks._fields
        ]
        super().__init__(figures, CpuTicks._make, brings_life=brings_life)


class IoBytes(NamedTuple):
    """The fields of `ProcessIo`, as totals."""

    read_bytes: int
    written_bytes: int
    data_read_bytes: int
    data_written_bytes: int
    data_cancelled_bytes: int


class IoAccumulator(Accumulator[Key, IoReading, IoBytes]):
    """Input and output of processes, by key.

    The kernel adds what a process read and wrote to that of the parent that
    waits for it, in the same counters: all of them may be of children. So the
    totals fall short too where a process ignores SIGCHLD, by what its children
    had done, if it does as much itself within two looks of their end.
    """

    def __init__(self) -> None:
        figures = [Figure(lambda _: 0, attrgetter(f"io.{name}")) for name in IoBytes._fields]
        super().__init__(figures, IoBytes._make)


def _match(shown: dict[int, int], pid: int, amount: int) -> int:
    """Take up to `amount` from what a process shows; return how much."""
    taken = min(shown.get(pid, 0), amount)
    if taken:
        shown[pid] -= taken
    return taken


def _match_upwards(shown: dict[int, int], pid: int, amount: int, processes: Mapping[int, Record]) -> int:
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
