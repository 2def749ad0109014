"""The source that reads a node's spool directory, and queries the master for wall limits and queues."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from jobfeatures.batch.basics import Note
from jobfeatures.batch.gridengine import GridEngineSettings
from jobfeatures.batch.gridengine.answers import (
    JOB_SOURCE,
    QUEUE_SOURCE,
    QueueInstance,
    RequestedLimits,
    notice_of,
)
from jobfeatures.batch.gridengine.asking import ask_about_jobs, ask_about_queues, with_wall_limit
from jobfeatures.batch.gridengine.basics import NAME, number_of
from jobfeatures.batch.gridengine.prolog import read_job
from jobfeatures.batch.gridengine.spool import (
    ACTIVE,
    find_spool,
    is_shepherd,
    list_active,
    list_folders,
    read_number,
)
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.source import PolledSource
from jobfeatures.errors import ParseError, Rejected, SourceError
from jobfeatures.records.model import Job, JobKey, JobTable, NodeNotice
from jobfeatures.system.clock import Clock

MAX_ASKED = 500  # jobs per query
RETRY_SECS = 30.0  # after a failed query
T = TypeVar("T")
NEVER = 0, 0, 0  # matches no directory's state
ASK_GAP_SECS = 10.0  # minimum between two queries about jobs, however often jobs start


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read from a job's directory, and the directory's state at that time.

    `shepherds` are the pids that run the job. Their end is the job's end only
    if this node `is_master`, the host of its first task.
    """

    state: tuple[int, int, int]
    job: Job
    shepherds: tuple[int, ...]
    is_master: bool


