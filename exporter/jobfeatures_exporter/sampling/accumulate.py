"""What jobs that are made of processes used, CPU time above all: pure.

A sum over live processes falls when one exits, so what each process adds between two looks is accumulated. A
process that ends hands its time to the parent that waits for it (cutime and cstime of proc_pid_stat(5)), and
so its input and output; what was counted while it lived must not be counted again there. All processes that
may be the parent of another have to take part, whatever they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import add, attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from jobfeatures_exporter.snapshot import ProcessIo, ProcessSample


class IoReading(NamedTuple):
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


class _Claims:
    """Of one figure, such as user time, what is still to be shown by those who have inherited it.

    `claims` is time that was counted of children that vanished and whose parent has not shown it yet, by
    parent; `loose` is the same where the parent ended too, by the next ancestor still there. `unexplained` is
    what a parent showed at the last look without any claim to it: perhaps of a child that was read first,
    then ended, then was read again within its parent.
    """

    def __init__(self) -> None:
        self._claims: dict[int, int] = {}
        self._loose: dict[int, int] = {}
        self._unexplained: dict[int, int] = {}

    def advance(
        self,
        gone: Iterable[tuple[_Gone[Any], int]],
        shown: dict[int, int],
        processes: Mapping[int, ProcessSample | IoReading],
        add: Callable[[int, int], None],
    ) -> None:
        """Take what those that have gone had, and what is shown of children, by pid; add what is nobody's."""
        if not (gone or shown or self._claims or self._loose or self._unexplained):
            return
        claims, loose = self._claim(gone)
        for pid, amount in self._claims.items():
            _match(shown, pid, amount)
        for pid, amount in claims.items():
            left = amount - _match(shown, pid, amount)
            twice = min(left, self._unexplained.get(pid, 0))
            claims[pid] = left - twice
            add(pid, -twice)
        for pid, amount in self._loose.items():
            _match_upwards(shown, pid, amount, processes)
        for pid, amount in loose.items():
            loose[pid] = amount - _match_upwards(shown, pid, amount, processes)
        for pid, amount in shown.items():
            add(pid, amount)
        self._claims = {pid: amount for pid, amount in claims.items() if amount}
        self._loose = {pid: amount for pid, amount in loose.items() if amount}
        self._unexplained = {pid: amount for pid, amount in shown.items() if amount}

    def _claim(self, gone: Iterable[tuple[_Gone[Any], int]]) -> tuple[dict[int, int], dict[int, int]]:
        claims: dict[int, int] = {}
        loose: dict[int, int] = {}
        for each, had in gone:
            pid = each.process.pid
            amount = had + self._claims.pop(pid, 0)
            carried = self._loose.pop(pid, 0)
            if each.parent is not None:
                claims[each.parent] = claims.get(each.parent, 0) + amount
            else:
                carried += amount
            heir = each.parent if each.parent is not None else each.ancestor
            if heir is not None and carried:
                loose[heir] = loose.get(heir, 0) + carried
        return claims, loose


