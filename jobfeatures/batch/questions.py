"""For sources that ask job by job: which jobs a controller is worth asking about, and what it said. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobfeatures.batch.basics import is_elsewhere
from jobfeatures.errors import ParseError, Rejected, SourceError
from jobfeatures.model import Job, JobKey, JobState, JobTable, NodeNotice

MAX_QUESTIONS = 500  # of one poll: they have to fit into a pipe, or onto a command line


@dataclass(frozen=True, slots=True)
class KnownJob:
    """An answer that is kept. `job` is None once the controller has forgotten it, or runs it elsewhere.

    `reported_secs` (epoch) is the time before the question whose answer this is,
    which may be older than the last question, if that had no usable answer.
    """

    job: Job | None
    asked_secs: float  # monotonic
    reported_secs: float = 0.0


def compute_questions(
    known: Mapping[str, KnownJob],
    seen: Collection[str],
    claimed: Collection[str],
    now_secs: float,
    refresh_secs: float,
) -> tuple[str, ...]:
    """Return the ids worth asking about: never asked ones first, then the oldest answers.

    Asked at every poll: jobs that are known or claimed and not seen, until the
    controller has forgotten them, and jobs that are seen although their state says that
    they are not here (they end, or they were requeued and started again).
    """

    def is_due(job_id: str) -> bool:
        answer = known.get(job_id)
        if answer is None:
            return True
        job = answer.job
        if job is not None and (job_id not in seen or job.state.is_finished or job.state is JobState.PENDING):
            return True
        return now_secs - answer.asked_secs >= refresh_secs

    def order(job_id: str) -> tuple[bool, float, int, str]:  # by length first: ids are numbers, or begin so
        answer = known.get(job_id)
        return answer is not None, answer.asked_secs if answer else 0.0, len(job_id), job_id

    return tuple(sorted(filter(is_due, {*known, *seen, *claimed}), key=order))


class AskedJobs:
    """The jobs that a node asks about one by one, and the last answer about each."""

    def __init__(self, batch_system: str, is_plain: Callable[[str], bool], *, refresh_secs: float) -> None:
        """`is_plain` tells ids that can be asked about; `refresh_secs` separates questions about one job."""
        self._batch_system = batch_system
        self._is_plain = is_plain
        self.refresh_secs = refresh_secs
        self._known: dict[str, KnownJob] = {}
        self.seen: set[str] = set()

    def begin(
        self,
        seen: Collection[JobKey],
        claimed: Collection[JobKey],
        *,
        now_secs: float,
        taken_at_secs: float,
        here: Collection[str] = (),
    ) -> tuple[str, ...]:
        """Return the ids to ask about in a poll that begins now (monotonic, epoch); `here` are seen too."""
        self._times = now_secs, taken_at_secs
        self._ours = {key for key in (*seen, *claimed) if key.batch_system == self._batch_system}
        self._plain = {key.job_id for key in self._ours if self._is_plain(key.job_id)}.union(here)
        seen_before = self.seen
        self.seen = ({key.job_id for key in self._ours.intersection(seen)} & self._plain).union(here)
        for job_id in self.seen - seen_before:
            if job_id in self._known and self._known[job_id].job is None:
                del self._known[job_id]  # it is here again: another run, or another job
        due = compute_questions(self._known, self.seen, self._plain, now_secs, self.refresh_secs)
        self._all_asked = len(due) <= MAX_QUESTIONS
        return due[:MAX_QUESTIONS]

    def keep(
        self, jobs: Iterable[Job], gone: Iterable[str], unclear: Iterable[str], known_as: str | None
    ) -> None:
        """Keep what was answered. `unclear` jobs exist, or nobody knows: their absence is not concluded.

        The batch system has said that it has a node named `known_as`: a job that runs on others is not here.
        """
        for job in jobs:
            told = None if is_elsewhere(job, known_as) else job
            self._known[job.key.job_id] = KnownJob(told, *self._times)
        self._known.update((job_id, KnownJob(None, *self._times)) for job_id in gone)
        for job_id in unclear:
            old = self._known.get(job_id)
            if old is None or old.job is None:
                old = KnownJob(Job(key=JobKey(self._batch_system, job_id)), *self._times)
            self._known[job_id] = replace(old, asked_secs=self._times[0])

    def table(self, *, complete: bool, **more: Any) -> JobTable:
        """Return the jobs as they are known after this poll; ended ones that nobody wants are let go."""
        told = [(each.job, each.reported_secs) for each in self._known.values() if each.job is not None]
        jobs = {job.key: job for job, _ in told}
        # Keys that are no plain ids cannot be asked about: nothing may be concluded about them.
        jobs |= {key: Job(key=key) for key in self._ours if key.job_id not in self._plain}
        gone = {
            JobKey(self._batch_system, job_id): each.reported_secs
            for job_id, each in self._known.items()
            if each.job is None
        }
        for job_id in self._known.keys() - self._plain:
            job = self._known[job_id].job
            if job is None or job.state.is_finished:
                del self._known[job_id]
        return JobTable(
            source=self._batch_system,
            jobs=jobs,
            taken_at_secs=self._times[1],
            complete=complete and self._all_asked,
            reported_secs={job.key: reported_secs for job, reported_secs in told},
            gone=gone,
            **more,
        )


class NodeQuestion:
    """What a batch system announces of this node. Without an answer the last one stays."""

    def __init__(self, source: str, refresh_secs: float | None) -> None:
        """`refresh_secs` separates two questions; None: there are none."""
        self.notice: NodeNotice | None = None
        self.problem: Rejected | None = None  # why the latest question had no answer
        self._source = source
        self._refresh_secs = refresh_secs
        self._due_secs = 0.0  # monotonic

    def ask(self, read: Callable[[], NodeNotice | None], now_secs: float) -> tuple[Rejected, ...]:
        """Ask where it is time to; return what went wrong now. `read` raises SourceError or ParseError."""
        if self._refresh_secs is None or now_secs < self._due_secs:
            return ()
        self._due_secs = now_secs + self._refresh_secs
        self.problem = None
        try:
            self.notice = read()
        except (SourceError, ParseError) as error:
            self.problem = Rejected(self._source, str(error))
            return (self.problem,)
        return ()
