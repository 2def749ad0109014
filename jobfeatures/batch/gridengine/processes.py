"""Finds the processes of Grid Engine's jobs on this node, by the spool directory of the execution daemon.

Grid Engine creates no control groups. It gives each job its own supplementary group, which users can neither
drop nor acquire, and starts it from an sge_shepherd. The ids of both are in ``active_jobs/<job>.<task>``, in
the files `addgrpid` and `pid`, which the daemon's administrator owns.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from jobfeatures.batch.gridengine import GridEngineSettings
from jobfeatures.batch.gridengine.basics import NAME, parse_job_id
from jobfeatures.batch.gridengine.spool import (
    ACTIVE,
    EXECD_COMMAND,
    list_active,
    list_folders,
    read_config,
    read_number,
)
from jobfeatures.batch.processes import ActiveJob, Failures, Process, read_real_uid
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import ParseError
from jobfeatures.records.model import JobKey

FIND_GAP_SAMPLES = 8  # samples between two searches for the daemon, until it is found


@dataclass(slots=True)
class _Known:
    state: tuple[int, int] | None = None
    complete: bool = False
    key: JobKey | None = None
    job: ActiveJob = field(default_factory=ActiveJob)


class GridEngineJobs:
    """Finds the processes of the jobs in an execution daemon's spool directory, once per sample.

    The spool directory on this node, such as ``/var/spool/gridengine/execd/HOST``, is the working directory
    of the running sge_execd unless a setting names it.
    """

    def __init__(self, config: SystemSettings[GridEngineSettings], failures: Failures) -> None:
        self._procfs = config.procfs
        self._stated = config.own.spool_directory
        self._spool = self._stated
        self._failures = failures
        self._known: dict[str, _Known] = {}
        self._jobs: Mapping[JobKey, ActiveJob] = {}
        self._sample = 0

    @property
    def is_here(self) -> bool:
        """Return whether a spool directory is known."""
        return self._spool is not None

    def update(self, processes: Mapping[int, Process]) -> Mapping[JobKey, ActiveJob]:
        """Return how to recognise each active job's processes; `processes` are all of the node's, by pid.

        If the spool directory cannot be read, the previous result is returned.
        """
        if self._spool is None:
            if self._sample % FIND_GAP_SAMPLES == 0:
                self._spool = self._find(processes)
            self._sample += 1
        if self._spool is None:
            return {}
        try:
            names, owners = list_active(self._spool)
        except OSError as error:
            self._failures.add("gridengine_spool", error)
            if isinstance(error, (FileNotFoundError, NotADirectoryError)):
                self._known.clear()
                self._jobs = {}
                self._spool = self._stated  # the daemon may come back with another directory
            return self._jobs
        for gone in self._known.keys() - names:
            del self._known[gone]
        for name in names:
            self._refresh(name, owners)
        jobs: dict[JobKey, ActiveJob] = {}
        for known in self._known.values():
            if known.key is not None:
                other = jobs.get(known.key, ActiveJob())
                jobs[known.key] = ActiveJob(
                    other.gids | known.job.gids, other.supervisors | known.job.supervisors
                )
        self._jobs = jobs
        return jobs

    def _find(self, processes: Mapping[int, Process]) -> str | None:
        """Return the execution daemon's working directory; only a process of root counts."""
        for process in processes.values():
            if process.command != EXECD_COMMAND:
                continue
            try:
                if read_real_uid(self._procfs, process.pid) == 0:
                    return os.readlink(f"{self._procfs}/{process.pid}/cwd")
            except (OSError, ParseError) as error:
                self._failures.add("gridengine_execd", error)
        return None

    def _refresh(self, name: str, owners: Collection[int]) -> None:
        """Read a job's directory if it is new, has changed, or was incomplete."""
        path = f"{self._spool}/{ACTIVE}/{name}"
        known = self._known.setdefault(name, _Known())
        try:
            found = os.lstat(path)
            state = (found.st_ino, found.st_mtime_ns)
            if state == known.state and known.complete:
                return
            numbers = [
                (read_number(f"{folder}/addgrpid", owners), read_number(f"{folder}/pid", owners))
                for folder in list_folders(path)
            ]
            config = read_config(path, owners)
        except (OSError, ParseError) as error:
            self._failures.add("gridengine_job", error)
            return
        reported = [pair for pair in numbers if pair != (None, None)]
        if not config or not any(pid is not None for _, pid in reported):
            return  # the shepherd writes its pid after all the rest
        job_id = parse_job_id(name, config)
        known.key = None if job_id is None else JobKey(NAME, job_id)
        known.job = ActiveJob(
            frozenset(gid for gid, _ in numbers if gid is not None),
            frozenset(pid for _, pid in numbers if pid is not None),
        )
        known.state = state
        known.complete = all(None not in pair for pair in reported)
