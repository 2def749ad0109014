"""Scans the processes of the node cheaply: /proc/PID/stat through descriptors that are kept open.

Reading an open descriptor saves the path walk, the open and the close, which cost more than the read itself.
A descriptor belongs to one process, not to a pid: once that process has ended, reading it fails with ESRCH,
and the pid is looked up again. A line that has not changed is not parsed again.

Most processes sleep. Reading a process's CPU clock needs no file, and costs the kernel a fifth of writing the
52 numbers of stat. A process without new CPU time has not changed its own state. So if a process's line was
unchanged at the last sample, the clock is read, and stat only if the clock has advanced. What others do to a
sleeping process is noticed late: a new parent when the old one has ended, anything else within 32 samples.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Collection, Iterable
from operator import itemgetter

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.descriptors import (
    NO_MORE_FILES,
    OPEN_FLAGS,
    VANISHED,
    DescriptorBudget,
    Unreadable,
    read_file,
)

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
READ_BYTES = 1024  # the 22 fields needed take at most 540; the rest may be truncated
RELEASED_AT_ONCE = 64
READ_ANYWAY = 32  # samples

# Fields after the name, from 0: ppid pgrp session, utime stime cutime cstime, num_threads,
# starttime vsize rss.
_WANTED = itemgetter(1, 2, 3, 11, 12, 13, 14, 17, 19, 20, 21)
_LAST_WANTED = 21


def parse_process_stat(data: bytes, *, page_bytes: int = PAGE_BYTES) -> ProcessSample:
    r"""Return the process that the content of a /proc/PID/stat describes.

    Source: proc_pid_stat(5). Sample: ``1234 (a) b\n(c) S 1 1234 1234 0 -1 …``, with times in clock ticks,
    vsize in bytes, rss in pages. The name may hold any byte, parentheses and newlines included, so it ends at
    the last ``)``; invalid UTF-8 becomes U+FFFD. Raises ParseError if malformed.
    """
    end = data.rfind(b")")
    pid, bracket, name = data[: max(end, 0)].partition(b" (")
    fields = data[end + 2 :].split(b" ", _LAST_WANTED + 1)
    if not bracket or not pid.isdigit() or len(pid) > 10 or len(fields) <= _LAST_WANTED + 1:
        raise _garbage(data)
    wanted = _WANTED(fields)
    if not b"".join(wanted).isdigit() or b"" in wanted or len(fields[0]) != 1:
        raise _garbage(data)
    ppid, pgid, session, user, system, c_user, c_system, threads, start, virtual, resident = map(int, wanted)
    command, state = name.decode("utf-8", "replace"), fields[0].decode("ascii", "replace")
    # Positional arguments, for speed: this is done for every process that has run.
    return ProcessSample(
        int(pid), ppid, pgid, session, start, command, state,
        user, system, c_user, c_system, threads, resident * page_bytes, virtual,
    )  # fmt: skip


def _garbage(data: bytes) -> ParseError:
    return ParseError(
        "not a line of /proc/PID/stat", source="stat", line=1, text=data.decode("utf-8", "replace")
    )


def clock_of(pid: int) -> int:
    """Return the id of a process's CPU clock, which counts all its threads; see clock_getcpuclockid(3)."""
    return ~pid << 3 | 2


def find_clocks(procfs: str) -> Callable[[int], int] | None:
    """Return a function that returns the CPU time of a pid in nanoseconds.

    None if such clocks cannot be read here, for example because `procfs` is of another pid namespace.
    """
    try:
        time.clock_gettime_ns(clock_of(os.getpid()))
        status = read_file(f"{procfs}/self/status")
    except OSError:
        return None
    return time.clock_gettime_ns if b"\nNSpid:\t%d\n" % os.getpid() in status else None


