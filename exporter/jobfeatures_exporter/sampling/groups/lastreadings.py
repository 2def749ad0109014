"""Reads the control groups of jobs a last time at their end, before the groups are removed.

A batch system removes the groups of a task within milliseconds of its end, so OOM kills and the peak of
memory would be lost. A thread therefore waits for the end of each job's first processes, by pidfd_open(2)
(Linux 5.3), and then reads the job's groups. Groups created after the last sample are only read by regular
samples.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Collection, Mapping

from jobfeatures.records.combining import grouped
from jobfeatures.system.filelimit import limits
from jobfeatures_exporter.sampling.descriptors import (
    NO_MORE_FILES,
    VANISHED,
    DescriptorBudget,
    Unreadable,
)
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory

log = logging.getLogger(__name__)

MAX_WAITED_FOR = 256  # pidfds; a small part of what `DescriptorBudget` leaves to the rest of the program
GAP_SECS = 0.01  # between two rounds: if many processes end at once, their groups are read once


def most_waited_for() -> int:
    """Return how many processes may be waited for at a time; each takes one of the program's descriptors."""
    return min(MAX_WAITED_FOR, limits()[0] // 4)


def read_figures(directory: JobDirectory) -> GroupFigures:
    """Read all figures of a job's control group once; missing or unreadable ones are None."""
    group = JobCgroup(directory, DescriptorBudget(0), Unreadable())
    return group.read()


class LastReadings:
    """Reads the control groups of jobs when their processes end; keeps the readings for the next sample.

    One thread calls `run`.
    """

    def __init__(
        self,
        read: Callable[[JobDirectory], GroupFigures] = read_figures,
        *,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        """`on_end` is called in the thread of `run` when processes that are waited for have ended."""
        self._read = read
        self._on_end = on_end
        self._lock = threading.Lock()
        self._readings: dict[str, GroupFigures] = {}  # by unique_name of the directory
        self._directories: Mapping[str, Collection[JobDirectory]] = {}  # by path
        self._wanted: Mapping[int, Collection[JobDirectory]] = {}  # by pid
        self._waiting: dict[int, int] = {}  # descriptor by pid
        self._ended: set[int] = set()  # wanted pids that have ended; they may not have been reaped yet
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._wake_reader, select.POLLIN)
        self._stopping = threading.Event()
        self._works = hasattr(os, "pidfd_open")

    def follow(
        self, directories: Collection[JobDirectory], first: Mapping[int, Collection[JobDirectory]]
    ) -> None:
        """Set which control groups to read when a process ends. Any thread may call this.

        `directories` are the groups of all jobs. `first` has, by pid of a job's first process, the groups
        that may be removed when it ends.
        """
        self._directories = grouped((path, each) for each in directories for path in each.groups.values())
        self._wanted = first
        self._wake()

    def note(self, path: str) -> None:
        """Read the control groups of the job with the directory `path` now. Any thread may call this."""
        for each in self._directories.get(path, ()):
            self._note(each)

    def take(self) -> dict[str, GroupFigures]:
        """Return the readings since the last call, by `JobDirectory.unique_name`, which names a group.

        If a reading is in progress, wait for it.
        """
        with self._lock:
            taken, self._readings = self._readings, {}
        return taken

    def run(self) -> None:
        """Wait for processes to end and then read their groups, until `stop` is called."""
        while not self._stopping.is_set():
            ended = {descriptor for descriptor, _ in self._poll.poll()}
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_reader, 65536)
            self._read_groups_of({pid for pid, descriptor in self._waiting.items() if descriptor in ended})
            self._wait_for_others()
            self._stopping.wait(GAP_SECS)
        self.close()

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()
        self._wake()

    def close(self) -> None:
        """Close all descriptors."""
        for pid in list(self._waiting):
            self._forget(pid)
        with self._lock:
            for descriptor in (self._wake_reader, self._wake_writer):
                if descriptor >= 0:
                    os.close(descriptor)
            self._wake_reader = self._wake_writer = -1

    def _wake(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):  # a full pipe wakes the thread too
            if self._wake_writer >= 0:
                os.write(self._wake_writer, b"x")

    def _read_groups_of(self, ended: Collection[int]) -> None:
        wanted = self._wanted
        found = {each.unique_name: each for pid in ended for each in wanted.get(pid, ())}
        for pid in self._waiting.keys() & ended:
            self._forget(pid)
        self._ended.update(ended)
        for each in found.values():
            self._note(each)
        if found:
            self._on_end()

    def _note(self, directory: JobDirectory) -> None:
        with self._lock:
            try:
                figures = self._read(directory)
            except Exception:  # supervised: sampling continues without it
                log.exception("unexpected error in reading a job's last figures")
                return
            before = self._readings.get(directory.unique_name)
            self._readings[directory.unique_name] = figures if before is None else figures.merged(before)

    def _wait_for_others(self) -> None:
        wanted = self._wanted
        self._ended &= wanted.keys()
        for pid in self._waiting.keys() - wanted.keys():
            self._forget(pid)
        most = most_waited_for()
        vanished = set()
        for pid in wanted.keys() - self._waiting.keys() - self._ended if self._works else ():
            if len(self._waiting) >= most:
                break
            try:
                descriptor = os.pidfd_open(pid)
            except OSError as error:
                if error.errno in VANISHED:  # it has ended since the sample
                    vanished.add(pid)
                    continue
                if error.errno not in NO_MORE_FILES:
                    self._works = False
                    log.warning(
                        "cannot wait for the end of processes, so OOM kills and memory peaks may "
                        "be missed: %s",
                        error.strerror,
                    )
                break
            self._waiting[pid] = descriptor
            self._poll.register(descriptor, select.POLLIN)
        if vanished:
            self._read_groups_of(vanished)

    def _forget(self, pid: int) -> None:
        descriptor = self._waiting.pop(pid)
        self._poll.unregister(descriptor)
        os.close(descriptor)
