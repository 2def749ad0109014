"""Which job a process belongs to by its numbers and its ancestry: pure. By control group: `hierarchies`."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.snapshot import ProcessSample
from jobfeatures.model import Job, JobKey

SONAR_EPOCH_SECS = 1577836800  # 2020-01-01T00:00:00Z


def compute_epoch(boot_time_secs: int) -> int:
    """Return a boot time in seconds since 2020, as Sonar tells process groups of different boots apart."""
    return boot_time_secs - SONAR_EPOCH_SECS


class _Number:
    """A process, process-group or session id that a job names, until it may mean somebody else."""

    __slots__ = ("seen", "spent", "start_ticks")

    def __init__(self) -> None:
        self.seen = False
        self.spent = False
        self.start_ticks: int | None = None  # of the process of this id, where it was still there

    def observe(self, leader: ProcessSample | None, in_use: bool) -> None:
        if self.spent:
            return
        if not self.seen:
            self.seen = in_use
            self.start_ticks = None if leader is None else leader.start_ticks
        elif not in_use or (leader is not None and leader.start_ticks != self.start_ticks):
            # The kernel gives a number away again only after its process, group and session have ended.
            self.spent = True


class ProcessJobs:
    """Attributes processes to jobs whose source names processes, process groups or sessions.

    A process belongs to a job if its pid or process group is in
    `Job.processes`, its session in `Job.sessions`, or its parent belongs; it
    then belongs for its whole life or the job's, reparented or not. A number
    that has come to mean another process no longer counts.
    """

    def __init__(self) -> None:
        self._members: dict[int, tuple[int, JobKey]] = {}  # pid → start time, job
        self._numbers: dict[JobKey, dict[tuple[str, int], _Number]] = {}

    def update(self, processes: Mapping[int, ProcessSample], jobs: Mapping[JobKey, Job]) -> dict[int, JobKey]:
        """Return the job of each process that has one, given one scan and the jobs known at its time."""
        naming = {key: job for key, job in jobs.items() if job.processes or job.sessions}
        if not naming and not self._members:
            self._numbers.clear()
            return {}
        groups, sessions = self._listed(processes, naming)
        found: dict[int, JobKey | None] = {}
        for pid, (start_ticks, key) in self._members.items():
            process = processes.get(pid)
            if key in jobs and process is not None and process.start_ticks == start_ticks:
                found[pid] = key
        for pid in processes:
            if pid not in found:
                _resolve(pid, processes, groups, sessions, found)
        members = {pid: key for pid, key in found.items() if key is not None}
        self._members = {pid: (processes[pid].start_ticks, key) for pid, key in members.items()}
        return members

    def _listed(
        self, processes: Mapping[int, ProcessSample], naming: Mapping[JobKey, Job]
    ) -> tuple[dict[int, JobKey], dict[int, JobKey]]:
        """Return the jobs by process or process-group id, and by session id, that are still meant."""
        for key in self._numbers.keys() - naming.keys():
            del self._numbers[key]
        groups_in_use = {process.pgid for process in processes.values()}
        sessions_in_use = {process.session for process in processes.values()}
        groups: dict[int, JobKey] = {}
        sessions: dict[int, JobKey] = {}
        for key, job in naming.items():
            known = self._numbers.setdefault(key, {})
            for kind, ids, in_use, valid in (
                ("group", job.processes, groups_in_use, groups),
                ("session", job.sessions, sessions_in_use, sessions),
            ):
                for each in ids:
                    if each <= 0:  # 0 is the group and session of kernel threads
                        continue
                    number = known.setdefault((kind, each), _Number())
                    number.observe(processes.get(each), each in processes or each in in_use)
                    if not number.spent:
                        valid.setdefault(each, key)
        return groups, sessions


def _resolve(
    pid: int,
    processes: Mapping[int, ProcessSample],
    groups: Mapping[int, JobKey],
    sessions: Mapping[int, JobKey],
    found: dict[int, JobKey | None],
) -> None:
    """Find the job of one process, asking up its ancestors, and note it for all of them."""
    asked = []
    key = None
    while pid not in found:
        process = processes.get(pid)
        if process is None:
            break
        found[pid] = None  # ends a circle, which only a made-up tree can have
        asked.append(pid)
        key = groups.get(pid) or groups.get(process.pgid) or sessions.get(process.session)
        if key is not None:
            break
        pid = process.ppid
    else:
        key = found[pid]
    for each in asked:
        found[each] = key
