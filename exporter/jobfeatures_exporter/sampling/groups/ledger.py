"""Sums the counters of one job over control groups, devices and so on; sums never decrease in a run. No I/O.

A run is one execution of a job on this node: a requeued job has several. What belongs to a run, when it ends,
and when a counter may restart is in docs/evidence.md.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import lt, sub
from types import MappingProxyType
from typing import Any

from jobfeatures_exporter.model.snapshot import BlockIo, ProcessIo
from jobfeatures_exporter.sampling.bpf.byjob import TaskUsage
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, JobDirectory

KEPT_ABSENT = 256  # absent sources that are remembered because they could come back

# The name of a job's counter: "oom_kills", "ooms", "limit_hits", "high_hits", "throttled" (microseconds),
# "block_io" (rows of `BlockIo`'s fields by device), or for pressure resource and share (microseconds).
# (STACKED, device) has the transfers of one stacked device.
Counter = str | tuple[str, str]
STACKED = "stacked"
Rows = Mapping[str, tuple[int, ...]] | None  # by source; None if one is unreadable
# By whose group a counter is counted: the first of these controllers that a job's directory has.
_CONTROLLERS: Mapping[Counter, tuple[str, ...]] = {
    "oom_kills": ("memory", UNIFIED),
    "limit_hits": ("memory", UNIFIED),
    "throttled": ("cpu", UNIFIED),
    "block_io": ("blkio", UNIFIED),
}


GroupCounters = Mapping[str, tuple[JobDirectory, Mapping[Counter, Rows], bool]]


class CounterLedger:
    """Sums counters over several sources, such as groups or devices, each of which has a row of counters.

    A counter that is lower than before was reset: its device is a new one, somebody wrote to it, or it
    overflowed. Its new value is then added to the earlier one. A source that has vanished keeps its last
    values. For each run, one execution of a job on this node, sums start at 0, see `begin_run`.

    `resets` says whether a counter may be reset at all; if not, the greater value counts.
    """

    def __init__(self, width: int = 1, *, resets: bool = True) -> None:
        self._resets = resets
        self._before: list[Any] = [0] * width  # sums of counters before they were reset
        self._has_reset = False
        self._last: dict[Hashable, tuple[Any, ...]] = {}
        self._mark: tuple[Any, ...] | None = None  # all sums as of the latest mark
        self._zero: tuple[Any, ...] | None = None  # what earlier runs had of them

    def update(
        self, readings: Mapping[Hashable, Sequence[Any] | None], late: Collection[Hashable] = ()
    ) -> tuple[Any, ...] | None:
        """Add each source's present row of counters (None: unreadable); return the sums of this run.

        Rows of sources in `late` may have been read before the last update, so a lower counter is not a
        reset. Returns None if there has never been a source, or if a row could not be read.
        """
        for source, row in readings.items():
            if row is None:
                continue
            now, last = tuple(row), self._last.pop(source, ())
            if any(map(lt, now, last)):
                if source in late or not self._resets:
                    now = tuple(map(max, now, last))
                self._has_reset = True
                for column, earlier in enumerate(last):
                    if now[column] < earlier:
                        self._before[column] += earlier
            self._last[source] = now  # moves it to the end of the order
        if len(self._last) > len(readings) + KEPT_ABSENT:
            self._forget_oldest(readings)
        if not self._last or None in readings.values():
            return None
        sums = self._sums()
        return sums if self._zero is None else tuple(map(sub, sums, self._zero))

    def mark(self) -> None:
        """Remember the present sums: if another run of the job begins, these are subtracted in it."""
        self._mark = self._sums()

    def begin_run(self) -> None:
        """Begin a run: from now on, subtract the sums of the latest `mark`, or the present ones if none."""
        self._zero = self._sums() if self._mark is None else self._mark
        self._mark = None

    def _sums(self) -> tuple[Any, ...]:
        if len(self._last) == 1 and not self._has_reset:
            return next(iter(self._last.values()))
        return tuple(map(sum, zip(self._before, *self._last.values(), strict=True)))

    def _forget_oldest(self, readings: Mapping[Hashable, object]) -> None:
        absent = [source for source in self._last if source not in readings]
        self._has_reset = True
        for source in absent[: len(absent) - KEPT_ABSENT]:
            for column, last in enumerate(self._last.pop(source)):
                self._before[column] += last


class JobCounters:
    """Sums the counters of one job over all its control groups."""

    def __init__(self) -> None:
        self._ledgers: dict[Counter, CounterLedger] = {}
        self._basis: tuple[object, object] | None = None  # the arguments that `_fields` were computed from
        self._fields: dict[str, Any] = {}

    def update(
        self, groups: GroupCounters, other_devices: Mapping[str, bool] = MappingProxyType({})
    ) -> dict[str, Any]:
        """Add the present counters of the job's groups; return the known sums, as fields of `JobSample`.

        `groups` maps `JobDirectory.unique_name` to the group's directory, its counters, and whether it was
        removed. Transfers of `other_devices` are left out, as the disks below count these, too. But what the
        kernel itself writes there for a job, as for RAID 5, is not the job's: of stacked ones (True) each
        tells the least that was transferred.
        """
        basis = groups, other_devices
        if basis != self._basis:  # most jobs have neither been killed nor hit a limit since the last sample
            self._basis, self._fields = basis, self._sum(groups, other_devices)
        return self._fields

    def ledgers(self) -> Collection[CounterLedger]:
        """Return the ledger of each counter, so that the caller can call its `mark` or `begin_run`."""
        self._basis = None
        return self._ledgers.values()

    def _sum(self, groups: GroupCounters, other_devices: Mapping[str, bool]) -> dict[str, Any]:
        sums: dict[Counter, tuple[int, ...]] = {}
        groups = {
            name: (directory, {**counters, **_stacked(counters.get("block_io"), other_devices)}, has_gone)
            for name, (directory, counters, has_gone) in groups.items()
        }
        found = [each for _, counters, _ in groups.values() for each in counters]
        found += [each for each in self._ledgers if each[0] == STACKED]  # also those that were removed
        for counter in dict.fromkeys(found if groups else self._ledgers):
            readings: dict[Hashable, tuple[int, ...] | None] = {}
            late: set[Hashable] = set()
            for directory, counters, has_gone in groups.values():
                if counter in counters:
                    source = directory.source(*_CONTROLLERS.get(counter, (UNIFIED,)))
                    rows = _readings(source, counter, counters[counter], other_devices)
                    readings.update(rows)
                    late.update(rows if has_gone else ())
            ledger = self._ledgers.get(counter)
            if ledger is None:
                width = 4 if counter == "block_io" or counter[0] == STACKED else 1
                ledger = self._ledgers[counter] = CounterLedger(width)
            if (row := ledger.update(readings, late)) is not None:
                sums[counter] = row
        stacked = [sums.pop(each) for each in list(sums) if each[0] == STACKED]
        fields: dict[str, Any] = {
            "pressure_secs": {each: row[0] / 1e6 for each, row in sums.items() if not isinstance(each, str)}
        }
        if "oom_kills" in sums:
            fields["oom_kills"] = sums["oom_kills"][0]
        if "throttled" in sums:
            fields["throttled_secs"] = sums["throttled"][0] / 1e6
        if "limit_hits" in sums:
            fields["memory_limit_hits"] = sums["limit_hits"][0]
        if "ooms" in sums:
            fields["memory_ooms"] = sums["ooms"][0]
        if "high_hits" in sums:
            fields["memory_high_hits"] = sums["high_hits"][0]
        if "block_io" in sums:
            read, written, reads, writes = map(max, zip(sums["block_io"], *stacked, strict=True))
            fields["block_io"] = BlockIo(read_bytes=read, written_bytes=written, reads=reads, writes=writes)
        return fields


def _stacked(rows: Rows, other_devices: Mapping[str, bool]) -> dict[Counter, Rows]:
    return {(STACKED, each): {each: row} for each, row in (rows or {}).items() if other_devices.get(each)}


def _readings(
    group: str, counter: Counter, rows: Rows, other_devices: Collection[str]
) -> dict[Hashable, tuple[int, ...] | None]:
    if rows is None:
        return {group: None}
    if counter != "block_io":
        return {(group, source): row for source, row in rows.items()}
    # A group that has transferred nothing has no devices, which is a real zero.
    nothing: dict[Hashable, tuple[int, ...] | None] = {(group, ""): (0, 0, 0, 0)}
    return nothing | {(group, each): row for each, row in rows.items() if each not in other_devices}


class JobLedger:
    """Keeps what a job has used in its present run; what its earlier runs used is subtracted."""

    def __init__(self) -> None:
        self.cpu = CounterLedger(2, resets=False)  # seconds by control group: user, system
        self.ticks = CounterLedger(2)  # of processes, where no control group counts
        self.done = CounterLedger(len(TaskUsage._fields))
        self.process_io = CounterLedger(len(ProcessIo._fields))
        self.counters = JobCounters()
        self._cores: CounterLedger | None = None
        self._steps: dict[str, CounterLedger] = {}  # as `cpu`
        self._peak: int | None = None
        self._peaks: dict[str, int] = {}  # by control group, as the kernel tells them
        self._marked: dict[str, int] | None = None  # the same as of the latest mark
        self._earlier: dict[str, int] = {}  # the same of earlier runs

    def mark(self) -> None:
        """Remember the present sums: if another run of the job begins, these are subtracted in it."""
        self._marked = dict(self._peaks)
        for each in self._all():
            each.mark()

    def begin_run(self) -> None:
        """Begin a run: from now on, subtract the sums of the latest `mark`, or the present ones if none."""
        self._earlier, self._marked = dict(self._peaks) if self._marked is None else self._marked, None
        self._peak = None
        for each in (*self._all(), *self._steps.values()):
            each.begin_run()

    def _all(self) -> Iterator[CounterLedger]:
        yield from (self.cpu, self.ticks, self.done, self.process_io, *self.counters.ledgers())
        if self._cores is not None:
            yield self._cores

    def peak(self, peaks: Mapping[str, int | None]) -> int | None:
        """Return the run's peak of memory in bytes: the highest sum of its groups' peaks; None if unknown.

        `peaks` has the kernel's peak of each group (None: unreadable). One that has not risen since an
        earlier run does not count.
        """
        known = {source: each for source, each in peaks.items() if each is not None}
        self._peaks.update(known)
        own = [each for source, each in known.items() if each > self._earlier.get(source, -1)]
        if own and len(known) == len(peaks):
            self._peak = max(self._peak or 0, sum(own))
        return self._peak

    def steps(self, names: Iterable[str]) -> Mapping[str, CounterLedger]:
        """Return the ledgers of CPU time of the steps in `names`, and forget those of all other steps."""
        self._steps = {name: self._steps.get(name) or CounterLedger(2, resets=False) for name in names}
        return self._steps

    def cores(self, used: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        """Add the present CPU time of each group; return the run's CPU time on each CPU, in nanoseconds.

        `used` has a tuple for each group, with nanoseconds for each CPU of the machine. Empty if not counted.
        """
        known: dict[Hashable, tuple[int, ...] | None] = {source: row for source, row in used.items() if row}
        if self._cores is None and known:
            self._cores = CounterLedger(max(map(len, used.values())))
        return () if self._cores is None else self._cores.update(known) or ()
