"""The source that asks the controller role by HTTPS, with rate-limited batch system queries as fallback."""

from __future__ import annotations

import logging
import random
import re
import ssl
from collections.abc import Callable, Collection
from dataclasses import replace
from urllib.parse import quote, urlsplit

from jobfeatures.batch.basics import is_host_name
from jobfeatures.batch.controller import ControllerSettings
from jobfeatures.batch.controller.protocol import (
    CLOCK_HEADER,
    CLOCK_RESOLUTION_SECS,
    MAX_FILE_BYTES,
    parse_answer,
    parse_clock,
    parse_token,
)
from jobfeatures.batch.questions import ClockDifference
from jobfeatures.batch.source import PolledSource
from jobfeatures.errors import ConfigurationError, ParseError, SourceError, UnsafePathError, shown
from jobfeatures.records.model import Job, JobKey, JobTable
from jobfeatures.system.clock import Clock
from jobfeatures.system.httpget import Server
from jobfeatures.system.privatefile import read_private

log = logging.getLogger(__name__)

MAX_BYTES = 32 * 2**20
_AGE = re.compile(r"[0-9]{1,9}")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ControllerClient:
    """HTTPS client of the controller role; each request opens a connection, and redirects are not followed.

    While the controller role says that its answer has not changed, the previous answer is used again.
    """

    def __init__(self, config: ControllerSettings, clock: Clock, node_name: str, timeout_secs: float) -> None:
        """Take ``https://HOST:PORT`` from ``controller.url``; ``http`` is for tests on loopback."""
        url = config.url or ""
        self.name = f"controller role {url}"
        self._config, self._timeout_secs = config, timeout_secs
        self._clock = clock
        self._server = Server(url.rstrip("/"), name=self.name, max_bytes=MAX_BYTES)
        self._path = f"/nodes/{quote(node_name, safe='')}"
        self._etag: str | None = None
        self._latest: tuple[JobTable, str] | None = None
        self._difference = ClockDifference()

    def ask(self) -> JobTable:
        """Return the job table that the controller role answers with.

        The table's time is when the controller role queried the batch system, by this node's clock. Raises
        SourceError if there is no answer, or if the controller role's latest query of the batch system
        failed.
        """
        try:
            table, problem = self._ask()
        except ParseError as error:
            raise SourceError(f"{self.name}: {error}") from error
        except (OSError, ValueError, UnsafePathError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise SourceError(f"{self.name}: {reason}") from error
        if problem:
            raise SourceError(f"{self.name} cannot query the batch system: {shown(problem)[1:-1]}")
        return table

    def _ask(self) -> tuple[JobTable, str]:
        # Read for each request: the token may be replaced at run time.
        token_file, ca_file = self._config.token_file, self._config.ca_file
        token = parse_token(read_private(token_file, MAX_FILE_BYTES), token_file)
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        if self._etag is not None:
            headers["If-None-Match"] = self._etag
        # Likewise the CA certificates: the file may be replaced.
        context = ssl.create_default_context(cafile=ca_file) if ca_file is not None else None
        asked_at_secs = self._clock.now_secs()
        answer = self._server.get(
            self._path, headers=headers, timeout_secs=self._timeout_secs, context=context
        )
        answered_secs = self._clock.now_secs()
        if answer.status not in (200, 304):
            raise SourceError(
                f"{self.name}: HTTP {answer.status} "
                f"{shown(answer.body[:200].decode('utf-8', 'replace').strip())}"
            )
        age = answer.headers.get("Age", "")
        if _AGE.fullmatch(age) is None:
            raise ParseError("the HTTP header Age is missing or invalid", text=age)
        taken_at_secs = asked_at_secs - int(age)
        if answer.status == 304 and self._latest is not None:
            table, problem = self._latest
        else:
            table, problem = parse_answer(answer.body.decode("utf-8"), taken_at_secs=taken_at_secs)
            self._etag = answer.headers.get("ETag")
        if (clock_secs := parse_clock(answer.headers.get(CLOCK_HEADER))) is not None:
            self._difference.learn(
                clock_secs,
                asked_secs=asked_at_secs,
                answered_secs=answered_secs,
                resolution_secs=CLOCK_RESOLUTION_SECS,
            )
        ahead_secs = self._difference.ahead_secs
        self._latest = replace(table, taken_at_secs=taken_at_secs, clock_ahead_secs=ahead_secs), problem
        return self._latest


def make_client(
    config: ControllerSettings, clock: Clock, node_name: str, timeout_secs: float, *, key: str
) -> ControllerClient:
    """Return a client of the controller role. Raises ConfigurationError if its settings cannot be used.

    `key` names, for errors, the setting whose value is "controller", such as ``slurm.ask``.
    """
    if config.url is None:
        raise ConfigurationError("controller.url", f"is not set: {key} = controller needs it")
    parts = urlsplit(config.url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise ConfigurationError("controller.url", "must be https: the token would be sent unencrypted")
    if not is_host_name(node_name):
        raise ConfigurationError("node.name", f"must be a node's name, not {node_name!r}")
    if config.ca_file is not None:
        try:
            ssl.create_default_context(cafile=config.ca_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError("controller.ca_file", f"cannot be used: {error}") from error
    return ControllerClient(config, clock, node_name, timeout_secs)


class ControllerSource(PolledSource):
    """Source of this node's jobs that asks the controller role; if that fails, the batch system itself.

    While the controller role does not answer, the batch system is queried about one job at a time: first
    after a random part of `fallback_secs`, then every `fallback_secs`. Jobs of which nothing has been
    reported yet come first. So N nodes together send N / `fallback_secs` queries per second, even when
    thousands of them notice at once that the controller role is down.
    """

    is_local = False

    def __init__(
        self,
        config: ControllerSettings,
        clock: Clock,
        node_name: str,
        name: str,
        *,
        timeout_secs: float,
        ask_one: Callable[[str], Job | None],
        is_plain: Callable[[str], bool],
    ) -> None:
        """`name` is the batch system, whose setting ``ask`` is "controller". Raises ConfigurationError.

        `ask_one` queries the batch system for one job by id, and may raise SourceError or ParseError.
        """
        self.name = name
        self._client = make_client(config, clock, node_name, timeout_secs, key=f"{name}.ask")
        self._clock = clock
        self._ask_one = ask_one
        self._is_plain = is_plain
        self._fallback_secs = config.fallback_secs
        self._next_question_secs: float | None = None  # monotonic; None while the controller role answers
        self._table = JobTable(source=name, jobs={}, taken_at_secs=0.0, complete=False)
        self._reported: dict[JobKey, float] = {}  # when the batch system itself last reported each job; epoch

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return this node's jobs, as the controller role reports them.

        While it does not answer, one of the jobs in `seen` (with processes on this node) and `claimed` (with
        a published directory or an empty control group) may be queried. Raises SourceError if neither gives
        an answer.
        """
        try:
            table = self._client.ask()
        except SourceError as error:
            return self._ask_little(error, {*seen, *claimed})
        if table.source != self.name:
            raise SourceError(f"{self._client.name}: reports jobs of {table.source}, not of {self.name}")
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
        log.info(
            "the controller role does not answer, so this node queries the batch system about one job",
            extra={"job": key.job_id},
        )
        try:
            job = self._ask_one(key.job_id)
        except (SourceError, ParseError) as error:
            raise SourceError(f"{failure}; a direct query of {self.name} failed too: {error}") from error
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
        """Return the job of `ours` never reported by the batch system, else the one reported longest ago."""
        here = [key for key in ours if key.batch_system == self.name and self._is_plain(key.job_id)]

        def order(key: JobKey) -> tuple[float, int, str]:
            at_secs = self._reported.get(key, self._table.taken_at_secs if key in self._table.jobs else 0.0)
            return at_secs, len(key.job_id), key.job_id

        return min(here, key=order, default=None)
