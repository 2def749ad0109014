"""CPU time of jobs from the kernel's exit records: does no I/O, but keeps state.

Without a waiting parent, the CPU time of a process since the last sample is lost at its exit, and all of it
if no sample saw the process; exit records have both. This second account, beside that of `accumulate`, has
processes' own times alone, without their children's: from /proc for live ones, from records for ended ones.
Neither account exceeds the truth, so the greater one is reported: nothing counts twice, and a lost record
costs only what the other account lacks too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from jobfeatures_exporter.sampling.exits.exitrecords import ExitRecord
from jobfeatures_exporter.sampling.host.procfs import TICKS_PER_SEC
from jobfeatures_exporter.sampling.processes.accumulate import CpuTicks
from jobfeatures_exporter.snapshot import ProcessSample

Key = TypeVar("Key", bound=Hashable)

TICK_USECS = 1_000_000 // TICKS_PER_SEC
START_TOLERANCE_SECS = 3.0  # between the start times of a record and of /proc
COUNTED, ELSEWHERE, UNKNOWN = "counted", "elsewhere", "unknown"


@dataclass(slots=True)
class _Time:
    """CPU time in microseconds."""

    user: int = 0
    system: int = 0

    @property
    def total(self) -> int:
        return self.user + self.system

    def copy(self) -> _Time:
        return _Time(self.user, self.system)

    def add(self, other: _Time) -> None:
        self.user += other.user
        self.system += other.system


@dataclass(slots=True)
class _Process(Generic[Key]):
    start_ticks: int
    key: Key
    own: _Time  # from /proc
    base: _Time  # of its children that ended before our start
    recorded: _Time  # from the records of its ended threads

    def final(self) -> _Time:
        """Return the CPU time of an ended process; threads that ended before our start have no record."""
        return self.recorded if self.recorded.total > self.own.total else self.own


@dataclass(slots=True)
class _Unseen:
    """A process that no sample saw, as its records describe it."""

    ppid: int
    start_secs: float
    time: _Time
    looks: int = 0


class ExitAccount(Generic[Key]):
    """Totals by job that never decrease. The caller must fetch the records before it samples the processes.

    Start times distinguish processes with the same pid. A record of a pid that two processes have had since
    the last sample counts for neither.
    """

    def __init__(self) -> None:
        self.has_started = False
        self._boot_time_secs: float | None = None
        self._before: Mapping[int, ProcessSample] = {}
        self._known: dict[int, _Process[Key]] = {}
        self._departed: dict[int, _Process[Key]] = {}  # in the last sample; their records may arrive late
        self._unseen: dict[int, _Unseen] = {}
        self._ended: dict[Key, _Time] = {}
        self._entangled: set[Key] = set()
        self._reported: dict[Key, CpuTicks] = {}
        self.results = dict.fromkeys((COUNTED, ELSEWHERE, UNKNOWN), 0)

    def update(
        self,
        records: Iterable[ExitRecord],
        processes: Mapping[int, ProcessSample],
        keys: Mapping[int, Key],
        ticks: Mapping[Key, CpuTicks],
        *,
        boot_time_secs: float | None,
    ) -> dict[Key, CpuTicks]:
        """Add one sample; return the totals to report for the jobs in `ticks`, and forget other jobs.

        `keys` has the job of each process that has one, `ticks` the totals of the other account. There are no
        records of processes that ended before the first sample: their time is in the children's time of
        processes that still exist.
        """
        self._boot_time_secs = boot_time_secs
        self._take(records if self.has_started else ())
        self._departed = self._look(processes, keys)
        self._settle_unseen(processes, keys)
        self._before = processes
        self.has_started = True
        self._find_entangled(processes, keys)
        return self._update_totals(ticks)

    # --- records --------------------------------------------------------------------

    def _take(self, records: Iterable[ExitRecord]) -> None:
        counted = {pid: each.final().copy() for pid, each in self._departed.items()}
        for record in records:
            time = _Time(record.user_usecs, record.system_usecs)
            process = self._known.get(record.pid) or self._departed.get(record.pid)
            if process is not None:
                if self._is_same(process.start_ticks, record.start_secs):
                    process.recorded.add(time)
                    self.results[COUNTED] += 1
                else:
                    self.results[UNKNOWN] += 1
            elif record.pid in self._before:
                self.results[ELSEWHERE] += 1
            else:
                unseen = self._unseen.setdefault(record.pid, _Unseen(record.ppid, record.start_secs, _Time()))
                unseen.time.add(time)
                unseen.ppid = record.ppid
        for pid, before in counted.items():
            process = self._departed[pid]
            self._end(process.key, _increase(before, process.final()))

    def _is_same(self, start_ticks: int, start_secs: float) -> bool:
        if self._boot_time_secs is None:
            return False
        return abs(self._started_secs(start_ticks) - start_secs) <= START_TOLERANCE_SECS

    def _started_secs(self, start_ticks: int) -> float:
        return (self._boot_time_secs or 0.0) + start_ticks / TICKS_PER_SEC

    def _end(self, key: Key, time: _Time) -> None:
        self._ended.setdefault(key, _Time()).add(time)

    # --- samples ----------------------------------------------------------------------

    def _look(
        self, processes: Mapping[int, ProcessSample], keys: Mapping[int, Key]
    ) -> dict[int, _Process[Key]]:
        """Update the live processes; add the time of those that have departed, and return them."""
        departed: dict[int, _Process[Key]] = {}
        living: dict[int, _Process[Key]] = {}
        for pid, known in self._known.items():
            now = processes.get(pid)
            if now is None or now.start_ticks != known.start_ticks:
                departed[pid] = known
                self._end(known.key, known.final())
                self._end(known.key, known.base)
            elif pid in keys:
                known.key, known.own = keys[pid], self._own(now)
                living[pid] = known
        for pid, key in keys.items():
            if pid in living:
                continue
            process = processes[pid]
            base = _Time() if self.has_started else self._children(process)
            recorded = _Time()
            unseen = self._unseen.get(pid)
            if unseen is not None and self._is_same(process.start_ticks, unseen.start_secs):
                recorded = unseen.time
            living[pid] = _Process(process.start_ticks, key, self._own(process), base, recorded)
        self._known = living
        return departed

    def _own(self, process: ProcessSample) -> _Time:
        return _Time(process.user_ticks * TICK_USECS, process.system_ticks * TICK_USECS)

    def _children(self, process: ProcessSample) -> _Time:
        return _Time(process.children_user_ticks * TICK_USECS, process.children_system_ticks * TICK_USECS)

    def _settle_unseen(self, processes: Mapping[int, ProcessSample], keys: Mapping[int, Key]) -> None:
        """Attribute processes that no sample saw to the job of their parent, if that is known."""
        left: dict[int, _Unseen] = {}
        for pid, unseen in self._unseen.items():
            if pid in processes:
                continue  # threads of a live process, or of an earlier one with the same pid
            is_known, key = self._job_of(unseen, processes, keys)
            if key is not None:
                self._end(key, unseen.time)
                self.results[COUNTED] += 1
            elif is_known:
                self.results[ELSEWHERE] += 1
            elif unseen.looks:
                self.results[UNKNOWN] += 1
            else:  # its parent's own record may arrive with the next sample
                unseen.looks += 1
                left[pid] = unseen
        self._unseen = left

    def _job_of(
        self, child: _Unseen, processes: Mapping[int, ProcessSample], keys: Mapping[int, Key]
    ) -> tuple[bool, Key | None]:
        """Return whether the nearest ancestor that a sample saw is known, and its job."""
        asked: set[int] = set()
        pid = child.ppid
        while pid not in asked and pid > 1:  # children of pid 1 may have been reparented from anywhere
            asked.add(pid)
            before, now, unseen = self._before.get(pid), processes.get(pid), self._unseen.get(pid)
            starts = {each.start_ticks for each in (before, now) if each is not None}
            if len(starts) > 1:
                return False, None
            for start_ticks in starts:
                is_other = unseen is not None and not self._is_same(start_ticks, unseen.start_secs)
                is_younger = self._started_secs(start_ticks) > child.start_secs + START_TOLERANCE_SECS
                if is_other or is_younger:
                    return False, None
                if now is not None:
                    return True, keys.get(pid)
                departed = self._departed.get(pid)
                return True, None if departed is None else departed.key
            if unseen is None:
                return False, None
            pid = unseen.ppid
        return False, None

    # --- totals -------------------------------------------------------------------------

    def _find_entangled(self, processes: Mapping[int, ProcessSample], keys: Mapping[int, Key]) -> None:
        """Find jobs whose processes have children in other jobs: the accounts attribute these differently."""
        for pid, key in keys.items():
            other = keys.get(processes[pid].ppid)
            if other is not None and other != key:
                self._entangled |= {key, other}

    def _update_totals(self, ticks: Mapping[Key, CpuTicks]) -> dict[Key, CpuTicks]:
        for gone in self._reported.keys() - ticks.keys():
            del self._reported[gone]
        for gone in self._ended.keys() - ticks.keys():
            del self._ended[gone]
        self._entangled &= ticks.keys()
        totals: dict[Key, _Time] = {}
        for process in self._known.values():
            total = totals.get(process.key)
            if total is None:
                total = totals[process.key] = self._ended.get(process.key, _Time()).copy()
            total.add(process.own)
            total.add(process.base)
        for key, other in ticks.items():
            mine = totals.get(key)
            best = other
            if mine is not None and key not in self._entangled:
                user, total_ticks = mine.user // TICK_USECS, mine.total // TICK_USECS
                if total_ticks > other.user + other.system:
                    best = CpuTicks(user, total_ticks - user)
            self._reported[key] = compute_reported(self._reported.get(key, CpuTicks(0, 0)), best)
        return dict(self._reported)


def _increase(before: _Time, after: _Time) -> _Time:
    """Return the increase of the total, split in the ratio in which user and system time grew."""
    reported = compute_reported(CpuTicks(before.user, before.system), CpuTicks(after.user, after.system))
    return _Time(reported.user - before.user, reported.system - before.system)


def compute_reported(reported: CpuTicks, best: CpuTicks) -> CpuTicks:
    """Return `reported`, raised to the total of `best` if that is greater; neither mode decreases.

    The accounts split the same time differently between the modes; the sum of
    each mode's maximum could exceed the total.
    """
    growth = best.user + best.system - reported.user - reported.system
    if growth <= 0:
        return reported
    user, system = max(0, best.user - reported.user), max(0, best.system - reported.system)
    user_growth = growth * user // (user + system)
    return CpuTicks(reported.user + user_growth, reported.system + growth - user_growth)
