"""Counters of one job over all that counts for it, summed so that they never decrease: pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from operator import lt
from typing import Any

from jobfeatures_exporter.snapshot import BlockIo

KEPT_ABSENT = 256  # sources that are not there any more and could still come back

# Names a counter of a job: "oom_kills", "limit_hits", "throttled" (microseconds), "block_io" (rows of
# `BlockIo`'s fields by device), or of its pressure the resource and the share (microseconds).
Counter = str | tuple[str, str]
Rows = Mapping[str, tuple[int, ...]] | None  # by source; None where one is unreadable


class CounterLedger:
    """The sum of some counters, several of which may be read together as one row.

    A counter that is lower than before has begun anew (its group or device is a new one, somebody
    wrote to it, or it overflowed): what it had stays, what it has now is added. One that is no
    longer there keeps what it had.
    """

    def __init__(self, width: int = 1) -> None:
        self._before = [0] * width  # of counters that began anew
        self._begun_anew = False
        self._last: dict[Hashable, tuple[int, ...]] = {}

    def update(self, readings: Mapping[Hashable, Sequence[int] | None]) -> tuple[int, ...] | None:
        """Take one row by source, None for what could not be read; sources that are not there are left out.

        Return the sums; None where nothing was there, or where the sums are
        not known because one of the rows could not be read.
        """
        for source, row in readings.items():
            if row is None:
                continue
            last = self._last.pop(source, ())
            if any(map(lt, row, last)):
                self._begun_anew = True
                for column, was in enumerate(last):
                    if row[column] < was:
                        self._before[column] += was
            self._last[source] = tuple(row)  # the last in order now
        if len(self._last) > len(readings) + KEPT_ABSENT:
            self._forget_oldest(readings)
        if not readings or None in readings.values():
            return None
        if len(self._last) == 1 and not self._begun_anew:
            return next(iter(self._last.values()))
        return tuple(map(sum, zip(self._before, *self._last.values(), strict=True)))

    def _forget_oldest(self, readings: Mapping[Hashable, object]) -> None:
        absent = [source for source in self._last if source not in readings]
        self._begun_anew = True
        for source in absent[: len(absent) - KEPT_ABSENT]:
            for column, last in enumerate(self._last.pop(source)):
                self._before[column] += last


class JobCounters:
    """The counters of one job over all its control groups."""

    def __init__(self) -> None:
        self._ledgers: dict[Counter, CounterLedger] = {}
        self._basis: tuple[object, object] | None = None  # what the fields were made of
        self._fields: dict[str, Any] = {}

    def update(
        self, groups: Mapping[str, Mapping[Counter, Rows]], other_devices: Collection[str] = ()
    ) -> dict[str, Any]:
        """Take what each group counts, by path; return fields of `JobSample`, those that are known.

        `other_devices` are block devices to leave out because their transfers show on others too.
        """
        basis = groups, other_devices
        if basis != self._basis:  # most jobs have neither been killed nor met a limit since the last look
            self._basis, self._fields = basis, self._sum(groups, other_devices)
        return self._fields

    def _sum(
        self, groups: Mapping[str, Mapping[Counter, Rows]], other_devices: Collection[str]
    ) -> dict[str, Any]:
        sums: dict[Counter, tuple[int, ...]] = {}
        for counter in dict.fromkeys(each for counters in groups.values() for each in counters):
            readings: dict[Hashable, tuple[int, ...] | None] = {}
            for path, counters in groups.items():
                if counter in counters:
                    readings.update(_readings(path, counter, counters[counter], other_devices))
            ledger = self._ledgers.get(counter)
            if ledger is None:
                ledger = self._ledgers[counter] = CounterLedger(4 if counter == "block_io" else 1)
            if (row := ledger.update(readings)) is not None:
                sums[counter] = row
        fields: dict[str, Any] = {
            "pressure_secs": {each: row[0] / 1e6 for each, row in sums.items() if not isinstance(each, str)}
        }
        if "oom_kills" in sums:
            fields["oom_kills"] = sums["oom_kills"][0]
        if "throttled" in sums:
            fields["throttled_secs"] = sums["throttled"][0] / 1e6
        if "limit_hits" in sums:
            fields["memory_limit_hits"] = sums["limit_hits"][0]
        if "block_io" in sums:
            read, written, reads, writes = sums["block_io"]
            fields["block_io"] = BlockIo(read_bytes=read, written_bytes=written, reads=reads, writes=writes)
        return fields


def _readings(
    path: str, counter: Counter, rows: Rows, other_devices: Collection[str]
) -> dict[Hashable, tuple[int, ...] | None]:
    if rows is None:
        return {path: None}
    if counter != "block_io":
        return {(path, source): row for source, row in rows.items()}
    # A group that has moved nothing has no devices, and that is a true zero.
    nothing: dict[Hashable, tuple[int, ...] | None] = {(path, ""): (0, 0, 0, 0)}
    return nothing | {(path, each): row for each, row in rows.items() if each not in other_devices}
