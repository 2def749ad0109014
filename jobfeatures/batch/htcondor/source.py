"""The source that reads this node's jobs from the scratch directories of their starters, without queries.

Only the node's drain state is queried, rarely, from its own startd.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from jobfeatures.batch.basics import procfs_of
from jobfeatures.batch.htcondor import SYSTEM
from jobfeatures.batch.htcondor.evaluate import find_evaluator
from jobfeatures.batch.htcondor.fields import NAME, is_plain_id
from jobfeatures.batch.htcondor.jobad import job_from_ads, parse_site_limits
from jobfeatures.batch.htcondor.machine import NOTICE_ATTRIBUTES, STATUS_SOURCE, parse_notice
from jobfeatures.batch.htcondor.scratch import find_job_uid, find_owner, is_starter, list_scratch, read_ads
from jobfeatures.batch.programs import Programs
from jobfeatures.batch.questions import NodeQuestion
from jobfeatures.config import Config
from jobfeatures.errors import News, ParseError, Rejected, SourceError, failing_source
from jobfeatures.features import keys
from jobfeatures.records.model import Job, JobKey, JobTable, NodeNotice
from jobfeatures.system.clock import Clock

YOUNG_SECS = 30.0  # the ads of a directory younger than this are still being written
ENDED_SECS = 300.0  # for which an end is reported though nobody asks: what was published is removed by then
MAX_NOTICE_BYTES = 4 * 2**20

Identity = tuple[int, int, int]  # of a scratch directory: starter, device, inode


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job from its ads, which are read only once, because its user may change them later.

    `is_staging`: the starter has not given the directory to the job's user yet, so nothing of the job runs.
    """

    job: Job
    is_proven: bool
    is_staging: bool = False


class CondorSource:
    """The jobs below EXECUTE.

    A job exists while its scratch directory, once its user's, and its starter do. A table is
    complete if the scratch directory of every running starter could be read.
    A known job whose directory has gone is reported as gone in any case; whether it completed, was
    removed or is held its schedd knows alone.
    """

    name = NAME
    is_local = True

    def __init__(self, config: Config, clock: Clock, node_name: str) -> None:
        timeout_secs = config.batch_timeout_secs
        self._programs = Programs(SYSTEM, config, timeout_secs, max_bytes=MAX_NOTICE_BYTES)
        self._clock = clock
        self._node_name = node_name
        self._execute = config.htcondor_execute_directory
        self._procfs = procfs_of(config)
        self._site_limits = parse_site_limits(config.htcondor_wall_limit_attributes)
        rated = {
            keys.HS06.name: config.htcondor_hs06_attribute,
            keys.HS23.name: config.htcondor_hs23_attribute,
        }
        self._ratings = {name: key for key, name in rated.items() if name is not None}
        self._node = NodeQuestion(STATUS_SOURCE, config.batch_refresh_secs)
        self._known: dict[Identity, FoundJob] = {}
        self._ended: dict[JobKey, float] = {}  # when the end was noticed (epoch)
        self._news = News()
        self._request_poll: Callable[[], None] | None = None  # where it is watched

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs running here. Raises SourceError if EXECUTE cannot be listed or trusted."""
        taken_at_secs = self._clock.now_secs()
        problems: list[Rejected] = []
        complete = self._read_scratch(taken_at_secs, problems)
        running: dict[JobKey, Job] = {}
        shown = (each for each in self._known.values() if not each.is_staging)
        for known in sorted(shown, key=lambda each: not each.is_proven):
            key = known.job.key
            if key in running:
                problems.append(Rejected(self._execute, "another slot has this job", text=key.job_id))
            else:
                running[key] = known.job
        wanted = {*seen, *claimed}
        self._ended = {
            key: at_secs
            for key, at_secs in self._ended.items()
            if key not in running and (key in wanted or taken_at_secs - at_secs < ENDED_SECS)
        }
        # A slot's name stands for a job that is not known yet, and must not seem gone.
        stand_ins = {
            key: Job(key=key) for key in wanted if key.batch_system == NAME and not is_plain_id(key.job_id)
        }
        self._node.ask(self._read_notice, self._clock.monotonic_secs(), self._run_aside)
        problems += filter(None, [self._node.problem])
        return JobTable(
            source=NAME,
            jobs=running | stand_ins,
            taken_at_secs=taken_at_secs,
            complete=complete,
            rejected=self._news.among(problems),
            node=self._node.notice,
            gone=None if complete else dict(self._ended),
        )

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Notify when a scratch directory is created or removed."""
        from jobfeatures.system.watch import watch_directory  # only the daemon watches

        self._request_poll = notify
        return watch_directory(self._execute, notify, directories=True)

    def _read_scratch(self, now_secs: float, problems: list[Rejected]) -> bool:
        """Update `_known` and `_ended`; return whether every scratch directory could be read."""
        with failing_source(self._execute, OSError):
            trusted = {0, find_owner(self._execute)}
            names = list_scratch(self._execute)
        complete = True
        found: dict[Identity, FoundJob] = {}
        for pid, name in sorted(names.items()):
            path = f"{self._execute}/{name}"
            began_secs = now_secs
            try:
                status = os.lstat(path)
                began_secs = status.st_ctime
                if not is_starter(self._procfs, pid):
                    continue  # it has ended; HTCondor removes what it left
                identity = (pid, status.st_dev, status.st_ino)
                known = self._known.get(identity) or self._read_job(path, pid, trusted, problems)
                if known.job.uid is None:
                    uid = find_job_uid(path, self._procfs, pid, trusted)
                    staging = uid is None and abs(now_secs - began_secs) < YOUNG_SECS
                    known = replace(known, job=replace(known.job, uid=uid), is_staging=staging)
                    if staging:
                        complete = False
                        self._look_again(now_secs - began_secs)
            except FileNotFoundError:
                if os.path.lexists(path):  # the ads are not written yet, or were removed
                    complete = False
                    self._look_again(now_secs - began_secs)
            except (OSError, ParseError) as error:
                complete = False
                problems.append(Rejected.from_error(error, path))
            else:
                found[identity] = known
        here = {known.job.key for known in found.values()}
        gone = (known.job.key for identity, known in self._known.items() if identity not in found)
        self._ended.update((key, now_secs) for key in gone if key not in here)
        self._known = found
        return complete

    def _run_aside(self, query: Callable[[], None]) -> None:
        """Run a query, in a thread where somebody watches: jobs that begin do not wait for the startd."""

        def ask() -> None:
            query()
            self._look_again(0.0)

        threading.Thread(target=ask, daemon=True).start() if self._request_poll else query()

    def _look_again(self, age_secs: float) -> None:
        if age_secs < YOUNG_SECS and self._request_poll is not None:
            self._request_poll()

    def _read_job(self, path: str, pid: int, trusted: Collection[int], problems: list[Rejected]) -> FoundJob:
        ads = read_ads(path, trusted)
        job = job_from_ads(
            ads.job,
            ads.machine,
            node_name=self._node_name,
            site_limits=self._site_limits,
            note=problems.append,
            evaluate=find_evaluator(),
        )
        return FoundJob(replace(job, processes=frozenset({pid})), ads.is_proven)

    def _read_notice(self) -> NodeNotice | None:
        """Return the startd's notice, the last one if it reports no slot. Raises SourceError."""
        attributes = ",".join((*NOTICE_ATTRIBUTES, *self._ratings))
        with failing_source("cannot read the node's drain state", SourceError, ParseError):
            text = self._programs.ask(
                "condor_status", "-direct", self._node_name, "-json", "-attributes", attributes
            )
            return parse_notice(text, self._ratings) or self._node.notice


make_source = CondorSource
