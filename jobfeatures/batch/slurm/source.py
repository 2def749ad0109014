"""The source that queries the controller about the jobs of this node."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

from jobfeatures.batch.questions import AskedJobs, ClockDifference
from jobfeatures.batch.slurm.answers import Answers, Scontrol
from jobfeatures.batch.slurm.basics import NAME, SOURCE, is_plain_id
from jobfeatures.batch.slurm.node import NodeAnswer, node_questions
from jobfeatures.batch.source import BatchSource, PolledSource
from jobfeatures.config import Config
from jobfeatures.errors import News, Rejected
from jobfeatures.records.model import JobKey, JobTable, NodeNotice
from jobfeatures.system.clock import Clock

Ask = Callable[..., tuple[Answers, NodeAnswer | None]]
SPREAD = (0.75, 1.25)  # random factor on the refresh interval


class SlurmSource(PolledSource):
    """Queries the controller about the jobs seen on this node, and caches the answers.

    A job whose record is rejected stays in the table with its last good record,
    or as UNKNOWN: it exists and must not seem gone.
    """

    name = NAME
    is_local = False

    def __init__(self, clock: Clock, ask: Ask, *, node_name: str | None, refresh_secs: float = 300.0) -> None:
        """`ask` is that of `Scontrol` or of `JsonAsker`; it is asked about the node every `refresh_secs`."""
        self._clock = clock
        self._node_name = node_name
        self._ask = ask
        self._jobs = AskedJobs(NAME, is_plain_id, refresh_secs=refresh_secs)
        self._difference = ClockDifference()
        self._complaints = News()
        self._node_asked_secs: float | None = None  # monotonic
        self._node: NodeNotice | None = None
        self._node_problem: tuple[Rejected, ...] = ()

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs seen, claimed or known before. Raises SourceError if no query was answered."""
        taken_at_secs, now_secs = self._clock.now_secs(), self._clock.monotonic_secs()
        asked = self._jobs.begin(seen, claimed, now_secs=now_secs, taken_at_secs=taken_at_secs)
        rejected: tuple[Rejected, ...] = ()
        complete = True
        about_node = self._is_node_due(now_secs)
        if asked or about_node:
            answers, node = self._ask(asked, about_node=about_node, now_secs=taken_at_secs)
            if node is not None and node.clock_secs is not None:
                answered_secs = self._clock.now_secs()
                self._difference.learn(node.clock_secs, asked_secs=taken_at_secs, answered_secs=answered_secs)
            about = () if node is None else self._keep_node(node, now_secs)
            rejected = self._keep(answers) + about
            complete = answers.complete
        return self._jobs.table(
            complete=complete,
            rejected=rejected,
            node=self._node,
            node_problem=str(self._node_problem[0]) if self._node_problem else "",
            clock_ahead_secs=self._difference.ahead_secs,
        )

    def _is_node_due(self, now_secs: float) -> bool:
        asked = self._node_asked_secs
        is_due = asked is None or now_secs - asked >= self._jobs.refresh_secs
        return is_due and bool(node_questions(self._node_name))

    def _keep_node(self, found: NodeAnswer, now_secs: float) -> tuple[Rejected, ...]:
        """Keep the node's notice, or the last one if there is no new one. A problem is reported once."""
        self._node_asked_secs = now_secs
        if found.notice is not None:
            self._node = found.notice
        news = tuple(each for each in found.rejected if each not in self._node_problem)
        self._node_problem = found.rejected
        return news

    def _keep(self, answers: Answers) -> tuple[Rejected, ...]:
        known_as = None if self._node is None else self._node_name
        self._jobs.keep(answers.jobs.values(), answers.gone, answers.rejected, known_as)
        complaints = (
            [Rejected(SOURCE, f"standard error says {answers.complaint}")] if answers.complaint else []
        )
        return (*answers.rejected.values(), *self._complaints.among(complaints))


def make_source(config: Config, clock: Clock, node_name: str) -> BatchSource:
    """Return a node's job source. Raises ConfigurationError."""
    timeout_secs = config.batch_timeout_secs
    scontrol = Scontrol(config.slurm_scontrol, node_name=node_name, timeout_secs=timeout_secs)
    if config.slurm_ask == "controller":
        from jobfeatures.batch.controller.source import ControllerSource

        ask_one = scontrol.ask_about_job
        return ControllerSource(config, clock, node_name, NAME, ask_one=ask_one, is_plain=is_plain_id)
    ask: Ask = scontrol.ask
    if config.slurm_ask == "rest":
        from jobfeatures.batch.slurm.json.source import JsonAsker

        ask = JsonAsker(config, clock, node_name, timeout_secs).ask
    # Random, because a rollout starts the daemons of all nodes at the same time.
    refresh_secs = config.batch_refresh_secs * random.uniform(*SPREAD)  # noqa: S311  # not a secret
    return SlurmSource(clock, ask, node_name=node_name, refresh_secs=refresh_secs)