class _Entry:
    """One process: its descriptor (-1: not kept open), its line, and the parsed line.

    `used` is the CPU time that it had used before `data` was read: -1 if unknown, None if the line
    differed from the previous sample's, so that reading the clock would be of no use.
    """

    __slots__ = ("clock", "data", "descriptor", "pid", "sample", "used")

    def __init__(self, pid: int, descriptor: int, data: bytes, sample: ProcessSample) -> None:
        self.pid = pid
        self.clock = clock_of(pid)
        self.descriptor = descriptor
        self.data = data
        self.sample = sample
        self.used: int | None = None


class ProcessScanner:
    """Reads all processes below `procfs` at each sample, in one thread.

    Each process has a file, `procfs`/PID/stat. As many of these files are kept open as `budget` allows; the
    others are opened, read and closed at each sample. `unreadable` counts files that cannot be read. Other
    readers may share `budget` and `unreadable`; if one is not given, the scanner has its own.
    """

    def __init__(
        self,
        procfs: str,
        *,
        budget: DescriptorBudget | None = None,
        unreadable: Unreadable | None = None,
        read_clock: Callable[[int], int] | None = None,
    ) -> None:
        self._procfs = procfs
        self._read_clock = find_clocks(procfs) if read_clock is None else read_clock
        self._budget = DescriptorBudget() if budget is None else budget
        self._unreadable = Unreadable() if unreadable is None else unreadable
        self._known: dict[str, _Entry] = {}
        self._number = 0

    def scan(self) -> dict[int, ProcessSample]:
        """Return all processes that exist now, by pid, in the order of pids.

        An unchanged process is the same object as last time. A process that exists but cannot be read now is
        returned as it was in the last sample. The same applies to a process that is missing in the list of
        /proc although its open descriptor can still be read. Raises OSError if `procfs` itself cannot be
        listed.
        """
        known = self._known
        names = os.listdir(self._procfs)
        self._budget.begin_sample()
        self._number += 1
        gone = known.keys() - names
        due = self._due()
        for name in names:
            if name not in known and name.isdigit() and name.isascii() and len(name) <= 10:
                self._look_up(name, None)
        for name, entry in due:
            if name not in gone:
                self._read(name, entry)
        samples = {each.pid: each.sample for name in names if (each := known.get(name)) is not None}
        if gone:
            unlisted = {name for name in gone if self._is_alive(name)}
            if unlisted:
                self._unreadable.count("process_list_incomplete")
                samples.update((known[name].pid, known[name].sample) for name in unlisted if name in known)
                samples = dict(sorted(samples.items()))
            orphans = self._forget_all(gone - unlisted)
            for name in orphans:
                self._read_orphan(name, samples)
        return samples

    def _due(self) -> list[tuple[str, _Entry]]:
        """Return the processes to read: the others have used no CPU time since their line was read."""
        read, turn = self._read_clock, self._number % READ_ANYWAY
        if read is None:
            return list(self._known.items())
        due = []
        for each in self._known.items():
            entry = each[1]
            if entry.used is not None:
                try:
                    used = read(entry.clock)
                except OSError:  # it has ended
                    used = -1
                if used == entry.used != -1 and entry.pid % READ_ANYWAY != turn:
                    continue
                entry.used = used
            due.append(each)
        return due

    def _read(self, name: str, entry: _Entry) -> None:
        try:
            data = os.pread(entry.descriptor, READ_BYTES, 0)
        except OSError as error:
            self._open_again(name, entry, error)
            return
        if data != entry.data:
            self._changed(name, entry, data)
        elif entry.used is None:
            entry.used = -1

    def glance(self, pids: Iterable[int]) -> dict[int, ProcessSample]:
        """Read only the processes in `pids`; return those that exist, by pid.

        What is known of other processes is kept.
        """
        self._budget.begin_sample()
        samples = {}
        for pid in sorted(pids):
            name = str(pid)
            try:
                samples[pid] = self._parse(name, read_file(f"{self._procfs}/{name}/stat"))
            except (OSError, ParseError) as error:
                self._unreadable.add("process_stat", error)
        return samples

    def _is_alive(self, name: str) -> bool:
        """Return whether a process that was not listed still exists: its descriptor is still readable."""
        entry = self._known[name]
        if entry.descriptor < 0:
            return False
        try:
            data = os.pread(entry.descriptor, READ_BYTES, 0)
            is_there = os.fstat(entry.descriptor).st_nlink > 0  # an unlinked regular file proves nothing
        except OSError:
            return False
        if is_there and data != entry.data:
            self._changed(name, entry, data)
        return is_there

    def close(self) -> None:
        """Close all descriptors; a later scan starts afresh."""
        for name in list(self._known):
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._release(self._known.pop(name))

    def _forget_all(self, names: Collection[str]) -> list[str]:
        """Forget ended processes; return their children that were not read in this sample."""
        pids = {self._known[name].pid for name in names}
        for name in names:
            self._forget(name)
        known = self._known.items()
        return [name for name, each in known if each.used is not None and each.sample.ppid in pids]

    def _read_orphan(self, name: str, samples: dict[int, ProcessSample]) -> None:
        entry = self._known[name]
        try:
            data = os.pread(entry.descriptor, READ_BYTES, 0)
        except OSError:  # it has ended too: the next sample notices
            return
        if data != entry.data and self._changed(name, entry, data):
            samples[entry.pid] = entry.sample

    def _release(self, entry: _Entry) -> None:
        if entry.descriptor >= 0:
            os.close(entry.descriptor)
            entry.descriptor = -1
            self._budget.give()

    def _look_up(self, name: str, last: _Entry | None) -> None:
        """Open and read the process that has this pid now; keep `last` if that fails."""
        try:
            descriptor = self._open(name)
        except OSError as error:
            self._leave_out(name, error, last)
            return
        keep = False
        try:
            data = os.pread(descriptor, READ_BYTES, 0)
            same = last is not None and data == last.data
            sample = last.sample if last is not None and same else self._parse(name, data)
            keep = self._budget.take()
            found = self._known[name] = _Entry(sample.pid, descriptor if keep else -1, data, sample)
            if last is not None and same:
                found.used = -1 if last.used is None else last.used
        except (OSError, ParseError) as error:
            self._leave_out(name, error, last)
        finally:
            if not keep:
                os.close(descriptor)

    def _open_again(self, name: str, entry: _Entry, error: OSError) -> None:
        """Look up a pid again whose descriptor is not kept open, or failed."""
        if entry.descriptor >= 0 and error.errno not in VANISHED:
            self._unreadable.add("process_stat", error)
            return
        last = entry if entry.descriptor < 0 else None
        self._forget(name)
        self._look_up(name, last)

    def _leave_out(self, name: str, error: OSError | ParseError, last: _Entry | None) -> None:
        self._unreadable.add("process_stat", error)
        if last is not None and not (isinstance(error, OSError) and error.errno in VANISHED):
            self._known[name] = last

    def _changed(self, name: str, entry: _Entry, data: bytes) -> bool:
        try:
            entry.sample = self._parse(name, data)
            entry.data = data
            entry.used = None
        except (OSError, ParseError) as error:
            self._unreadable.add("process_stat", error)
            if isinstance(error, OSError) and error.errno in VANISHED:
                self._forget(name)
                return False
        return True

    def _parse(self, name: str, data: bytes) -> ProcessSample:
        sample = parse_process_stat(data)
        if str(sample.pid) != name:
            raise ParseError(
                "the pid in this file differs from that in its path",
                source=f"{self._procfs}/{name}/stat",
                text=str(sample.pid),
            )
        return sample

    def _open(self, name: str) -> int:
        path = f"{self._procfs}/{name}/stat"
        try:
            return os.open(path, OPEN_FLAGS)
        except OSError as error:
            if error.errno not in NO_MORE_FILES:
                raise
        # Other parts of the system need descriptors more than this scanner.
        kept = (entry for entry in self._known.values() if entry.descriptor >= 0)
        for entry in list(itertools.islice(kept, RELEASED_AT_ONCE)):
            self._release(entry)
        self._budget.shrink()
        return os.open(path, OPEN_FLAGS)
