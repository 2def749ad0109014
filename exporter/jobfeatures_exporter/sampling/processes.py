"""The processes of the node, scanned for little: /proc/PID/stat through kept descriptors.

Reading a kept descriptor spares the path walk, the open and the close, which
cost more than the read itself. A descriptor belongs to one process, not to a
number: once that process is gone, reading it answers ESRCH, and the number is
looked up again. One whose line has not changed is not parsed again.

Most processes sleep, and the kernel makes the three numbers of
/proc/PID/schedstat for a fifth of what the 52 of stat cost it. A process of
one thread that has not been on a CPU since has not changed what it says of
itself, so of those asleep schedstat is read first. What others do to a sleeper
shows late: its parent is looked up again when the last one has gone, and its
memory and process group at every 32nd look at the latest.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import (
    NO_MORE_FILES,
    OPEN_FLAGS,
    VANISHED,
    DescriptorBudget,
    Unreadable,
    read_file,
)
from jobfeatures_exporter.snapshot import ProcessSample

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SCHEDULE_BYTES = 64
READ_BYTES = 1024  # the 22 fields that count take 540 at most; what follows may be cut off
RELEASED_AT_ONCE = 64
ASLEEP = frozenset("SITtZD")  # states that only being on a CPU ends
READ_ANYWAY = 32  # looks
NOT_TOLD = b"0 0 0\n"  # what a kernel that does not count writes, see Documentation/scheduler/sched-stats.rst

# Fields behind the name, from 0: ppid pgrp session, utime stime cutime cstime, num_threads,
# starttime vsize rss.
_WANTED = itemgetter(1, 2, 3, 11, 12, 13, 14, 17, 19, 20, 21)
_LAST_WANTED = 21


def parse_process_stat(data: bytes, *, page_bytes: int = PAGE_BYTES) -> ProcessSample:
    r"""Return one process of its /proc/PID/stat.

    Source: proc_pid_stat(5). Sample: ``1234 (a) b\n(c) S 1 1234 1234 0 -1 …``,
    times in clock ticks, vsize in bytes, rss in pages. The name may hold any
    byte, parentheses and newlines included, so it ends at the last ``)``;
    invalid UTF-8 becomes U+FFFD. Raises ParseError.
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
    # By their places: this is done for every process that has run.
    return ProcessSample(
        int(pid), ppid, pgid, session, start, command, state,
        user, system, c_user, c_system, threads, resident * page_bytes, virtual,
    )  # fmt: skip


def _garbage(data: bytes) -> ParseError:
    return ParseError("not a process", source="stat", line=1, text=data.decode("utf-8", "replace"))


class _Entry:
    """One process: its descriptor (-1: not kept), its line, and what the line says.

    `schedule` is the descriptor of its schedstat while it is asleep (-1: not
    kept), `scheduled` what that said before `data` was read.
    """

    __slots__ = ("data", "descriptor", "pid", "sample", "schedule", "scheduled", "tells_schedule")

    def __init__(self, pid: int, descriptor: int, data: bytes, sample: ProcessSample) -> None:
        self.pid = pid
        self.descriptor = descriptor
        self.data = data
        self.sample = sample
        self.schedule = -1
        self.scheduled = b""
        self.tells_schedule = True


