"""The jobs of Grid Engine on this node, from the spool directory of its execution daemon.

Grid Engine makes no control groups. It gives each job a supplementary group of
its own, which a user can neither take off nor put on, and starts it from an
sge_shepherd. Both are in ``active_jobs/<job>.<task>``, in files of the daemon's
administrator: `addgrpid` and `pid`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from exporter.sampling.descriptors import VANISHED, Unreadable, read_file
from exporter.sampling.status import parse_process_status
from exporter.snapshot import ProcessSample
from jobfeatures.errors import ParseError
from jobfeatures.model import JobKey

BATCH_SYSTEM = "gridengine"
EXECD_COMMAND = "sge_execd"
ACTIVE = "active_jobs"
FIND_GAP_LOOKS = 8  # between two looks for the daemon, while it is not known
MAX_TASKS = 4096  # of parallel jobs, in one job's directory
_DIRECTORY = re.compile(r"([1-9][0-9]{0,9})\.([1-9][0-9]{0,9})", re.ASCII)
_NUMBER = re.compile(rb"[ \t]*([1-9][0-9]{0,9})[ \t]*\n?")
_TASK = re.compile(r"^ja_task_id=([0-9]{1,10})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """What tells one job's processes: their supplementary groups, and the shepherds they descend from."""

    gids: frozenset[int] = frozenset()
    shepherds: frozenset[int] = frozenset()


def parse_number(data: bytes) -> int | None:
    """Return the number in `addgrpid` or `pid`, None while it is not written yet. Raises ParseError."""
    if not data.strip():
        return None
    match = _NUMBER.fullmatch(data)
    if match is None or int(match[1]) >= 2**32:
        raise ParseError("not a number", source=ACTIVE, text=data.decode("utf-8", "replace"))
    return int(match[1])


def parse_job_id(name: str, config: str) -> str | None:
    """Return the id of the job with a directory ``<job>.<task>``: ``JOB.TASK`` of an array, else ``JOB``.

    All tasks of an array have one number and may run side by side on a node,
    so that the task belongs to their identity; of any other job `qstat` and
    JOB_ID tell the number alone. `config` says which: `ja_task_id` is 0 where
    there is no array. It holds what users wrote too, hence it is believed no
    number but these. None where the name is no job's.
    """
    directory = _DIRECTORY.fullmatch(name)
    if directory is None:
        return None
    task = _TASK.search(config)
    return directory[1] if task is not None and int(task[1]) == 0 else name


class _Known:
    """One job's directory: what was read when it looked like this."""

    __slots__ = ("complete", "job", "key", "state")

    def __init__(self) -> None:
        self.state: tuple[int, int] | None = None
        self.complete = False
        self.key: JobKey | None = None
        self.job = ActiveJob()


class GridEngineJobs:
    """Keeps the jobs of an execution daemon.

    `spool` is its directory on this node, such as ``/var/spool/gridengine/execd/HOST``;
    where it is None, it is the working directory of the running sge_execd.
    """

    def __init__(self, procfs: str, spool: str | None, unreadable: Unreadable) -> None:
        self._procfs = procfs
        self._spool = spool
        self._unreadable = unreadable
        self._is_stated = spool is not None
        self._known: dict[str, _Known] = {}
        self._jobs: Mapping[JobKey, ActiveJob] = {}
        self._look = 0

    @property
    def is_here(self) -> bool:
        """Tell whether a spool directory is known."""
        return self._spool is not None

    def update(self, processes: Mapping[int, ProcessSample]) -> Mapping[JobKey, ActiveJob]:
        """Return the jobs that are active now; the last ones where it cannot be listed."""
        if self._spool is None:
            if self._look % FIND_GAP_LOOKS == 0:
                self._spool = self._find(processes)
            self._look += 1
        if self._spool is None:
            return {}
        try:
            top = os.stat(f"{self._spool}/{ACTIVE}")
            if top.st_mode & stat.S_IWOTH:
                raise PermissionError(errno.EPERM, "others may write here", self._spool)
            names = set(filter(_DIRECTORY.fullmatch, os.listdir(f"{self._spool}/{ACTIVE}")))
        except OSError as error:
            self._unreadable.add("gridengine_spool", error)
            if error.errno in VANISHED:
                self._known.clear()
                self._jobs = {}
                if not self._is_stated:  # the daemon may come back with another directory
                    self._spool = None
            return self._jobs
        for gone in self._known.keys() - names:
            del self._known[gone]
        for name in names:
            self._refresh(name, {0, top.st_uid})
        jobs: dict[JobKey, ActiveJob] = {}
        for known in self._known.values():
            if known.key is not None:
                other = jobs.get(known.key, ActiveJob())
                jobs[known.key] = ActiveJob(
                    other.gids | known.job.gids, other.shepherds | known.job.shepherds
                )
        self._jobs = jobs
        return jobs

    def _find(self, processes: Mapping[int, ProcessSample]) -> str | None:
        """Return where the execution daemon runs; a process of that name that is not root's is not it."""
        for process in processes.values():
            if process.command != EXECD_COMMAND:
                continue
            try:
                status = read_file(f"{self._procfs}/{process.pid}/status").decode("utf-8", "replace")
                if parse_process_status(status).real_uid == 0:
                    return os.readlink(f"{self._procfs}/{process.pid}/cwd")
            except (OSError, ParseError) as error:
                self._unreadable.add("gridengine_execd", error)
        return None

    def _refresh(self, name: str, owners: Collection[int]) -> None:
        """Read a job's directory if it is new, has changed, or was not complete."""
        path = f"{self._spool}/{ACTIVE}/{name}"
        known = self._known.setdefault(name, _Known())
        try:
            found = os.lstat(path)
            state = (found.st_ino, found.st_mtime_ns)
            if state == known.state and known.complete:
                return
            numbers = list(self._numbers(path, owners))
            config = _read_owned(f"{path}/config", owners).decode("utf-8", "replace")
        except (OSError, ParseError) as error:
            self._unreadable.add("gridengine_job", error)
            return
        told = [pair for pair in numbers if pair != (None, None)]
        if not config or not any(pid is not None for _, pid in told):
            return  # the shepherd notes its own pid when all the rest is written
        job_id = parse_job_id(name, config)
        known.key = None if job_id is None else JobKey(BATCH_SYSTEM, job_id)
        known.job = ActiveJob(
            frozenset(gid for gid, _ in numbers if gid is not None),
            frozenset(pid for _, pid in numbers if pid is not None),
        )
        known.state = state
        known.complete = all(None not in pair for pair in told)

    def _numbers(self, path: str, owners: Collection[int]) -> Iterator[tuple[int | None, int | None]]:
        """Yield group and shepherd of a job, then those of its tasks here that `qrsh -inherit` started."""
        yield self._number(f"{path}/addgrpid", owners), self._number(f"{path}/pid", owners)
        with os.scandir(path) as entries:
            tasks = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in sorted(tasks)[:MAX_TASKS]:
            yield (
                self._number(f"{path}/{name}/addgrpid", owners),
                self._number(f"{path}/{name}/pid", owners),
            )

    @staticmethod
    def _number(path: str, owners: Collection[int]) -> int | None:
        try:
            return parse_number(_read_owned(path, owners))
        except FileNotFoundError:  # a moment later it will be there
            return None


def _read_owned(path: str, owners: Collection[int]) -> bytes:
    """Return a plain file that only its owner, one of these, may write. Raises OSError."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in owners or found.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "not the daemon's own file", path)
    return read_file(path)
