"""Counters of one job summed over all its sources so that they never decrease: pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from operator import lt
from typing import Any

from jobfeatures_exporter.snapshot import BlockIo

KEPT_ABSENT = 256  # absent sources that are remembered because they could come back

# The name of a job's counter: "oom_kills", "limit_hits", "throttled" (microseconds), "block_io" (rows of
# `BlockIo`'s fields by device), or for pressure the resource and the share (microseconds).
Counter = str | tuple[str, str]
Rows = Mapping[str, tuple[int, ...]] | None  # by source; None if one is unreadable


class CounterLedger:
    """The sums of counters over several sources, each of which reports a row of counters.

    A counter that is lower than before was reset (its group or device is a new one, somebody wrote
    to it, or it overflowed): its new value is added to the earlier one. An absent counter keeps its
    last value.
    """

    def __init__(self, width: int = 1) -> None:
        self._before = [0] * width  # sums of counters before they were reset
        self._has_reset = False
        self._last: dict[Hashable, tuple[int, ...]] = {}

    def update(self, readings: Mapping[Hashable, Sequence[int] | None]) -> tuple[int, ...] | None:
        """Add the rows of existing sources, None for one that could not be read.

        Return the sums; None if there are no sources, or if the sums are unknown
        because a row could not be read.
        """
        for source, row in readings.items():
            if row is None:
                continue
            last = self._last.pop(source, ())
            if any(map(lt, row, last)):
                self._has_reset = True
                for column, earlier in enumerate(last):
                    if row[column] < earlier:
                        self._before[column] += earlier
            self._last[source] = tuple(row)  # moves it to the end of the order
        if len(self._last) > len(readings) + KEPT_ABSENT:
            self._forget_oldest(readings)
        if not readings or None in readings.values():
            return None
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
    """The counters of one job over all its control groups."""

    def __init__(self) -> None:
        self._ledgers: dict[Counter, CounterLedger] = {}
        self._basis: tuple[object, object] | None = None  # the arguments that `_fields` were computed from
        self._fields: dict[str, Any] = {}

    def update(
        self, groups: Mapping[str, Mapping[Counter, Rows]], other_devices: Collection[str] = ()
    ) -> dict[str, Any]:
        """Add the counters of each group, by path; return the known ones as fields of `JobSample`.

        `other_devices` are block devices to omit because their transfers count on others too.
        """
        basis = groups, other_devices
        if basis != self._basis:  # most jobs have neither been killed nor hit a limit since the last sample
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
    # A group that has transferred nothing has no devices, which is a real zero.
    nothing: dict[Hashable, tuple[int, ...] | None] = {(path, ""): (0, 0, 0, 0)}
    return nothing | {(path, each): row for each, row in rows.items() if each not in other_devices}
