"""What the processes of jobs read and wrote, by job: /proc/PID/io.

Only what may have changed is read: a process whose stat line is the same has
not used a clock tick since. As its input and output may still have grown a
little, each is read at every `RELOOK`-th look in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from exporter.sampling.accumulate import IoAccumulator, IoBytes, IoReading
from exporter.sampling.counterfiles import parse_process_io
from exporter.sampling.descriptors import VANISHED, DescriptorBudget, KeptFile, Unreadable
from exporter.snapshot import ProcessIo, ProcessSample
from jobfeatures.errors import ParseError
from jobfeatures.model import JobKey

RELOOK = 32
FAILED_RELOOK = 8  # for those that could not be read: without the right to, it would be all of them each time
_NOTHING = IoBytes(0, 0, 0, 0, 0)


class _Entry(KeptFile):
    """One process. `reading` was made when its stat line was that of `process`."""

    def __init__(self, path: str, budget: DescriptorBudget, start_ticks: int) -> None:
        super().__init__(path, budget)
        self.start_ticks = start_ticks
        self.look = 0
        self.data = b""
        self.process: ProcessSample | None = None
        self.reading: IoReading | None = None
        self.failed = False


class ProcessIoBook:
    """Input and output by job, never falling."""

    def __init__(self, procfs: str, budget: DescriptorBudget, unreadable: Unreadable) -> None:
        self._procfs = procfs
        self._budget = budget
        self._unreadable = unreadable
        self._entries: dict[int, _Entry] = {}
        self._accumulator: IoAccumulator[JobKey] = IoAccumulator()
        self._last: dict[JobKey, IoBytes] = {}
        self._before: dict[JobKey, IoBytes] = {}  # of the time before a job had no processes for a while
        self._look = 0

    def update(self, members: Mapping[JobKey, Sequence[ProcessSample]]) -> dict[JobKey, ProcessIo]:
        """Take one look at the processes of each job, by job, also of those that have none just now.

        A job of which a process could not be read is left out. Jobs that are not there are forgotten.
        """
        self._look += 1
        readings: dict[int, IoReading] = {}
        keys: dict[int, JobKey] = {}
        unknown = set()
        known = self._entries
        due = -self._look % RELOOK
        count = 0
        for key, processes in members.items():
            count += len(processes)
            for process in processes:
                pid = process.pid
                entry = known.get(pid)
                if entry is None or entry.start_ticks != process.start_ticks:
                    if entry is not None:
                        entry.close()
                    entry = known[pid] = _Entry(f"{self._procfs}/{pid}/io", self._budget, process.start_ticks)
                entry.look = self._look
                gap = FAILED_RELOOK if entry.failed else RELOOK
                if process is not entry.process or pid % gap == due % gap:
                    self._read(entry, process)
                if entry.failed:
                    unknown.add(key)
                if entry.reading is not None:
                    readings[pid] = entry.reading
                    keys[pid] = key
        if len(known) != count:
            for pid in [pid for pid, entry in known.items() if entry.look != self._look]:
                known.pop(pid).close()
        totals = self._accumulator.update(readings, keys)
        return {key: ProcessIo(**sums) for key, sums in self._sums(members, totals) if key not in unknown}

    def _sums(
        self, jobs: Collection[JobKey], totals: Mapping[JobKey, IoBytes]
    ) -> Iterator[tuple[JobKey, dict[str, int]]]:
        before, last = self._before, self._last
        self._before, self._last = {}, {}
        for key in jobs:
            done = before.get(key, _NOTHING)
            if key in totals:
                self._last[key] = totals[key]
            elif key in last:
                done = IoBytes(*map(sum, zip(done, last[key], strict=True)))
            elif key not in before:
                continue
            self._before[key] = done
            now = self._last.get(key, _NOTHING)
            yield key, {name: getattr(done, name) + getattr(now, name) for name in IoBytes._fields}

    def close(self) -> None:
        """Close the descriptors."""
        for entry in self._entries.values():
            entry.close()
        self._entries.clear()

    def _read(self, entry: _Entry, process: ProcessSample) -> None:
        """Read one process; what cannot be read stays as it was known."""
        entry.failed = False
        try:
            data = entry.read()
            if data == entry.data and entry.reading is not None:
                io = entry.reading.io
            else:
                io = parse_process_io(data.decode("ascii", "replace"))
        except (OSError, ParseError) as error:
            self._unreadable.add("process_io", error)
            entry.process = process
            entry.failed = not (isinstance(error, OSError) and error.errno in VANISHED)
            return
        entry.reading = IoReading(process.pid, process.ppid, process.start_ticks, process.state, io)
        entry.data = data
        entry.process = process
