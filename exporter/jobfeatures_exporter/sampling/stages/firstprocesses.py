"""Finds which processes to wait for, because their end may be the end of their job."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.groups.endings import find_first_processes
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from jobfeatures_exporter.sampling.stages.values import Attributed, ListedGroups, ProcessesRead

# Every so many samples first processes are searched in any case: their parents may have changed.
AGAIN_SAMPLES = 16


class Awaited(NamedTuple):
    """The processes whose end to wait for, and the control groups to read when one ends.

    `directories` are the control groups of all jobs. `by_pid` has the first processes of jobs, each with the
    groups that may be removed when it ends.
    """

    directories: Collection[JobDirectory]
    by_pid: Mapping[int, Collection[JobDirectory]]


class FirstProcesses:
    """Finds the first processes of each job, at each sample with new control groups or processes.

    They are those whose parent is not a process of the same job. When they end, the job may have ended.
    """

    def __init__(self) -> None:
        self._samples = 0
        self._first: dict[JobKey, tuple[int, ...]] = {}
        self._read: Mapping[JobKey, Sequence[ProcessSample]] = {}  # the job's processes when these were found

    def find(self, listed: ListedGroups, read: ProcessesRead, found: Attributed) -> Awaited | None:
        """Return the first processes of all jobs, and the jobs' control groups; None if neither has changed.

        The first processes of a job are those whose parent is not a process of the same job. `listed` are the
        control groups that were listed for the sample, `read` the processes that were read, and `found` says
        to which job each process and control group belongs.
        """
        self._samples += 1
        if not (read.are_all or found.members or listed.groups.have_changed):
            return None
        groups, members = found.groups, found.members
        of_jobs = {job: members.get(job, ()) for job in groups if read.are_all or job in members}
        again = self._samples % AGAIN_SAMPLES == 1
        first = {
            job: tuple(find_first_processes(job, of_jobs[job], read.processes, found.keys))
            if job in of_jobs and (again or self._read.get(job) != of_jobs[job])
            else self._first.get(job, ())
            for job in groups
        }
        self._read = of_jobs
        if first == self._first and not listed.groups.have_changed:
            return None
        self._first = first
        by_pid = {pid: groups[job] for job, pids in first.items() for pid in pids}
        return Awaited([each for those in groups.values() for each in those], by_pid)