class GridEngineSource(PolledSource):
    """Source of this node's jobs: reads ``active_jobs``, and queries ``qstat`` about this node only.

    A job is present while its directory exists and one of its shepherds lives: execd may keep directories of
    ended jobs (KEEP_ACTIVE in sge_conf(5)). A directory may be incomplete or unreadable, or hold only ended
    tasks of a parallel job. Jobs with such a directory that have processes here or are published stay in the
    table, unless the master knows no such job.
    """

    name = NAME
    is_local = True

    def __init__(self, config: SystemSettings[GridEngineSettings], clock: Clock, node_name: str) -> None:
        """Without ``gridengine.spool_directory``, that of the running sge_execd is read."""
        self._config = config
        self._clock = clock
        self._node_name = node_name
        self._procfs = config.procfs
        self._spool = config.own.spool_directory
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, RequestedLimits] = {}  # by number
        self._due_secs: dict[str, float] = {}  # next query about a number; monotonic
        self._queues: dict[str, QueueInstance] = {}
        self._jobs_due_secs = 0.0
        self._queues_due_secs = 0.0
        self._complaints: dict[str, str] = {}  # each query's last error, reported once

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs in the spool directory. Raises SourceError if it cannot be listed.

        It may leave open whether jobs of `seen` (with processes here) and `claimed` (with a published
        directory or an empty control group) are here: these are added.
        """
        taken_at_secs, now_secs = self._clock.now_secs(), self._clock.monotonic_secs()
        rejected: list[Rejected] = []
        jobs, unclear = self._read_jobs(rejected.append)
        for key in {*seen, *claimed}:
            if key.batch_system == NAME and (number_of(key.job_id) is None or key.job_id in unclear):
                jobs.setdefault(key, Job(key=key))
        numbers = {number for key in jobs if (number := number_of(key.job_id)) is not None}
        self._ask_about_jobs(numbers, now_secs, rejected.append)
        # Unclear jobs have ended if the master said that it knows no such job.
        unknown = {number for number, asked in self._asked.items() if not asked.known}
        for key in [key for key in jobs if key.job_id in unclear and number_of(key.job_id) in unknown]:
            del jobs[key]
        notice = self._ask_about_queues(now_secs, rejected.append)
        return JobTable(
            source=NAME,
            jobs={key: self._with_wall_limit(job) for key, job in jobs.items()},
            taken_at_secs=taken_at_secs,
            complete=True,
            rejected=tuple(rejected),
            node=notice,
        )

    def _read_jobs(self, note: Note) -> tuple[dict[JobKey, Job], set[str]]:
        """Return the jobs, and the ids that may or may not be jobs on this node."""
        spool = self._spool or find_spool(self._procfs)
        if spool is None:
            raise SourceError("no sge_execd is running: start it, or set gridengine.spool_directory")
        try:
            names, owners = list_active(spool)
        except OSError as error:
            self._spool = self._config.own.spool_directory
            raise SourceError(f"{spool}/{ACTIVE}: cannot be read: {error.strerror}") from error
        self._spool = spool
        for gone in self._known.keys() - names:
            del self._known[gone]
        jobs: dict[JobKey, Job] = {}
        unclear: set[str] = set()
        for name in sorted(names):
            known = self._refresh(f"{spool}/{ACTIVE}/{name}", name, owners, note)
            if known is None:  # whether it is an array task could not be read
                unclear |= {name, name.partition(".")[0]}
            elif any(is_shepherd(pid, self._procfs) for pid in known.shepherds):
                jobs[known.job.key] = known.job
            elif not known.is_master:  # its next task may be about to start
                unclear.add(known.job.key.job_id)
        return jobs, unclear

    def _refresh(self, path: str, name: str, owners: frozenset[int], note: Note) -> _Known | None:
        """Return a job's directory, reread if it changed; None if it cannot be read yet."""
        known = self._known.get(name)
        try:
            found = os.stat(path, follow_symlinks=False)
            state = found.st_ino, found.st_mtime_ns, found.st_ctime_ns
            if known is not None and known.state == state:
                return known
            # Hosts that run only tasks of a job have no shepherd for the job itself.
            master, *tasks = [read_number(f"{folder}/pid", owners) for folder in list_folders(path)]
            shepherds = tuple(pid for pid in (master, *tasks) if pid is not None)
            if not shepherds:  # a shepherd writes its pid after everything else
                return None
            job = read_job(path, name, owners, note)
        except (OSError, ParseError) as error:
            if not isinstance(error, FileNotFoundError):
                note(Rejected.from_error(error, path))
            return known
        if None in tasks:  # a task that starts does not change this directory's state
            state = NEVER
        self._known[name] = _Known(state, job, shepherds, master is not None)
        return self._known[name]

    def _ask_about_jobs(self, numbers: Iterable[str], now_secs: float, note: Note) -> None:
        """Query the limits of new jobs and of those due for a refresh; a failure keeps earlier answers."""
        wanted = set(numbers)
        self._asked = {number: asked for number, asked in self._asked.items() if number in wanted}
        self._due_secs = {number: secs for number, secs in self._due_secs.items() if number in wanted}
        due = [number for number in wanted if self._due_secs.get(number, now_secs) <= now_secs]
        due = sorted(due, key=int)[:MAX_ASKED]
        if not due or now_secs < self._jobs_due_secs:
            return
        self._jobs_due_secs = now_secs + ASK_GAP_SECS
        self._due_secs.update((number, now_secs + RETRY_SECS) for number in due)
        answers = self._answered(JOB_SOURCE, partial(ask_about_jobs, due), note)
        if answers is None:
            return
        jobs, bad = answers
        for number in due:
            asked = jobs.get(number)
            if asked is None and jobs and not bad:  # omitted from an answer that has known jobs
                asked = RequestedLimits(known=False)
            if asked is not None:
                self._asked[number] = asked
                if asked.known:
                    self._due_secs[number] = now_secs + self._config.common.refresh_secs

    def _ask_about_queues(self, now_secs: float, note: Note) -> NodeNotice | None:
        """Return the notice from this host's queues; after a failure, the previous one."""
        if now_secs < self._queues_due_secs:
            return notice_of(self._queues)
        self._queues_due_secs = now_secs + RETRY_SECS
        answers = self._answered(QUEUE_SOURCE, partial(ask_about_queues, self._node_name), note)
        if answers is not None:
            self._queues_due_secs = now_secs + self._config.common.refresh_secs
            queues, bad = answers
            # An unreadable queue may be the one that still accepts jobs.
            self._queues = {**self._queues, **queues} if bad else queues
        return notice_of(self._queues)

    def _answered(
        self, question: str, ask: Callable[..., tuple[T, list[Rejected]]], note: Note
    ) -> tuple[T, list[Rejected]] | None:
        """Return what `ask` returns; None if it fails. Bad records, and a failure once, go to `note`."""
        try:
            answers = ask(qstat=self._config.own.qstat, timeout_secs=self._config.common.timeout_secs)
        except (SourceError, ParseError) as error:
            if self._complaints.get(question) != str(error):
                note(Rejected(question, str(error)))
            self._complaints[question] = str(error)
            return None
        self._complaints.pop(question, None)
        for each in answers[1]:
            note(each)
        return answers

    def _with_wall_limit(self, job: Job) -> Job:
        queue = self._queues.get(job.partition or "")
        return with_wall_limit(job, self._asked.get(number_of(job.key.job_id) or ""), queue)
