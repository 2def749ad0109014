"""The controller role's source for OAR: one run of ``oarstat`` reports the jobs of all nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

from jobfeatures.batch.oar import COMMAND, OarSettings
from jobfeatures.batch.oar.answers import (
    arrays_in,
    make_job,
    make_record,
    parse_answer,
    parse_cluster,
    parse_nodes,
)
from jobfeatures.batch.oar.basics import NAME
from jobfeatures.batch.programs import Programs
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import ParseError, Rejected, SourceError, failing_source, parse_each
from jobfeatures.joblogs.loggedjob import Accounting, Notes
from jobfeatures.records.model import Cluster, JobKey, JobTable, NodeNotice
from jobfeatures.records.nodelist import is_same_host
from jobfeatures.system.clock import Clock

_job_of = itemgetter(0)  # of an item of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesByNode:
    """The jobs of all nodes, from one query.

    `shares` are numbers of CPUs, by job and then by node. `cluster` has the nodes.
    """

    taken_at_secs: float
    queue: JobTable
    shares: Mapping[JobKey, Mapping[str, int]]
    cluster: Cluster
    rejected: tuple[Rejected, ...] = ()

    def table(self, node_name: str, now_secs: float) -> JobTable | None:
        """Return the jobs on a node, and whether it drains; None if OAR knows no node of this name."""
        del now_secs
        node = next((each for each in self.cluster.nodes if is_same_host(each.name, node_name)), None)
        if node is None:
            return None
        jobs = {
            key: replace(job, allocated_cpus=self.shares.get(key, {}).get(node.name))
            for key, job in self.queue.jobs.items()
            if node.name in job.nodes and job.state.is_on_node
        }
        notice = NodeNotice(draining="DRAIN" in node.states, cpus=node.cpus)
        return JobTable(
            source=NAME,
            jobs=jobs,
            taken_at_secs=self.taken_at_secs,
            complete=self.queue.complete,
            node=notice,
        )


class OarCluster:
    """The controller role's source for OAR: runs ``oarstat`` and ``oarnodes``, one process per query."""

    name = NAME

    def __init__(self, config: SystemSettings[OarSettings], clock: Clock, timeout_secs: float) -> None:
        """`timeout_secs` limits each query."""
        self._clock = clock
        self._programs = Programs(COMMAND, config.own.oarstat, timeout_secs)
        self._oarnodes = self._programs.path("oarnodes")
        self._resources: Mapping[JobKey, tuple[str, ...]] = {}  # of the jobs in the latest queue

    def poll_queue(self) -> JobTable:
        """Return the pending and running jobs. Raises SourceError, also if the output is truncated."""
        taken_at_secs = self._clock.now_secs()
        rejected: list[Rejected] = []
        found = self._ask("-J", "-f")
        arrays = arrays_in([found])
        parsed = parse_each(lambda job: make_job(job[1], arrays), found.items(), rejected, "oarstat", _job_of)
        made = list(parsed)
        self._resources = {job.key: given for job, given in made}
        jobs = {job.key: job for job, _ in made}
        return JobTable.listed(NAME, jobs, taken_at_secs, rejected)

    def poll_by_node(self, queue: JobTable) -> SharesByNode:
        """Return the jobs of `queue`, the latest answer of `poll_queue`, with their CPUs on each node."""
        text = self._programs.ask("oarnodes", "-J")
        with failing_source(self._oarnodes, ParseError):
            nodes = parse_nodes(text, source="oarnodes")
            cluster = parse_cluster(text, source="oarnodes", taken_at_secs=queue.taken_at_secs)
        shares = {
            key: Counter(nodes[each] for each in resources if each in nodes)
            for key, resources in self._resources.items()
        }
        return SharesByNode(taken_at_secs=queue.taken_at_secs, queue=queue, shares=shares, cluster=cluster)

    def poll_cluster(self) -> Cluster:
        """Return the nodes; no queues, as every queue of OAR spans all nodes."""
        taken_at_secs = self._clock.now_secs()
        with failing_source(self._oarnodes, ParseError):
            cluster = parse_cluster(
                self._programs.ask("oarnodes", "-J"), source="oarnodes", taken_at_secs=taken_at_secs
            )
        if not cluster.nodes:
            raise SourceError(f"{self._oarnodes}: no nodes in the answer")
        return cluster

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the pending and running jobs, and those that ended at `since_secs` (epoch) or later."""
        taken_at_secs = self._clock.now_secs()
        since = max(0, math.floor(since_secs))
        never_ran = (
            "stop_time = 0 and state = 'Error' and job_id in (select job_id from event_logs where date >="
        )
        ended = f"stop_time >= {since} or {never_ran} {since})"
        answers = (self._ask("-J", "-f"), self._ask("-J", "-f", "--sql", ended))
        arrays = arrays_in(answers)
        rejected: list[Rejected] = []
        notes = Notes()
        jobs = (each for answer in answers for each in answer.items())
        made = parse_each(lambda job: make_record(job[1], notes, arrays), jobs, rejected, "oarstat", _job_of)
        records = {record.job_id: record for record in made}
        rejected += notes.faults("oarstat")
        return Accounting(NAME, tuple(records.values()), taken_at_secs, tuple(rejected))

    def _ask(self, *argv: str) -> dict[str, object]:
        with failing_source(self._programs.path("oarstat"), ParseError):
            return parse_answer(self._programs.ask("oarstat", *argv), source="oarstat")