class ProcessScanner:
    """Looks at all processes below `procfs`, again and again, from one thread.

    At most `max_open` descriptors are kept (default: as many as the hard limit
    of the process allows, less a reserve); processes beyond are opened, read
    and closed. `budget` and `unreadable` are shared with other readers where
    given.
    """

    def __init__(
        self,
        procfs: str,
        *,
        max_open: int | None = None,
        budget: DescriptorBudget | None = None,
        unreadable: Unreadable | None = None,
    ) -> None:
        self._procfs = procfs
        self._budget = DescriptorBudget(max_open) if budget is None else budget
        self._unreadable = Unreadable() if unreadable is None else unreadable
        self._known: dict[str, _Entry] = {}
        self._look = 0

    @property
    def unreadable(self) -> Mapping[str, int]:
        """Return how many readings were left out since the start, by kind; vanished processes are none."""
        return self._unreadable.counts

    def scan(self) -> dict[int, ProcessSample]:
        """Return the processes of this moment by pid, in the order of the directory, which is that of pids.

        A process that has not changed is the same object as last time. One that
        is there but cannot be read this time keeps its last sample: to call it
        gone would be wrong; so would it be of one that is not listed and still
        answers. Raises OSError where `procfs` itself cannot be listed.
        """
        samples: dict[int, ProcessSample] = {}
        known = self._known
        pread = os.pread
        names = os.listdir(self._procfs)
        self._budget.begin_look()
        self._look += 1
        turn = self._look % READ_ANYWAY
        for name in names:
            entry = known.get(name)
            if entry is None:
                if name.isdigit() and name.isascii() and len(name) <= 10:
                    entry = self._look_up(name, None)
                if entry is None:
                    continue
                known[name] = entry
            else:
                try:
                    if entry.schedule >= 0:
                        scheduled = pread(entry.schedule, SCHEDULE_BYTES, 0)
                        if scheduled == entry.scheduled and entry.pid % READ_ANYWAY != turn:
                            samples[entry.pid] = entry.sample
                            continue
                        entry.scheduled = scheduled
                    data = pread(entry.descriptor, READ_BYTES, 0)
                except OSError as error:
                    if (entry := self._look_again(name, entry, error)) is None:
                        continue
                else:
                    if data != entry.data:
                        if not self._changed(name, entry, data):
                            continue
                    elif entry.schedule < 0 and entry.tells_schedule:
                        self._poll_schedstat(name, entry)
            samples[entry.pid] = entry.sample
        if len(samples) != len(known):
            gone = known.keys() - set(names)
            unlisted = {name for name in gone if self._is_alive(name)}
            if unlisted:
                self._unreadable.count("process_list_incomplete")
                samples.update((known[name].pid, known[name].sample) for name in unlisted if name in known)
                samples = dict(sorted(samples.items()))
            orphans = self._forget_all(gone - unlisted)
            for name in orphans:
                self._read_orphan(name, samples)
        return samples

    def glance(self, pids: Iterable[int]) -> dict[int, ProcessSample]:
        """Return these processes, those that are there, and forget nothing of the others."""
        self._budget.begin_look()
        samples = {}
        for pid in sorted(pids):
            name = str(pid)
            try:
                samples[pid] = self._parse(name, read_file(f"{self._procfs}/{name}/stat"))
            except (OSError, ParseError) as error:
                self._unreadable.add("process_stat", error)
        return samples

    def _is_alive(self, name: str) -> bool:
        """Return whether a process that was not listed still exists: its descriptor can be read."""
        entry = self._known[name]
        if entry.descriptor < 0:
            return False
        try:
            data = os.pread(entry.descriptor, READ_BYTES, 0)
            is_there = os.fstat(entry.descriptor).st_nlink > 0  # a file that only we hold reports nothing
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
        """Forget those that have gone; return those whose parent was one of them, and who sleep."""
        pids = {self._known[name].pid for name in names}
        for name in names:
            self._forget(name)
        return [name for name, each in self._known.items() if each.schedule >= 0 and each.sample.ppid in pids]

    def _read_orphan(self, name: str, samples: dict[int, ProcessSample]) -> None:
        entry = self._known[name]
        try:
            data = os.pread(entry.descriptor, READ_BYTES, 0)
        except OSError:  # gone as well: the next look finds that out
            return
        if data != entry.data and self._changed(name, entry, data):
            samples[entry.pid] = entry.sample

    def _poll_schedstat(self, name: str, entry: _Entry) -> None:
        """Poll schedstat instead of stat from now on, for a sleeping process whose line has not changed.

        It is read first: what happens between the two readings then shows at the next look.
        """
        sample = entry.sample
        if (
            sample.threads != 1
            or sample.state not in ASLEEP
            or entry.descriptor < 0
            or not self._budget.take()
        ):
            return
        try:
            descriptor = os.open(f"{self._procfs}/{name}/schedstat", OPEN_FLAGS)
        except OSError as error:  # a kernel without it; or gone, which the next look meets
            entry.tells_schedule = error.errno in NO_MORE_FILES
            self._budget.give()
            return
        entry.schedule = descriptor
        try:
            entry.scheduled = os.pread(descriptor, SCHEDULE_BYTES, 0)
            same = os.pread(entry.descriptor, READ_BYTES, 0) == entry.data
        except OSError:
            same = False
        entry.tells_schedule = entry.scheduled != NOT_TOLD
        if not same or not entry.tells_schedule:
            self._wake_up(entry)

    def _wake_up(self, entry: _Entry) -> None:
        if entry.schedule >= 0:
            os.close(entry.schedule)
            entry.schedule = -1
            self._budget.give()

    def _release(self, entry: _Entry) -> None:
        self._wake_up(entry)
        if entry.descriptor >= 0:
            os.close(entry.descriptor)
            entry.descriptor = -1
            self._budget.give()

    def _look_up(self, name: str, last: _Entry | None) -> _Entry | None:
        """Return what stands behind a number now, None where nothing does or nobody can tell."""
        try:
            descriptor = self._open(name)
        except OSError as error:
            return self._left_out(name, error, last)
        keep = False
        try:
            data = os.pread(descriptor, READ_BYTES, 0)
            sample = last.sample if last is not None and data == last.data else self._parse(name, data)
            keep = self._budget.take()
            return _Entry(sample.pid, descriptor if keep else -1, data, sample)
        except (OSError, ParseError) as error:
            return self._left_out(name, error, last)
        finally:
            if not keep:
                os.close(descriptor)

    def _look_again(self, name: str, entry: _Entry, error: OSError) -> _Entry | None:
        """Return the entry for a number whose descriptor is not kept, or failed."""
        if entry.descriptor >= 0 and error.errno not in VANISHED:
            self._unreadable.add("process_stat", error)
            return entry
        last = entry if entry.descriptor < 0 else None
        self._forget(name)
        found = self._look_up(name, last)
        if found is not None:
            self._known[name] = found
        return found

    def _left_out(self, name: str, error: OSError | ParseError, last: _Entry | None) -> _Entry | None:
        self._unreadable.add("process_stat", error)
        gone = isinstance(error, OSError) and error.errno in VANISHED
        return None if gone or last is None else last

    def _changed(self, name: str, entry: _Entry, data: bytes) -> bool:
        try:
            entry.sample = self._parse(name, data)
            entry.data = data
            self._wake_up(entry)
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
                "names another process", source=f"{self._procfs}/{name}/stat", text=str(sample.pid)
            )
        return sample

    def _open(self, name: str) -> int:
        path = f"{self._procfs}/{name}/stat"
        try:
            return os.open(path, OPEN_FLAGS)
        except OSError as error:
            if error.errno not in NO_MORE_FILES:
                raise
        # Somebody else needs descriptors more than we need ours.
        kept = (entry for entry in self._known.values() if entry.descriptor >= 0)
        for entry in list(itertools.islice(kept, RELEASED_AT_ONCE)):
            self._release(entry)
        self._budget.shrink()
        return os.open(path, OPEN_FLAGS)
