"""Adds up, for each job, what the kernel has summed by control group. No I/O, but the module keeps state.

The kernel has a record for each control group, which names the groups above it. A job gets the sums of its
own group and all groups below it, even of a step that began and ended between two samples. The record of a
removed group is read once more at the next sample, as the kernel charges some usage late. Then its figures
are kept for the job, and the record may be deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import add
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple

OF_FREEZER = 1 << 63  # marks the inode of a group of the freezer's hierarchy
_FIGURES = 17
_LEVELS = 12
RECORD = Struct(f"={1 + _FIGURES + _LEVELS}Q5I2B2x")
FIGURES = Struct(f"={_FIGURES}Q")
_ANCESTORS = slice(1 + _FIGURES, 1 + _FIGURES + _LEVELS)
_GAUGES = 1 + _FIGURES + _LEVELS
_USER = _GAUGES + 4
_LOOK = Struct("=Q")
_OF_TASKS = slice(1, 14)  # all figures except those of sockets
_NO_GROUPS: Mapping[int, _Group] = MappingProxyType({})
_NO_FIGURES = (0,) * _FIGURES


class TaskUsage(NamedTuple):
    """Resource usage of tasks, with the fields in the order of the kernel's records.

    `cpu` and `waiting` (for a CPU) are in nanoseconds. `read_bytes` and `written_bytes` are those of system
    calls, `data_…` bytes those of storage. `tasks` counts all tasks, ended ones included. The last four
    fields are traffic by IP.
    """

    cpu: int
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int
    data_read_bytes: int
    data_written_bytes: int
    data_cancelled_bytes: int
    waiting: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    tasks: int
    received_bytes: int  # by IP
    received_packets: int
    sent_bytes: int
    sent_packets: int


class Sums(NamedTuple):
    """What one job's tasks have used (`figures`), and how many processes and threads it has now.

    `running` and `blocked` count threads in these states. `user` is the uid of the tasks; None if all are
    root's.
    """

    figures: TaskUsage
    processes: int = 0
    threads: int = 0
    running: int = 0
    blocked: int = 0
    user: int | None = None


class _Group:
    """The record of one control group; `look` is its first field, the last sample that found a task there."""

    __slots__ = ("data", "is_quiet", "is_there", "job", "look", "record", "was_removed")

    def __init__(self) -> None:
        self.data = b""
        self.look = 0
        self.is_there = False
        self.is_quiet = False  # unchanged since the previous sample
        self.record: tuple[int, ...] = ()
        self.job = 0
        self.was_removed = False


class GroupSums:
    """Follows the kernel's records of control groups from sample to sample, and sums them for each job."""

    def __init__(self, gone: Mapping[int, tuple[int, ...]] = MappingProxyType({})) -> None:
        """Start with `gone`: the `TaskUsage` of removed groups, by the id of their job's group."""
        self.gone = dict(gone)
        self._groups: dict[int, _Group] = {}
        self._members: dict[int, dict[int, _Group]] = {}  # records by the id of the job's group
        self._wanted: frozenset[int] = frozenset()
        self._reported: dict[tuple[int, ...], Sums] = {}  # by ids
        self.processes = 0

    def update(self, records: Iterable[tuple[int, bytes]], wanted: Collection[int]) -> list[int]:
        """Process the records of one sample; return the ids of the groups whose records may now be deleted.

        `records` has all of the kernel's records as (group id, bytes), `wanted` the ids of jobs' groups.
        """
        known, self._groups = self._groups, {}
        groups = self._groups
        is_known = True
        changed: set[int] = set()  # jobs
        for key, data in records:
            group = known.get(key)
            if group is None:
                group = _Group()
                is_known = False
            group.is_quiet = group.data == data
            if not group.is_quiet:
                if group.data[_LOOK.size :] != data[_LOOK.size :]:
                    record = RECORD.unpack(data)
                    if group.record[_ANCESTORS] != record[_ANCESTORS]:  # new, or its id was reused
                        group.job, group.was_removed = 0, False
                        is_known = False
                    group.record = record
                    changed.add(group.job)
                (group.look,) = _LOOK.unpack_from(data)
                group.data = data
            groups[key] = group
        # Every sample finds at least one task: our own.
        look = max((each.look for each in groups.values()), default=0)
        if frozenset(wanted) != self._wanted:
            self._want(frozenset(wanted))
            is_known = False
        if not is_known or len(groups) != len(known):
            self._assign()
        self.processes = 0
        for group in groups.values():
            if (group.look == look) is not group.is_there:
                group.is_there = not group.is_there
                changed.add(group.job)
            if group.is_there:
                self.processes += group.record[_GAUGES]
        if changed:
            self._reported = {ids: sums for ids, sums in self._reported.items() if changed.isdisjoint(ids)}
        return self._retire()

    def sums_of(self, ids: tuple[int, ...]) -> Sums:
        """Return the sums of the job with these group ids; all are 0 if the kernel has no record of it.

        While the sums do not change, each call returns the same object.
        """
        reported = self._reported.get(ids)
        if reported is not None:
            return reported
        groups = [each for job in ids for each in self._members.get(job, _NO_GROUPS).values()]
        rows = [self.gone[job] for job in ids if job in self.gone]
        rows += [each.record[1 : 1 + _FIGURES] for each in groups]
        gauges = [each.record[_GAUGES : _GAUGES + 4] for each in groups if each.is_there]
        user = next((each.record[_USER] for each in groups if each.record[_USER]), None)
        figures = rows[0] if len(rows) == 1 else tuple(map(sum, zip(*rows, strict=True))) or _NO_FIGURES
        there = gauges[0] if len(gauges) == 1 else tuple(map(sum, zip(*gauges, strict=True))) or (0, 0, 0, 0)
        sums = self._reported[ids] = Sums(
            TaskUsage._make(figures), there[0], there[1], there[2], there[3], user
        )
        return sums

    def _want(self, wanted: frozenset[int]) -> None:
        for job in self.gone.keys() - wanted:
            del self.gone[job]
        for group in self._groups.values():
            if group.job not in wanted:
                group.job = 0
        self._wanted = wanted
        self._reported.clear()

    def _assign(self) -> None:
        self._members = {}
        self._reported.clear()
        for key, group in self._groups.items():
            if not group.job:
                group.job = next((each for each in group.record[_ANCESTORS] if each in self._wanted), 0)
            if group.job:
                self._members.setdefault(group.job, {})[key] = group

    def _retire(self) -> list[int]:
        """Return the groups removed before the previous sample, after adding their sums to their jobs'."""
        due = []
        for key, group in self._groups.items():
            if not group.record[-1]:
                # The record of a socket that outlives its group and its job: no task is left to be charged.
                if key and group.is_quiet and not group.job and not any(group.record[_OF_TASKS]):
                    due.append(key)
                continue
            if group.was_removed:
                due.append(key)
            group.was_removed = True
        for key in due:
            group = self._groups.pop(key)
            if group.job:
                before = self.gone.get(group.job, _NO_FIGURES)
                self.gone[group.job] = tuple(map(add, before, group.record[1 : 1 + _FIGURES]))
                self._members[group.job].pop(key)
                self._reported.clear()
        return due
