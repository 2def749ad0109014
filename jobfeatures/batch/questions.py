"""Decides, for sources that query single jobs, which jobs to query when; keeps the last answers. Pure.

It also estimates the difference between the batch system's clock and the node's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobfeatures.batch.basics import is_elsewhere
from jobfeatures.errors import ParseError, Rejected, SourceError
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, NodeNotice

MAX_QUESTIONS = 500  # per poll: the ids have to fit into a pipe or on a command line
SOON_SECS = 3600.0  # jobs that reach their limit sooner are asked about again after a minute
MINUTE_SECS = 45.0  # so that each poll of a minute, which may come early, does so
MAX_DOUBT_SECS = 4.0  # a wider interval is too inaccurate to learn a clock's difference from


@dataclass(frozen=True, slots=True)
class KnownJob:
    """The last usable answer of the batch system about one job.

    `job` is None if the batch system does not know the job, or runs it on other nodes only. `reported_secs`
    is when the query that gave this answer began, in epoch seconds. Two times are on the monotonic clock:
    `asked_secs` is when the job was last queried, even if the answer was unusable. `full_secs` is when all
    details of the job were last read.
    """

    job: Job | None
    asked_secs: float  # monotonic
    reported_secs: float = 0.0
    full_secs: float = float("-inf")  # monotonic


def compute_questions(
    known: Mapping[str, KnownJob],
    seen: Collection[str],
    claimed: Collection[str],
    now_secs: float,
    refresh_secs: float,
    at_secs: float = float("-inf"),
    waited_for: Container[str] = (),
) -> tuple[str, ...]:
    """Return the ids of the jobs to query now: first those never queried, then those queried longest ago.

    `known` are the last answers; `seen` are the ids of jobs with processes here, `claimed` those of jobs with
    a published directory or an empty control group. `waited_for` are the ids of jobs with a program that
    waits for their end. A job is queried again after `refresh_secs`; after a minute if it is in `waited_for`,
    or will reach its limit within an hour. The time now is `now_secs` by the monotonic clock, and `at_secs`
    since the epoch.

    Two kinds are queried at every poll: jobs that are known but not seen, until the controller no longer
    knows them, and jobs that are seen although they are finished or pending (they are just ending, or were
    requeued and started again).
    """

    def is_due(job_id: str) -> bool:
        answer = known.get(job_id)
        if answer is None:
            return True
        job = answer.job
        if job is not None and (job_id not in seen or job.state.is_finished or job.state is JobState.PENDING):
            return True
        age_secs = now_secs - answer.asked_secs
        if job is None or age_secs >= refresh_secs or age_secs < MINUTE_SECS:
            return age_secs >= refresh_secs
        end_secs = job.end_limit_at(at_secs)
        return (end_secs is not None and end_secs - at_secs < SOON_SECS) or job_id in waited_for

    def order(job_id: str) -> tuple[bool, float, int, str]:  # by length first: ids begin with a number
        answer = known.get(job_id)
        return answer is not None, answer.asked_secs if answer else 0.0, len(job_id), job_id

    return tuple(sorted(filter(is_due, {*known, *seen, *claimed}), key=order))


class AskedJobs:
    """The jobs about which a node queries its batch system one by one, and the last answer about each."""

    def __init__(
        self,
        batch_system: str,
        is_plain: Callable[[str], bool],
        *,
        refresh_secs: float,
        waited_for: Container[str] = (),
    ) -> None:
        """`is_plain` returns whether an id can be queried; a job is queried again after `refresh_secs`.

        Jobs whose id is in `waited_for` are queried each minute.
        """
        self._batch_system = batch_system
        self._is_plain = is_plain
        self.refresh_secs = refresh_secs
        self._waited_for = waited_for
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
        """Begin a poll; return the ids of the jobs to query.

        The time is `now_secs` by the monotonic clock, and `taken_at_secs` since the epoch. `seen` are jobs
        with processes here, `claimed` jobs with a published directory or an empty control group; `here` are
        ids of further jobs that are taken as seen.
        """
        self._times = now_secs, taken_at_secs
        self._ours = {key for key in (*seen, *claimed) if key.batch_system == self._batch_system}
        self._plain = {key.job_id for key in self._ours if self._is_plain(key.job_id)}.union(here)
        seen_before = self.seen
        self.seen = ({key.job_id for key in self._ours.intersection(seen)} & self._plain).union(here)
        for job_id in self.seen - seen_before:
            if job_id in self._known and self._known[job_id].job is None:
                del self._known[job_id]  # it is back: another run, or another job with this id
        due = compute_questions(
            self._known,
            self.seen,
            self._plain,
            now_secs,
            self.refresh_secs,
            taken_at_secs,
            self._waited_for,
        )
        self._all_asked = len(due) <= MAX_QUESTIONS
        return due[:MAX_QUESTIONS]

    def fully_known(self, job_ids: Iterable[str]) -> dict[str, Job]:
        """Return, by id, those of the jobs `job_ids` whose details are known and need not be queried now."""
        known = ((job_id, self._known.get(job_id)) for job_id in job_ids)
        return {
            job_id: each.job
            for job_id, each in known
            if each is not None and each.job is not None and self._is_full(each)
        }

    def _is_full(self, answer: KnownJob) -> bool:
        return self._times[0] - answer.full_secs < self.refresh_secs

    def keep(
        self, jobs: Iterable[Job], gone: Iterable[str], unclear: Iterable[str], known_as: str | None
    ) -> None:
        """Store the answers of a poll.

        `jobs` were reported; `gone` are the ids of jobs that the batch system does not know. `unclear` are
        the ids of jobs whose answer was unusable: what was known about them stays. `known_as` is this node's
        name: jobs that are only on other nodes count as gone.
        """
        for job in jobs:
            local, old = None if is_elsewhere(job, known_as) else job, self._known.get(job.key.job_id)
            full_secs = old.full_secs if old is not None and self._is_full(old) else self._times[0]
            self._known[job.key.job_id] = KnownJob(local, *self._times, full_secs)
        self._known.update((job_id, KnownJob(None, *self._times)) for job_id in gone)
        for job_id in unclear:
            old = self._known.get(job_id)
            if old is None or old.job is None:
                old = KnownJob(Job(key=JobKey(self._batch_system, job_id)), *self._times)
            # Of what another program told instead, details may be missing.
            self._known[job_id] = replace(old, asked_secs=self._times[0], full_secs=float("-inf"))

    def table(self, *, complete: bool, **more: Any) -> JobTable:
        """Return all jobs known after this poll; then forget ended jobs that are neither seen nor claimed.

        `complete` and `more` become fields of the table.
        """
        reported = [(each.job, each.reported_secs) for each in self._known.values() if each.job is not None]
        jobs = {job.key: job for job, _ in reported}
        # Ids that are not plain cannot be queried, so their jobs must not be taken to be gone.
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
            reported_secs={job.key: reported_secs for job, reported_secs in reported},
            gone=gone,
            **more,
        )


class NodeQuestion:
    """Queries a batch system about this node at intervals.

    `notice` is the last good answer, or None.
    """

    def __init__(self, source: str, refresh_secs: float) -> None:
        """`refresh_secs` is the interval between queries."""
        self.notice: NodeNotice | None = None
        self.problem: Rejected | None = None  # why the latest query failed
        self._source = source
        self._refresh_secs = refresh_secs
        self._due_secs = 0.0  # monotonic

    def ask(
        self,
        read: Callable[[], NodeNotice | None],
        now_secs: float,
        run: Callable[[Callable[[], None]], None] = lambda query: query(),
    ) -> tuple[Rejected, ...]:
        """Query the batch system about this node if that is due; return the problem if it fails, else ().

        `read` makes the query, and may raise SourceError or ParseError; `run` calls it, perhaps in a thread.
        `now_secs` is the monotonic time.
        """
        if now_secs < self._due_secs:
            return ()
        due_secs, self._due_secs = now_secs + self._refresh_secs, float("inf")

        def query() -> None:
            problem = None
            try:
                self.notice = read()
            except (SourceError, ParseError) as error:
                problem = Rejected(self._source, str(error))
            finally:
                self.problem, self._due_secs = problem, due_secs

        try:
            run(query)
        except RuntimeError:  # no thread can be started; later one may
            self._due_secs = due_secs
            raise
        return () if self.problem is None else (self.problem,)


class ClockDifference:
    """Estimates by how many seconds a batch system's clock is ahead of this node's.

    `ahead_secs` is the estimate, None before the first; it changes only when an answer contradicts it.
    """

    def __init__(self) -> None:
        self.ahead_secs: float | None = None

    def learn(
        self, clock_secs: float, *, asked_secs: float, answered_secs: float, resolution_secs: float = 1.0
    ) -> None:
        """Improve the estimate by an answer that shows the batch system's time, `clock_secs` (epoch).

        This is rounded down to a multiple of `resolution_secs`. By this node's clock the query was sent at
        `asked_secs` and answered at `answered_secs`; a slow answer is ignored.
        """
        low, high = clock_secs - answered_secs, clock_secs + resolution_secs - asked_secs
        if answered_secs < asked_secs or high - low > MAX_DOUBT_SECS:
            return  # our clock was set back, or the answer took too long
        if self.ahead_secs is None or not low <= self.ahead_secs <= high:
            self.ahead_secs = (low + high) / 2
