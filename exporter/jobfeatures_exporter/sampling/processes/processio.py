"""Sums what the processes of each job have read and written, from /proc/PID/io.

A process is read only if its stat line has changed; else it has not used a clock tick. Its input and output
may still have grown a little. So each process is read at one of `READ_AGAIN` samples in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jobfeatures.errors import ParseError
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import ProcessIo, ProcessSample
from jobfeatures_exporter.sampling.descriptors import VANISHED, DescriptorBudget, KeptFile, Unreadable
from jobfeatures_exporter.sampling.parsers.counterfiles import parse_process_io
from jobfeatures_exporter.sampling.processes.accumulate import IoAccumulator, IoReading

READ_AGAIN = 32
FAILED_READ_AGAIN = 8  # what could not be read: without the capability, all would be retried each time


class _Entry(KeptFile):
    """One process: its file, and the last content."""

    def __init__(self, path: str, budget: DescriptorBudget, start_ticks: int) -> None:
        super().__init__(path, budget)
        self.start_ticks = start_ticks
        self.data = b""


class ProcessIoBook:
    """Keeps each job's totals of input and output, which never decrease; see `IoAccumulator`."""

    def __init__(
        self,
        procfs: str,
        budget: DescriptorBudget,
        unreadable: Unreadable,
        brings_life: Callable[[JobKey, JobKey | None], bool] = lambda _last, _now: True,
    ) -> None:
        self._procfs = procfs
        self._budget = budget
        self._unreadable = unreadable
        self._entries: dict[int, _Entry] = {}
        self._processes: Mapping[int, ProcessSample] = {}  # those of the last sample, by pid
        self._readings: dict[int, IoReading] = {}
        self._failed: set[int] = set()  # pids that could not be read the last time
        self._accumulator: IoAccumulator[JobKey] = IoAccumulator(brings_life=brings_life)
        self._number = 0

    def update(self, members: Mapping[JobKey, Sequence[ProcessSample]]) -> Mapping[JobKey, ProcessIo]:
        """Add one sample; return the totals by job.

        `members` has the processes of each job, which may be none. A job with a process that could not be
        read is left out of the result. Jobs that are not in `members` are forgotten.
        """
        self._number += 1
        keys = {process.pid: key for key, processes in members.items() for process in processes}
        processes = {process.pid: process for processes in members.values() for process in processes}
        known = self._entries
        for pid in known.keys() - processes.keys():
            self._forget(pid)
        before, self._processes = self._processes, processes
        due, due_again = -self._number % READ_AGAIN, -self._number % FAILED_READ_AGAIN
        failed = frozenset(self._failed)
        for pid, process in processes.items():
            sleeps = before.get(pid) is process
            if not sleeps or (pid % READ_AGAIN == due and pid not in failed):
                self._refresh(process, sleeps=sleeps)
        for pid in failed:
            if pid % FAILED_READ_AGAIN == due_again and before.get(pid) is processes[pid]:
                self._refresh(processes[pid], sleeps=True)
        unknown = {keys[pid] for pid in self._failed}
        readings = self._readings.copy()
        if len(readings) != len(keys):
            keys = {pid: keys[pid] for pid in readings}
        totals = self._accumulator.update(readings, keys, members.keys())
        return {key: sums for key, sums in totals.items() if key not in unknown}

    def _refresh(self, process: ProcessSample, *, sleeps: bool) -> None:
        pid = process.pid
        entry = self._entries.get(pid)
        if entry is not None and entry.start_ticks != process.start_ticks:
            self._forget(pid)
            entry = None
        if entry is None:
            entry = _Entry(f"{self._procfs}/{pid}/io", self._budget, process.start_ticks)
            self._entries[pid] = entry
        self._read(entry, process, sleeps=sleeps)

    def _forget(self, pid: int) -> None:
        self._entries.pop(pid).close()
        self._readings.pop(pid, None)
        self._failed.discard(pid)

    def close(self) -> None:
        """Close the descriptors."""
        for entry in self._entries.values():
            entry.close()
        self._entries.clear()
        self._processes = {}

    def _read(self, entry: _Entry, process: ProcessSample, *, sleeps: bool) -> None:
        pid = process.pid
        last = self._readings.get(pid)
        self._failed.discard(pid)
        try:
            data = entry.read(rarely=sleeps)
            if last is None or data != entry.data:
                io = parse_process_io(data.decode("ascii", "replace"))
            elif process.ppid == last.ppid and process.state == last.state:
                return  # keep the same object, which the accumulator skips
            else:
                io = last.io
        except (OSError, ParseError) as error:
            self._unreadable.add("process_io", error)
            if not (isinstance(error, OSError) and error.errno in VANISHED):
                self._failed.add(pid)
            return
        self._readings[pid] = IoReading(pid, process.ppid, process.start_ticks, process.state, io)
        entry.data = data
