"""The source that queries the controller about the jobs of this node.

Slurm has no query for one node's jobs: for ``squeue -w`` slurmctld sends its whole queue. So the source asks
about jobs that have processes here or are named in slurmd's folder (`steps`). If the node's record has more
CPUs allocated than these jobs, squeue lists the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import replace
from functools import partial

from jobfeatures.batch.questions import AskedJobs, ClockDifference
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.slurm import SlurmSettings
from jobfeatures.batch.slurm.answers import Answers, Scontrol
from jobfeatures.batch.slurm.basics import NAME, SOURCE, is_plain_id
from jobfeatures.batch.slurm.node import NodeAnswer, node_questions
from jobfeatures.batch.slurm.steps import LocalSteps, WithSteps, ask_setup, list_jobs
from jobfeatures.batch.source import BatchSource, PolledSource
from jobfeatures.batch.waiting import WaitedFor
from jobfeatures.errors import NewProblems, Rejected, SourceError
from jobfeatures.records.model import Job, JobKey, JobTable, NodeNotice
from jobfeatures.system.clock import Clock

Ask = Callable[..., tuple[Answers, NodeAnswer | None]]
Lister = Callable[[str], frozenset[str]]  # of a node, may raise SourceError
SPREAD = (0.75, 1.25)  # random factor on the refresh interval


class UnknownJobDetector:
    """Detects that this node has jobs which are not known here.

    There are such jobs if, at two polls in a row, more of the node's CPUs are allocated than the known jobs
    have. Then squeue is to list the node's jobs. If that does not explain the excess, squeue is not run again
    until the excess grows.
    """

    def __init__(self) -> None:
        self._explained = 0
        self.has_to_ask = False  # the next poll has to ask about the node again

    def is_due(self, allocated_cpus: int, jobs: Iterable[Job]) -> bool:
        """Return whether squeue has to list the node's jobs now.

        `allocated_cpus` is the number of the node's allocated CPUs, `jobs` are the known jobs.
        """
        known = sum(job.allocated_cpus or job.total_cpus or 0 for job in jobs if job.state.is_on_node)
        excess = allocated_cpus - known
        if excess <= 0:
            self._explained = 0
        had_to_ask, self.has_to_ask = self.has_to_ask, excess > self._explained
        if not (had_to_ask and self.has_to_ask):
            return False
        self._explained, self.has_to_ask = excess, False
        return True


class SlurmSource(PolledSource):
    """Source of this node's jobs: queries the controller about each, and caches the answers.

    A job whose record is rejected stays in the table, with its last good record or in state UNKNOWN: it
    exists and must not seem gone.
    """

    name = NAME
    is_local = False

    def __init__(
        self,
        clock: Clock,
        ask: Ask,
        *,
        node_name: str | None,
        refresh_secs: float = 300.0,
        list_jobs: Lister = lambda _: frozenset(),
        waited_for: Container[str] = (),
    ) -> None:
        """`ask` is that of `Scontrol` or of `JsonAsker`, called about the node every `refresh_secs`.

        `list_jobs` returns the ids of a node's jobs; those in `waited_for` are queried each minute.
        """
        self._clock = clock
        self._node_name = node_name
        self._ask = ask
        self._jobs = AskedJobs(NAME, is_plain_id, refresh_secs=refresh_secs, waited_for=waited_for)
        self._difference = ClockDifference()
        self._complaints = NewProblems()
        self._node_asked_secs: float | None = None  # monotonic
        self._node: NodeNotice | None = None
        self._node_problem: tuple[Rejected, ...] = ()
        self._is_node_known = True
        self._list_jobs = list_jobs
        self._unexplained = UnknownJobDetector()
        self._listed: frozenset[JobKey] = frozenset()

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs of this node. Raises SourceError if no query was answered.

        They are the jobs in `seen` (with processes here) and `claimed` (with a published directory or an
        empty control group), and those known before.
        """
        taken_at_secs, now_secs = self._clock.now_secs(), self._clock.monotonic_secs()
        claimed, self._listed = self._listed.union(claimed), frozenset()
        asked = self._jobs.begin(seen, claimed, now_secs=now_secs, taken_at_secs=taken_at_secs)
        rejected: tuple[Rejected, ...] = ()
        complete = True
        since = self._node_asked_secs
        is_due = since is None or now_secs - since >= self._jobs.refresh_secs or self._unexplained.has_to_ask
        about_node = is_due and bool(node_questions(self._node_name))
        allocated_cpus: int | None = None
        if asked or about_node:
            known = self._jobs.fully_known(asked)
            answers, node = self._ask(asked, known=known, about_node=about_node, now_secs=taken_at_secs)
            if node is not None and node.clock_secs is not None:
                answered_secs = self._clock.now_secs()
                self._difference.learn(node.clock_secs, asked_secs=taken_at_secs, answered_secs=answered_secs)
            about = () if node is None else self._keep_node(node, now_secs)
            allocated_cpus = None if node is None else node.allocated_cpus
            rejected = self._keep(answers) + about
            complete = answers.complete
        table = self._jobs.table(
            complete=complete,
            rejected=rejected,
            node=self._node,
            node_problem="" if self._is_node_known else str(self._node_problem[0]),
            clock_ahead_secs=self._difference.ahead_secs,
        )
        return table if allocated_cpus is None else self._with_listed(table, allocated_cpus)

    def _with_listed(self, table: JobTable, allocated_cpus: int) -> JobTable:
        """Return `table`; if CPUs are unexplained, list the node's jobs, to be queried at the next poll."""
        if self._node_name is None or not self._unexplained.is_due(allocated_cpus, table.jobs.values()):
            return table
        try:
            self._listed = frozenset(JobKey(NAME, each) for each in self._list_jobs(self._node_name))
        except SourceError as error:
            return replace(table, rejected=(*table.rejected, Rejected("squeue", str(error))))
        return table

    def _keep_node(self, found: NodeAnswer, now_secs: float) -> tuple[Rejected, ...]:
        """Keep the node's notice, if there is a new one; return the problems that the last answer had not."""
        self._node_asked_secs = now_secs
        self._is_node_known = found.notice is not None
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


