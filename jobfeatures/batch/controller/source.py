"""The source that asks the controller role, with rate-limited batch system queries as fallback."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection
from dataclasses import replace

from jobfeatures.batch.controller.client import make_client
from jobfeatures.batch.source import PolledSource
from jobfeatures.config import Config
from jobfeatures.errors import ParseError, SourceError
from jobfeatures.records.model import Job, JobKey, JobTable
from jobfeatures.system.clock import Clock

log = logging.getLogger(__name__)


class ControllerSource(PolledSource):
    """Asks the controller role. While that fails, asks the batch system about one job at a time.

    The first such query comes after a random part of `fallback_secs`, then one every `fallback_secs`,
    starting with jobs never reported. So N nodes together send N / `fallback_secs` queries per second, even
    when thousands of them notice at once that the controller role is down.
    """

    is_local = False

    def __init__(
        self,
        config: Config,
        clock: Clock,
        node_name: str,
        name: str,
        *,
        ask_one: Callable[[str], Job | None],
        is_plain: Callable[[str], bool],
    ) -> None:
        """`name` is the batch system, whose setting ``ask`` says so. Raises ConfigurationError.

        `ask_one` asks it for one job by plain id, and raises SourceError or ParseError.
        """
        self.name = name
        self._client = make_client(config, clock, node_name, key=f"{name}.ask")
        self._clock = clock
        self._ask_one = ask_one
        self._is_plain = is_plain
        self._fallback_secs = config.controller_fallback_secs
        self._next_question_secs: float | None = None  # monotonic; None while the controller role answers
        self._table = JobTable(source=name, jobs={}, taken_at_secs=0.0, complete=False)
        self._reported: dict[JobKey, float] = {}  # when the batch system itself last reported each job; epoch

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return this node's jobs. Raises SourceError if both fail or the fallback query is not yet due."""
        try:
            table = self._client.ask()
        except SourceError as error:
            return self._ask_little(error, {*seen, *claimed})
        if table.source != self.name:
            raise SourceError(f"{self._client.name}: reports {table.source}, not {self.name}")
        self._next_question_secs = None
        self._reported.clear()
        self._table = table
        return table

    def _ask_little(self, failure: SourceError, ours: Collection[JobKey]) -> JobTable:
        now_secs = self._clock.monotonic_secs()
        if self._next_question_secs is None:
            self._next_question_secs = now_secs + random.uniform(0.0, self._fallback_secs)  # noqa: S311  # not a secret
        key = None if now_secs < self._next_question_secs else self._most_wanted(ours)
        if key is None:
            raise failure
        late_secs = (now_secs - self._next_question_secs) % self._fallback_secs
        self._next_question_secs = now_secs + self._fallback_secs - late_secs  # keeps its own schedule
        reported_secs = self._clock.now_secs()
        log.info("the batch system itself is queried about one job", extra={"job": key.job_id})
        try:
            job = self._ask_one(key.job_id)
        except (SourceError, ParseError) as error:
            raise SourceError(f"{failure}; {self.name} itself: {error}") from error
        self._reported[key] = reported_secs
        jobs = {known: each for known, each in self._table.jobs.items() if known != key}
        if job is not None:
            jobs[key] = job
        reported = {known: at_secs for known, at_secs in self._reported.items() if known in jobs}
        self._table = replace(
            self._table, jobs=jobs, complete=False, reported_secs=reported, node_problem=str(failure)
        )
        return self._table

    def _most_wanted(self, ours: Collection[JobKey]) -> JobKey | None:
        """Return a job that was never reported, else the one reported longest ago."""
        here = [key for key in ours if key.batch_system == self.name and self._is_plain(key.job_id)]

        def order(key: JobKey) -> tuple[float, int, str]:
            at_secs = self._reported.get(key, self._table.taken_at_secs if key in self._table.jobs else 0.0)
            return at_secs, len(key.job_id), key.job_id

        return min(here, key=order, default=None)
