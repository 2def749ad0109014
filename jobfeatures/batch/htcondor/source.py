"""The source that reads this node's jobs from the scratch directories of their starters, without queries.

Only the node's drain state is queried, rarely, from its own startd.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace

from jobfeatures.batch.htcondor import COMMAND, VARIABLES, HTCondorSettings
from jobfeatures.batch.htcondor.evaluate import find_evaluator
from jobfeatures.batch.htcondor.fields import NAME, AdReadingOptions, Fields, is_plain_id
from jobfeatures.batch.htcondor.jobad import (
    PARALLEL_UNIVERSE,
    VacateTime,
    job_from_ads,
    parse_site_limits,
    vacate_time,
    with_slot_of,
)
from jobfeatures.batch.htcondor.machine import NOTICE_ATTRIBUTES, STATUS_SOURCE, parse_notice
from jobfeatures.batch.htcondor.scratch import (
    find_execute,
    find_job_uid,
    find_owner,
    is_starter,
    list_scratch,
    read_ads,
)
from jobfeatures.batch.programs import Programs
from jobfeatures.batch.questions import NodeQuestion
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import NewProblems, ParseError, Rejected, SourceError, failing_source
from jobfeatures.features import keys
from jobfeatures.formats.classad.ad import Special
from jobfeatures.records.model import Job, JobKey, JobTable, NodeNotice
from jobfeatures.system.clock import Clock

LOOK_SECS = 5.0  # between two looks at all processes of the node
YOUNG_SECS = 30.0  # the ads of a directory younger than this are still being written
NOTICE_SECS = 30.0  # least time between two questions to the startd, which is this node's own
ENDED_SECS = 300.0  # for which an end is reported though nobody asks: what was published is removed by then
MAX_NOTICE_BYTES = 4 * 2**20

Identity = tuple[int, int, int]  # of a scratch directory: starter, device, inode


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job on this node, made from its ads. They are read only once, as its user may change them later.

    `is_proven`: no user could have written the ads. `vacate` is how long the job has to end once it is told
    to. `is_parallel`: it may have several slots here. `is_staging`: the starter has not given the scratch
    directory to the job's user yet, so nothing of the job runs.
    """

    job: Job
    is_proven: bool
    vacate: VacateTime
    is_parallel: bool
    is_staging: bool = False