class Accumulator(Generic[Key, Record, Totals]):
    """Totals by key that never decrease; what follows is said of time and holds for every figure.

    At each look a process adds the increase of its own time, and of its children's time less what had been
    counted of those that vanished. A process that was not there before adds everything it has. A claim lives
    for two looks: one look takes a while, so a child may be missing from it while its parent was read before
    it ended. A total falls short, and never exceeds, where a child's time went nowhere (nobody waited for it)
    in the very interval in which its former ancestors showed time of others.

    A process that moves to another key brings its whole life along where `brings_life` is set: it was there
    all the time, only nobody knew. Else it does so only if it had no key, and adds to the other from then on.
    """

    def __init__(
        self,
        own: Callable[[Record], tuple[int, ...]],
        children: Callable[[Record], tuple[int, ...]],
        make: Callable[[Iterable[int]], Totals],
        *,
        brings_life: bool = True,
    ) -> None:
        """Begin; `own` gives the figures of a process itself (or none), `children` those of its children."""
        self._processes: Mapping[int, Record] = {}
        self._keys: Mapping[int, Key] = {}
        self._own, self._children = own, children
        self._make = make
        self._brings_life = brings_life
        self._claims: list[_Claims] = []
        self._sums: dict[Key, list[int]] = {}
        self._touched: set[Key] = set()
        self._totals: dict[Key, Totals] = {}

    def update(self, processes: Mapping[int, Record], keys: Mapping[int, Key]) -> Mapping[Key, Totals]:
        """Take one look: all processes by pid, and the key of each. Return the totals by key.

        A process without a key is followed but counted nowhere; a key without processes is forgotten. The
        totals hold until the next look, and are the same objects where they have not grown. What is given is
        kept until then and must not be changed.
        """
        had = [(each, self._figures(each.process)) for each in self._gone(processes)]
        have_same_keys = keys == self._keys
        changed = self._changed(processes, keys, have_same_keys)
        self._processes = processes
        self._keys = keys
        self._touched = set()
        shown = self._count(changed)
        for number, claims in enumerate(self._claims):
            theirs = [(each, figures[number]) for each, figures in had]
            claims.advance(theirs, shown[number], processes, partial(self._add, number))
        if not have_same_keys:
            for key in self._sums.keys() - set(keys.values()):
                del self._sums[key], self._totals[key]
        self._update_totals()
        return self._totals

    def _figures(self, process: Record) -> tuple[int, ...]:
        """Return all that a process has: its own, and of its children."""
        own, children = self._own(process), self._children(process)
        return tuple(map(add, own, children)) if own else children

    def _count(self, changed: Iterable[tuple[Record | None, Record]]) -> list[dict[int, int]]:
        """Count what is certain; return by figure and pid what is shown of children, claimed or not."""
        own, children = self._own, self._children
        shown: list[dict[int, int]] = [{} for _ in self._claims]
        for before, now in changed:
            pid = now.pid
            if before is None:
                figures = self._figures(now)
                while len(self._claims) < len(figures):
                    self._claims.append(_Claims())
                    shown.append({})
                for number, amount in enumerate(figures):
                    self._add(number, pid, amount)
                continue
            mine, last = own(now), own(before)
            if mine != last:
                for number, amount in enumerate(mine):
                    if amount > last[number]:
                        self._add(number, pid, amount - last[number])
            theirs, last = children(now), children(before)
            if theirs != last:
                for number, amount in enumerate(theirs):
                    if amount > last[number]:
                        shown[number][pid] = amount - last[number]
        return shown

    def _add(self, number: int, pid: int, amount: int) -> None:
        key = self._keys.get(pid)
        if key is None:
            return
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = [0] * len(self._claims)
        sums[number] += amount
        self._touched.add(key)

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
        self, processes: Mapping[int, Record], keys: Mapping[int, Key], have_same_keys: bool
    ) -> list[tuple[Record | None, Record]]:
        """Return those that are not as they were: before (None: not known as of this key), and now."""
        get, get_key = self._processes.get, self._keys.get
        if have_same_keys:
            return [
                (before if before is not None and before.start_ticks == now.start_ticks else None, now)
                for pid, now in processes.items()
                if (before := get(pid)) is not now
            ]
        found: list[tuple[Record | None, Record]] = []
        for pid, now in processes.items():
            before = get(pid)
            last, key = get_key(pid), keys.get(pid)
            if before is not None and (last == key or (last is not None and not self._brings_life)):
                if before is not now:
                    found.append((before if before.start_ticks == now.start_ticks else None, now))
            else:
                found.append((None, now))
        return found

    def _update_totals(self) -> None:
        for key in self._touched:
            reported = self._totals.get(key)
            now = self._make(self._sums[key] if reported is None else map(max, reported, self._sums[key]))
            if now != reported:
                self._totals[key] = now


def _no_figures(_process: object) -> tuple[int, ...]:
    return ()


class CpuAccumulator(Accumulator[Key, ProcessSample, CpuTicks]):
    """CPU time of all processes of the node, by key."""

    def __init__(self, *, brings_life: bool = True) -> None:
        place = ProcessSample._fields.index
        own, children = place("user_ticks"), place("children_user_ticks")
        super().__init__(
            itemgetter(slice(own, own + 2)),
            itemgetter(slice(children, children + 2)),
            CpuTicks._make,
            brings_life=brings_life,
        )


class IoAccumulator(Accumulator[Key, IoReading, ProcessIo]):
    """Input and output of processes, by key.

    The kernel adds what a process read and wrote to that of the parent that waits for it, in the same
    counters: all of them may be of children. So the totals fall short too where a process ignores SIGCHLD, by
    what its children had done, if it does as much itself within two looks of their end.
    """

    def __init__(self) -> None:
        super().__init__(_no_figures, attrgetter("io"), ProcessIo._make)


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


class CpuTimes(NamedTuple):
    """CPU time in seconds, as control groups have it."""

    user_secs: float
    system_secs: float

    def or_more(self, other: CpuTimes) -> CpuTimes:
        """Return the greater of both, of each of the two."""
        if other.user_secs >= self.user_secs and other.system_secs >= self.system_secs:
            return other
        return CpuTimes(max(self.user_secs, other.user_secs), max(self.system_secs, other.system_secs))


NO_CPU_TIME = CpuTimes(0.0, 0.0)


class CpuLedger:
    """The CPU time of one job over all its control groups; it never decreases, also when one of them goes."""

    def __init__(self) -> None:
        self._groups: dict[str, CpuTimes] = {}
        self._ended = NO_CPU_TIME

    def update(self, readings: Mapping[str, CpuTimes | None]) -> CpuTimes | None:
        """Take one reading by group, all groups there are. Return the sum, None where one was unreadable."""
        for name in self._groups.keys() - readings.keys():
            self._ended = _plus(self._ended, self._groups.pop(name))
        for name, now in readings.items():
            if now is not None:
                self._groups[name] = self._groups.get(name, now).or_more(now)
        if None in readings.values():
            return None
        if len(self._groups) == 1 and self._ended == NO_CPU_TIME:
            return next(iter(self._groups.values()))
        total = self._ended
        for each in self._groups.values():
            total = _plus(total, each)
        return total


def _plus(a: CpuTimes, b: CpuTimes) -> CpuTimes:
    return CpuTimes(a.user_secs + b.user_secs, a.system_secs + b.system_secs)
