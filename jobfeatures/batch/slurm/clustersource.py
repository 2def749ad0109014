"""The source that queries Slurm about the whole cluster, for the controller role."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection

from jobfeatures.batch.programs import MAX_ANSWER_BYTES
from jobfeatures.batch.questions import ClockDifference
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.slurm import SlurmSettings
from jobfeatures.batch.slurm.administration import (
    SHARE_FIELDS,
    SHOW_LICENCES,
    parse_all_reservations,
    parse_licences,
    parse_sdiag,
    parse_shares,
)
from jobfeatures.batch.slurm.answers import Scontrol
from jobfeatures.batch.slurm.basics import ENVIRONMENT, NAME
from jobfeatures.batch.slurm.bynode import SHOW_JOBS, JobsByNode, ParsedJob, group_by_node, parse_whole
from jobfeatures.batch.slurm.cluster import (
    CLUSTER_QUESTIONS,
    SHOW_NODES,
    SHOW_PARTITIONS,
    parse_cluster,
    parse_node_records,
)
from jobfeatures.batch.slurm.node import SHOW_RESERVATIONS, floating, parse_clock, parse_reservations
from jobfeatures.batch.slurm.queue import QUEUE_SOURCE, parse_queue
from jobfeatures.batch.slurm.refused import (
    ALL_JOBS,
    ask_squeue,
    make_separator,
    queue_environment,
)
from jobfeatures.batch.slurm.sacct.records import ACCOUNTING_FIELDS, ACCOUNTING_SOURCE, parse_accounting
from jobfeatures.batch.source import ClusterSource
from jobfeatures.errors import NewProblems, ParseError, SourceError, failing_source
from jobfeatures.joblogs.loggedjob import Accounting
from jobfeatures.records.administration import FairShares, Licences, Reservations, Scheduler
from jobfeatures.records.model import Cluster, Job, JobKey, JobTable
from jobfeatures.system.clock import Clock

_ASKED = re.compile(r"[1-9][0-9]{0,9}(?:[_+][0-9]{1,10})?\Z")
MAX_ASKED_AGAIN = 500  # jobs without a trusted record; if there are more, all are taken from the queue's poll


class SlurmCluster:
    """The controller role's source for Slurm; each query runs one process.

    The commands are ``squeue``, ``scontrol``, ``sacct``, ``sdiag`` and ``sshare``.
    """

    name = NAME

    def __init__(self, config: SystemSettings[SlurmSettings], clock: Clock, timeout_secs: float) -> None:
        """`timeout_secs` limits each query. The other commands are taken from scontrol's directory."""
        self._clock = clock
        self._scontrol = Scontrol(config.own.scontrol, timeout_secs=timeout_secs, max_bytes=MAX_ANSWER_BYTES)
        self._programs = self._scontrol.programs
        self._known: dict[JobKey, ParsedJob] = {}
        self._difference = ClockDifference()
        self._floating = NewProblems()

    def poll_queue(self) -> JobTable:
        """Return the jobs in the queue; they stay in it for Slurm's MinJobAge after their end."""
        return self._ask_queue()

    def poll_user_queue(self, user: str) -> JobTable:
        """Return one user's jobs in the queue."""
        return self._ask_queue(f"--user={user}")

    def _ask_queue(self, *options: str) -> JobTable:
        taken_at_secs = self._clock.now_secs()
        separator = make_separator()
        text = self._programs.ask("squeue", *ALL_JOBS, *options, environment=queue_environment(separator))
        with failing_source(QUEUE_SOURCE, ParseError):
            return parse_queue(text, separator, taken_at_secs=taken_at_secs)

    def poll_cluster(self) -> Cluster:
        """Return nodes and partitions, including hidden ones."""
        taken_at_secs = self._clock.now_secs()
        answers = self._scontrol.poll((), CLUSTER_QUESTIONS)
        nodes, partitions = (answers.extra.get(each) for each in (SHOW_NODES, SHOW_PARTITIONS))
        if not nodes or not partitions:
            reason = f"no answer about nodes and partitions: {answers.complaint}"
            raise SourceError(f"{self._scontrol.command}: {reason}")
        cluster = parse_cluster(nodes, partitions, taken_at_secs=taken_at_secs)
        if not cluster.nodes:
            raise SourceError(
                f"{self._scontrol.command}: no nodes in the answer: {answers.complaint or nodes[0][:80]}"
            )
        return cluster

    def poll_scheduler(self) -> Scheduler:
        """Return the load of the controller and its schedulers."""
        taken_at_secs = self._clock.now_secs()
        text = self._programs.ask("sdiag")
        with failing_source(self._programs.path("sdiag"), ParseError):
            return parse_sdiag(text, taken_at_secs=taken_at_secs)

    def poll_shares(self) -> FairShares:
        """Return the fair shares of all accounts and users."""
        taken_at_secs = self._clock.now_secs()
        text = self._programs.ask("sshare", "-a", "-P", "-n", "-o", ",".join(SHARE_FIELDS))
        return parse_shares(text, taken_at_secs=taken_at_secs)

    def poll_licences(self) -> Licences:
        """Return the software licences that Slurm counts."""
        taken_at_secs = self._clock.now_secs()
        return parse_licences(self._show(SHOW_LICENCES), taken_at_secs=taken_at_secs)

    def poll_reservations(self) -> Reservations:
        """Return current and future reservations."""
        taken_at_secs = self._clock.now_secs()
        return parse_all_reservations(self._show(SHOW_RESERVATIONS), taken_at_secs=taken_at_secs)

    def _show(self, question: str) -> list[str]:
        """Return the lines that scontrol prints, at least one even without records. Raises SourceError."""
        answers = self._scontrol.poll((), (question,))
        if not (lines := answers.extra.get(question)):
            raise SourceError(f"{self._scontrol.command}: no answer to {question}: {answers.complaint}")
        return list(lines)

    def poll_by_node(self, queue: JobTable) -> JobsByNode:
        """Return each node's jobs and each node's own record; `queue` is the latest answer of `poll_queue`.

        Only jobs in `queue` are reported, so the result has the queue's time.
        """
        asked_secs = self._clock.now_secs()
        # In a process of its own: only a quick answer measures the difference between the clocks well.
        reservations = self._scontrol.poll((), (SHOW_RESERVATIONS,)).extra.get(SHOW_RESERVATIONS)
        answered_secs = self._clock.now_secs()
        if reservations and (clock_secs := parse_clock(reservations)) is not None:
            self._difference.learn(clock_secs, asked_secs=asked_secs, answered_secs=answered_secs)
        answers = self._scontrol.poll((), (SHOW_JOBS, SHOW_NODES))
        jobs, nodes = (answers.extra.get(each) for each in (SHOW_JOBS, SHOW_NODES))
        if not jobs or not nodes or not reservations:
            raise SourceError(
                f"{self._scontrol.command}: no answer about all jobs and nodes: {answers.complaint}"
            )
        self._known, unsure = parse_whole(jobs, queue, self._known)
        maintenances, bad_reservations = parse_reservations(reservations)
        records, bad_nodes = parse_node_records(nodes)
        return JobsByNode(
            taken_at_secs=queue.taken_at_secs,
            complete=queue.complete and answers.complete,
            jobs=group_by_node(
                (each.shared for each in self._known.values()), self._ask_again(unsure, queue)
            ),
            nodes=records,
            maintenances=maintenances,
            rejected=(
                *bad_nodes,
                *bad_reservations,
                *self._floating.among(floating(maintenances, records)),
            ),
            clock_ahead_secs=self._difference.ahead_secs,
        )

    def _ask_again(self, unsure: Collection[JobKey], queue: JobTable) -> list[Job]:
        """Return the jobs `unsure` from squeue: queried again if few, else as they are in `queue`."""
        if 0 < len(unsure) <= MAX_ASKED_AGAIN:
            ids = [key.job_id for key in unsure]
            with contextlib.suppress(SourceError):
                return list(ask_squeue(self._programs, ids, node_name=None).values())
        return [queue.jobs[key] for key in unsure]

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the jobs, and their steps, that were pending, running or ended since `since_secs`.

        `since_secs` is epoch time.
        """
        return self._ask_accounting(since_secs, None, "-a")

    def poll_history(self, since_secs: float, until_secs: float) -> Accounting:
        """Return the jobs, without steps, that were pending, running or ended between two times (epoch)."""
        return self._ask_accounting(since_secs, until_secs, "-a", "-X")

    def poll_user_history(self, user: str, since_secs: float) -> Accounting:
        """Return a user's jobs, without steps, that were pending, running or ended since `since_secs`.

        `since_secs` is epoch time.
        """
        return self._ask_accounting(since_secs, None, f"--user={user}", "-X")

    def find_user(self, job_id: str) -> str | None:
        """Return a job's user, from the queue, else from accounting; None if neither knows the job.

        `job_id` is that of a job (``12``), of an array's task (``12_3``) or of a heterogeneous job's
        component (``12+1``). Raises SourceError if a query fails.
        """
        if not _ASKED.match(job_id):
            return None
        # squeue fails for a job that is not in the queue.
        queued = self._programs.run("squeue", *ALL_JOBS, "-j", job_id, "-o", "%u")
        users = queued.stdout.decode("utf-8", "replace").split() if queued.status == 0 else []
        if not users:
            text = self._programs.ask("sacct", "--local", "-a", "-X", "-P", "-n", "-j", job_id, "-o", "User")
            users = text.split()
        return users[0] if users else None

    def _ask_accounting(self, since_secs: float, until_secs: float | None, *options: str) -> Accounting:
        taken_at_secs = self._clock.now_secs()
        separator = make_separator()
        ago_secs = max(1, math.ceil(taken_at_secs - since_secs))
        until = 0 if until_secs is None else max(0, math.floor(taken_at_secs - until_secs))
        text = self._programs.ask(
            *("sacct", "--local", "-P", "-n", "--noconvert", f"--delimiter={separator}", *options),
            *("-S", f"now-{ago_secs}seconds", "-E", f"now-{until}seconds" if until else "now"),
            *("-o", ",".join(ACCOUNTING_FIELDS)),
            environment={**ENVIRONMENT, "SLURM_BITSTR_LEN": "0"},
        )
        with failing_source(ACCOUNTING_SOURCE, ParseError):
            return parse_accounting(text, separator, taken_at_secs=taken_at_secs)


def make_cluster_source(
    config: SystemSettings[SlurmSettings], clock: Clock, timeout_secs: float
) -> ClusterSource:
    """Return the source for the controller role that ``slurm.ask`` selects.

    `timeout_secs` limits each query. Raises ConfigurationError if slurmrestd's address is missing or invalid.
    """
    if config.own.ask == "rest":
        from jobfeatures.batch.slurm.json.source import JsonCluster

        return JsonCluster(config, clock, timeout_secs)
    return SlurmCluster(config, clock, timeout_secs)