class CondorSource:
    """Source of this node's jobs: those with a scratch directory below a folder EXECUTE.

    The folders are the configured one, and those of running starters. A job is present from when its scratch
    directory belongs to its user until the directory or its starter is gone. A table is complete if the
    scratch directory of every running starter could be read. A known job whose directory has gone is reported
    as gone in any case. Whether it completed, was removed or is held, only its schedd knows.
    """

    name = NAME
    is_local = True

    def __init__(self, config: SystemSettings[HTCondorSettings], clock: Clock, node_name: str) -> None:
        timeout_secs = config.common.timeout_secs
        self._programs = Programs(
            COMMAND, config.own.condor_status, timeout_secs, kept=VARIABLES, max_bytes=MAX_NOTICE_BYTES
        )
        self._clock = clock
        self._node_name = node_name
        self._execute = config.own.execute_directory
        self._folders = [self._execute]  # and others in which starters have been found
        self._next_check_secs = -math.inf  # for such (monotonic)
        self._hidden: list[Rejected] = []  # starters whose folder cannot be found
        self._watching = ExitStack()
        self._procfs = config.procfs
        self._site_limits = parse_site_limits(config.own.wall_limit_attributes)
        rated = {
            keys.HS06.name: config.own.hs06_attribute,
            keys.HS23.name: config.own.hs23_attribute,
        }
        self._ratings = {name: key for key, name in rated.items() if name is not None}
        self._node = NodeQuestion(STATUS_SOURCE, min(NOTICE_SECS, config.common.refresh_secs))
        self._ends: dict[Identity, int] = {}  # when jobs have to have left (epoch), as the startd said last
        self._known: dict[Identity, FoundJob] = {}
        self._ended: dict[JobKey, float] = {}  # when the end was noticed (epoch)
        self._news = NewProblems()
        self._request_poll: Callable[[], None] | None = None  # where it is watched

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs running here, by their scratch directories.

        `seen` are jobs with processes here, `claimed` those with a published directory or an empty control
        group. Of these, only slots whose job is not known yet are added, as jobs in state UNKNOWN. Raises
        SourceError if EXECUTE cannot be listed, or if everyone may write to it.
        """
        taken_at_secs = self._clock.now_secs()
        problems: list[Rejected] = []
        complete = self._read_scratch(taken_at_secs, problems)
        self._node.ask(self._read_notice, self._clock.monotonic_secs(), self._run_aside)
        first: dict[JobKey, FoundJob] = {}
        running: dict[JobKey, Job] = {}
        shown = (each for each in self._known.items() if not each[1].is_staging)
        for identity, known in sorted(shown, key=lambda each: not each[1].is_proven):
            key = known.job.key
            job = replace(known.job, deadline_secs=self._ends.get(identity))
            one = first.setdefault(key, known)
            if one is known:
                running[key] = job
            elif one.is_parallel and known.is_parallel and one.job.uid == known.job.uid:
                running[key] = with_slot_of(running[key], job)
            else:
                problems.append(Rejected(self._execute, "another slot has this job", text=key.job_id))
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
        complaints = self._news.among([self._node.problem] if self._node.problem else [])
        return JobTable(
            source=NAME,
            jobs=running | stand_ins,
            taken_at_secs=taken_at_secs,
            complete=complete,
            rejected=(*problems, *complaints),
            node=self._node.notice,
            gone=None if complete else dict(self._ended),
        )

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Call `notify` when a scratch directory is created or removed, until the context exits."""
        self._request_poll = notify
        self._watch(self._execute)
        return self._watching

    def _watch(self, execute: str) -> None:
        from jobfeatures.system.watch import watch_directory  # only the daemon watches

        if self._request_poll is not None:
            self._watching.enter_context(watch_directory(execute, self._request_poll, directories=True))

    def _read_scratch(self, now_secs: float, problems: list[Rejected]) -> bool:
        """Update `_known` and `_ended`; return whether every scratch directory could be read."""
        found: dict[Identity, FoundJob] = {}
        self._find_folders()
        problems += self._hidden
        complete = not self._hidden
        for execute in self._folders:
            try:
                complete = self._read_folder(execute, now_secs, found, problems) and complete
            except OSError as error:
                if isinstance(error, FileNotFoundError) and len(self._folders) > 1:
                    continue
                if execute == self._execute:
                    raise SourceError(f"{execute}: cannot be read: {error.strerror}") from error
                complete = False
                problems.append(Rejected.from_error(error, execute))
        here = {known.job.key for known in found.values()}
        gone = (known.job.key for identity, known in self._known.items() if identity not in found)
        self._ended.update((key, now_secs) for key in gone if key not in here)
        self._known = found
        return complete

    def _find_folders(self) -> None:
        """Find each EXECUTE in which a starter works: slots may have their own, and a second startd."""
        if self._clock.monotonic_secs() < self._next_check_secs:
            return
        self._next_check_secs = self._clock.monotonic_secs() + LOOK_SECS
        self._hidden = []
        trusted = {0}
        with suppress(OSError):
            trusted.add(find_owner(self._execute))
        for pid in (int(name) for name in os.listdir(self._procfs) if name.isdecimal()):
            try:
                execute = find_execute(self._procfs, pid, trusted) if is_starter(self._procfs, pid) else None
            except (FileNotFoundError, ProcessLookupError, ParseError):
                continue  # it has ended
            except OSError as error:
                if not any(os.path.lexists(f"{folder}/dir_{pid}") for folder in self._folders):
                    reason = f"where this condor_starter's job is cannot be read: {error.strerror}"
                    self._hidden.append(Rejected(f"{self._procfs}/{pid}/cwd", reason))
                continue
            if execute is not None and execute not in self._folders:
                self._folders.append(execute)
                self._watch(execute)

    def _read_folder(
        self, execute: str, now_secs: float, found: dict[Identity, FoundJob], problems: list[Rejected]
    ) -> bool:
        """Add the jobs below one EXECUTE; return whether each could be read. Raises OSError."""
        trusted = {0, find_owner(execute)}
        complete = True
        for pid, name in sorted(list_scratch(execute).items()):
            path = f"{execute}/{name}"
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
                        self._check_again(now_secs - began_secs)
            except FileNotFoundError:
                if os.path.lexists(path):  # the ads are not written yet, or were removed
                    complete = False
                    self._check_again(now_secs - began_secs)
            except (OSError, ParseError) as error:
                complete = False
                problems.append(Rejected.from_error(error, path))
            else:
                found[identity] = known
        return complete

    def _run_aside(self, query: Callable[[], None]) -> None:
        """Run a query, in a thread if the source is watched: starting jobs do not wait for the startd."""

        def ask() -> None:
            query()
            self._check_again(0.0)

        threading.Thread(target=ask, daemon=True).start() if self._request_poll else query()

    def _check_again(self, age_secs: float) -> None:
        if age_secs < YOUNG_SECS and self._request_poll is not None:
            self._request_poll()

    def _read_job(self, path: str, pid: int, trusted: Collection[int], problems: list[Rejected]) -> FoundJob:
        ads = read_ads(path, trusted)
        options = AdReadingOptions(problems.append, find_evaluator(), self._site_limits)
        job = job_from_ads(ads.job, ads.machine, options, node_name=self._node_name)
        job = replace(job, processes=frozenset({pid}), starters=frozenset({pid}))
        silent = AdReadingOptions(evaluate=options.evaluate)
        vacate = vacate_time(Fields(ads.job, options=silent), Fields(ads.machine, options=silent))
        problems += (
            Rejected(path, "an attribute is too long", field=getattr(name, "written", name))
            for name, value in ads.job.values.items()
            if value is Special.TOO_LONG
        )
        return FoundJob(job, ads.is_proven, vacate, ads.job.integer("JobUniverse") == PARALLEL_UNIVERSE)

    def _read_notice(self) -> NodeNotice | None:
        """Return whether the node drains; the last answer if the startd reports no slot. Raises SourceError.

        When jobs must have ended is kept only for jobs here at the query, not for later runs of them.
        """
        attributes = ",".join((*NOTICE_ATTRIBUTES, *self._ratings))
        here = self._known
        with failing_source("cannot read the node's drain state", SourceError, ParseError):
            text = self._programs.ask(
                "condor_status", "-direct", self._node_name, "-json", "-attributes", attributes
            )
            vacate = {known.job.key.job_id: known.vacate for known in here.values()}
            found = parse_notice(text, self._ratings, vacate)
        if found is None:
            return self._node.notice
        ends = ((identity, found.ends.get(known.job.key.job_id)) for identity, known in here.items())
        self._ends = {identity: at_secs for identity, at_secs in ends if at_secs is not None}
        return found.node
