"""Answers nodes that query the controller role about their own jobs, from memory."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from jobfeatures.batch.controller.protocol import format_answer
from jobfeatures.batch.source import Keeper, KeptAnswer
from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.records.model import JobTable
from jobfeatures.system.clock import Clock


class ByNode(KeptAnswer, Protocol):
    """What one batch system reported about all its nodes at one time."""

    def table(self, node_name: str, now_secs: float) -> JobTable | None:
        """Return what was reported about the jobs of one node; None if there is no such node."""


@dataclass(frozen=True, slots=True)
class AnswerToNode:
    """An HTTP response to a node: its status and text, and the age of the data in seconds (None: an error).

    `clock_secs` is the batch system's Unix time, None if unknown.
    """

    status: int
    text: str
    age_secs: int | None = None
    clock_secs: float | None = None

    @property
    def etag(self) -> str:
        """Return an HTTP entity tag of the response, the same for equal texts."""
        return '"' + hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest() + '"'


class NodeAnswers:
    """Keeps one batch system's latest report on all its nodes, and answers nodes from it.

    The batch system is queried about its nodes each time its queue has been read: see `refresh`.
    """

    def __init__(
        self,
        source: object,
        queue: Keeper[JobTable],
        clock: Clock,
        *,
        interval_secs: float,
        timeout_secs: float,
    ) -> None:
        """Query nothing yet. Raises ConfigurationError if jobs' parts on each node are not reported."""
        poll: Callable[[JobTable], ByNode] | None = getattr(source, "poll_by_node", None)
        name: str = getattr(source, "name", "")
        if poll is None:
            raise ConfigurationError(
                "controller.listen",
                f"cannot be used: {name}, as configured, does not report which part of a job is on which "
                "node: leave it out, or use Slurm by scontrol or OAR",
            )
        self._poll = poll
        self._queue = queue
        self._clock = clock
        self._timeout_secs = timeout_secs
        self._queue_known = threading.Event()
        self.keeper: Keeper[ByNode] = Keeper(
            f"{name}-by-node", self._ask, interval_secs=interval_secs, min_interval_secs=interval_secs / 2
        )

    def refresh(self) -> None:
        """Query the batch system about all nodes; called when its queue has just been read."""
        self._queue_known.set()
        self.keeper.refresh()

    def _ask(self) -> ByNode:
        self._queue_known.wait(self._timeout_secs)
        queue = self._queue.status.table
        if queue is None:
            raise SourceError("the batch system's list of jobs has not been read yet")
        return self._poll(queue)

    def answer(self, node_name: str) -> AnswerToNode:
        """Return the response to the node `node_name` about its jobs.

        It is an error if the batch system has not answered yet, or knows no such node. The jobs are marked as
        incomplete if its latest query has failed.
        """
        status = self.keeper.status
        if status.table is None:
            return AnswerToNode(503, f"no answer of the batch system yet: {status.last_error or 'waiting'}\n")
        now_secs = self._clock.now_secs()
        table = status.table.table(node_name, now_secs)
        if table is None:
            return AnswerToNode(404, "the batch system knows no node of this name\n")
        age_secs = max(0, math.ceil(now_secs - table.taken_at_secs))
        ahead_secs = table.clock_ahead_secs
        clock_secs = None if ahead_secs is None else now_secs + ahead_secs
        return AnswerToNode(200, format_answer(table, status.last_error), age_secs, clock_secs)