def make_source(config: SystemSettings[SlurmSettings], clock: Clock, node_name: str) -> BatchSource:
    """Return the daemon's source of this node's jobs, which also reads slurmd's folder.

    Raises ConfigurationError if ``slurm.ask`` needs a setting that is missing or invalid.
    """
    # A node whose name is not known has no steps.
    steps = LocalSteps(node_name or "", config.procfs, clock, config.common.cgroup_parents)
    scontrol = Scontrol(config.own.scontrol, node_name=node_name, timeout_secs=config.common.timeout_secs)
    source = make_command_source(config, clock, node_name, scontrol)
    setup = partial(ask_setup, scontrol.programs)
    return WithSteps(source, setup, clock, steps, has_command=config.own.ask in {"auto", "scontrol"})


def make_command_source(
    config: SystemSettings[SlurmSettings], clock: Clock, node_name: str, scontrol: Scontrol
) -> BatchSource:
    """Return the source that queries as ``slurm.ask`` says, without reading slurmd's folder.

    Raises ConfigurationError if that needs a setting that is missing or invalid.
    """
    timeout_secs = config.common.timeout_secs
    if config.own.ask == "controller":
        from jobfeatures.batch.controller.source import ControllerSource

        ask_one = scontrol.ask_about_job
        return ControllerSource(
            config.controller,
            clock,
            node_name,
            NAME,
            timeout_secs=timeout_secs,
            ask_one=ask_one,
            is_plain=is_plain_id,
        )
    ask: Ask = scontrol.ask
    if config.own.ask == "rest":
        from jobfeatures.batch.slurm.json.source import JsonAsker

        ask = JsonAsker(config, clock, node_name, timeout_secs).ask
    # Random, because a rollout starts the daemons of all nodes at the same time.
    refresh_secs = config.common.refresh_secs * random.uniform(*SPREAD)  # noqa: S311  # not a secret
    return SlurmSource(
        clock,
        ask,
        node_name=node_name,
        refresh_secs=refresh_secs,
        list_jobs=partial(list_jobs, scontrol.programs),
        waited_for=WaitedFor(NAME, config.common.root),
    )
