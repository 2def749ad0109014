"""Sums what processes have used for each job, including processes that have ended. No I/O.

A sum over live processes falls when one exits, so the increase of each process between two samples is
accumulated. A process that ends hands its CPU time to the parent that waits for it (cutime and cstime of
proc_pid_stat(5)), and its input and output too. What was counted while it lived must not be counted again
there. So every process that may be the parent of another has to be included, whatever it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import add, attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from jobfeatures_exporter.model.measured import DYING
from jobfeatures_exporter.model.snapshot import ProcessIo, ProcessSample


class IoReading(NamedTuple):
    """What a process had read and written up to a sample (`io`), with the process's identity and its parent.

    (pid, start_ticks) identifies the process.
    """

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


MISSED_SAMPLES = 64  # samples for which a process that was not found is remembered


@dataclass(frozen=True, slots=True)
class _Gone(Generic[Record]):
    """A process that has vanished since the last sample, and the process that may have inherited its time."""

    process: Record
    parent: int | None  # its last known parent, if that still lives: the only possible heir
    ancestor: int | None  # else the nearest live ancestor; the heir is this one or one above (reparenting)


class _Claims:
    """Time of vanished children that their heirs do not show yet, for one figure such as user time.

    `claims` is time already counted for children that vanished and not yet shown by their parent, by parent;
    `loose` is the same where the parent ended too, by the nearest live ancestor. `unexplained` is what a
    parent showed in the last sample without a claim to it: perhaps the time of a child that was read first,
    then ended, and was then read again as part of its parent.
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
        """Offset the time of vanished processes against growth of children's time by pid; `add` the rest."""
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
        for each, last in gone:
            pid = each.process.pid
            amount = last + self._claims.pop(pid, 0)
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
    """Keeps totals by key that never decrease, for example the CPU time of each job.

    At each sample a process adds the increase of its own time and that of its children's time, less what was
    already counted for children that have vanished. A new process adds all its time. A total may be too low,
    never too high. It is too low if nobody waited for a child, and a former ancestor of this child got the
    time of other children in the same interval: this is taken for the child's.

    `_Claims`, the time counted for vanished children, are kept for two samples: taking a sample is not
    instantaneous, so a child may be missing although its parent was read before the child ended. A process
    that moves to another key adds all its time there if it had no key before, or if ``brings_life(old key,
    new key)`` is true; else it adds only what it uses from then on.
    """

    def __init__(
        self,
        own: Callable[[Record], tuple[int, ...]],
        children: Callable[[Record], tuple[int, ...]],
        make: Callable[[Iterable[int]], Totals],
        *,
        brings_life: Callable[[Key, Key | None], bool] = lambda _last, _now: True,
    ) -> None:
        """Start empty. `own` returns a process's own figures, `children` its children's; `make` a total."""
        self._processes: Mapping[int, Record] = {}
        self._keys: Mapping[int, Key] = {}
        self._own, self._children = own, children
        self._make = make
        self._brings_life = brings_life
        self._kept: Collection[Key] = ()
        self._number = 0
        self._missed: dict[int, tuple[Record, Key, int]] = {}  # of kept keys, and when they were last found
        self._claims: list[_Claims] = []
        self._sums: dict[Key, list[int]] = {}
        self._touched: set[Key] = set()
        self._totals: dict[Key, Totals] = {}

    def update(
        self, processes: Mapping[int, Record], keys: Mapping[int, Key], kept: Collection[Key] = ()
    ) -> Mapping[Key, Totals]:
        """Add one sample, with all processes and their keys by pid; return the totals by key.

        A process without a key is followed but not counted. A key without processes is forgotten unless it is
        in `kept`. The totals are valid until the next call; until then the caller must not modify its
        arguments. A total that has not grown is the object that the last call returned.
        """
        gone = [(each, self._figures(each.process)) for each in self._gone(processes)]
        have_same_keys = keys == self._keys
        changed = self._changed(processes, keys, have_same_keys)
        self._remember(gone, kept)
        self._processes = processes
        self._keys = keys
        self._touched = set()
        shown = self._count(changed)
        for number, claims in enumerate(self._claims):
            theirs = [(each, figures[number]) for each, figures in gone]
            claims.advance(theirs, shown[number], processes, partial(self._add, number))
        if not have_same_keys or kept != self._kept:
            self._kept = kept
            for key in self._sums.keys() - set(keys.values()) - set(kept):
                del self._sums[key], self._totals[key]
        self._update_totals()
        return self._totals

    def _figures(self, process: Record) -> tuple[int, ...]:
        """Return the figures of a process and its children together."""
        own, children = self._own(process), self._children(process)
        return tuple(map(add, own, children)) if own else children

    def _count(self, changed: Iterable[tuple[Record | None, Record]]) -> list[dict[int, int]]:
        """Count processes' own growth; return the growth of children's time, by figure and pid."""
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
        # Most records are the same objects as last time: these are skipped without comparing their fields.
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
        """Return changed processes as pairs of the earlier record (None: new under this key) and this one."""
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
            if before is None and pid in self._missed:  # not all processes are found at each sample
                before, last, _ = self._missed.pop(pid)
            if before is not None and (
                last == key or (last is not None and not self._brings_life(last, key))
            ):
                if before is not now:
                    found.append((before if before.start_ticks == now.start_ticks else None, now))
            else:
                found.append((None, now))
        return found

    def _remember(self, gone: Iterable[tuple[_Gone[Record], Any]], kept: Collection[Key]) -> None:
        self._number += 1
        oldest = self._number - MISSED_SAMPLES
        self._missed = {pid: each for pid, each in self._missed.items() if each[2] >= oldest}
        for process in (each.process for each, _ in gone):
            key = self._keys.get(process.pid)
            if key is not None and key in kept:
                self._missed[process.pid] = process, key, self._number

    def _update_totals(self) -> None:
        for key in self._touched:
            reported = self._totals.get(key)
            now = self._make(self._sums[key] if reported is None else map(max, reported, self._sums[key]))
            if now != reported:
                self._totals[key] = now


class CpuAccumulator(Accumulator[Key, ProcessSample, CpuTicks]):
    """Keeps the CPU time of all processes of the node by key, see `Accumulator`."""

    def __init__(self, *, brings_life: Callable[[Key, Key | None], bool] = lambda _last, _now: True) -> None:
        place = ProcessSample._fields.index
        own, children = place("user_ticks"), place("children_user_ticks")
        super().__init__(
            itemgetter(slice(own, own + 2)),
            itemgetter(slice(children, children + 2)),
            CpuTicks._make,
            brings_life=brings_life,
        )


class IoAccumulator(Accumulator[Key, IoReading, ProcessIo]):
    """Keeps what processes have read and written by key, see `Accumulator`.

    The kernel adds what a process read and wrote to the same counters of the parent that waits for it, so any
    growth may come from children. So totals are also too low if a process that ignores SIGCHLD reads or
    writes within two samples after its children's end. They lack at most what these children had read and
    written.
    """

    def __init__(self, *, brings_life: Callable[[Key, Key | None], bool] = lambda _last, _now: True) -> None:
        super().__init__(lambda _reading: (), attrgetter("io"), ProcessIo._make, brings_life=brings_life)


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
