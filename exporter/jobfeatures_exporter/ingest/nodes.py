"""Keeps the latest state of every foreign node and cluster, bounded in number and age.

Records come from the threads of the listener and of the folder; each node's state is replaced atomically
under one lock, and a page shows the states of one moment.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from jobfeatures.errors import shown
from jobfeatures.formats.sonar.parsejobs import ClusterRecord
from jobfeatures.records.model import Cluster, Job, JobKey, fill_unknown
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.ingest.books import Counts, ForeignJobCounters
from jobfeatures_exporter.ingest.contents import ErrorRecord, JobsRecord, Record, SampleRecord, SysinfoRecord
from jobfeatures_exporter.ingest.foreign import (
    add_hardware,
    compute_job_gpus,
    compute_snapshot,
    count_gpu,
    processes_by_key,
)
from jobfeatures_exporter.model.snapshot import GpuSample, GroupKey, JobGpu, Snapshot, WorkKey

KEEP_BOOKS_SECS: Final = 3600.0  # a job that a filter hid for a while keeps its counters
GROUP_GAP_SECS: Final = 900.0  # a process group that reappears after a longer gap is another one
MAX_BOOKS: Final = 20_000  # per node
MAX_CARDS: Final = 2048  # per node, removed ones included
MAX_CLUSTERS: Final = 100
MAX_JOBS: Final = 200_000  # per cluster
SILENCE_SECS: Final = 1800.0  # without a sample, after which a node is dropped
MAX_GAP_SECS: Final = 1800.0  # a card's figures are assumed to hold no longer than this

KINDS: Final[dict[type[Record], str]] = {
    SampleRecord: "sample",
    SysinfoRecord: "sysinfo",
    JobsRecord: "jobs",
    ClusterRecord: "cluster",
    ErrorRecord: "errors",
}
NodeName = tuple[str, str]  # cluster and node


class Moment(NamedTuple):
    """When a document was made, in Unix time: `sender_secs` by its sender's clock, `at_secs` at most now."""

    at_secs: float
    sender_secs: float

    def ordered(self, before: Moment, now: float) -> tuple[float, float]:
        """Return this time and `before`, that of an earlier document, in a form that shows which is later.

        While the sender's clock is ahead of ours, both are by the sender's clock.
        """
        if self.sender_secs > now:
            return self.sender_secs, before.sender_secs
        return self.at_secs, before.at_secs


NEVER: Final = Moment(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The latest state of a foreign node: a node that another program, such as Sonar, monitors.

    That program sends us documents about the node. `sample` is its latest measurement of the node and its
    jobs, `sysinfo` its latest description of the hardware, and `snapshot` combines both. Each is None if
    there is none yet. `totals` are the counters of the node's jobs and process groups. `seen_at_secs` is the
    Unix time at which the sample was taken, or at which it arrived if that was earlier by our clock.

    A state is never changed: each document that is accepted replaces it with a new one.
    """

    sample: SampleRecord | None = None
    sysinfo: SysinfoRecord | None = None
    seen_at_secs: float = 0.0  # the sample's time, or its arrival if that was earlier
    snapshot: Snapshot | None = None
    totals: Mapping[WorkKey, Counts] = field(default_factory=dict)


@dataclass(slots=True)
class _Node:
    state: NodeState = field(default_factory=NodeState)
    touched_at_secs: float = 0.0
    moment: Moment = NEVER  # of the sample
    sysinfo_moment: Moment = NEVER
    books: dict[WorkKey, ForeignJobCounters] = field(default_factory=dict)
    cards: dict[str, GpuSample] = field(default_factory=dict)
    job_cards: dict[tuple[WorkKey, str], JobGpu] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterState:
    """What is known of a cluster with foreign nodes.

    `times` says when each job was reported, `jobs_at_secs` when the last was. `state` has nodes and
    partitions.
    """

    jobs: dict[JobKey, Job] = field(default_factory=dict)  # least recently changed first
    times: dict[JobKey, Moment] = field(default_factory=dict)  # when they were reported
    state: Cluster | None = None
    moment: Moment = NEVER  # of `state`
    jobs_at_secs: float = 0.0


class SonarNodes:
    """Keeps the latest state of each foreign node and cluster."""

    def __init__(self, clock: Clock, *, max_nodes: int, silence_secs: float = SILENCE_SECS) -> None:
        self._clock = clock
        self._max_nodes = max_nodes
        self._silence_secs = silence_secs
        self._lock = threading.Lock()
        self._nodes: dict[NodeName, _Node] = {}
        self._clusters: dict[str, ClusterState] = {}
        self._counts: Counter[str] = Counter()
        self.dropped_nodes = 0

    def count(self, what: str, number: int = 1) -> None:
        """Add to the count of documents of the kind `what`, or of those refused for the reason `what`."""
        with self._lock:
            self._counts[what] += number

    def counts(self) -> dict[str, int]:
        """Return the number of documents by kind, and of those refused by reason."""
        with self._lock:
            return dict(self._counts)

    def take(self, record: Record) -> str:
        """Store a record unless a later one is known; return what is wrong with it, for the log, or ""."""
        now = self._clock.now_secs()
        with self._lock:
            self._counts[KINDS[type(record)]] += 1
            self._counts["rejected_records"] += len(record.rejected)
            complaint = ""
            if isinstance(record, SampleRecord):
                complaint = self._take_sample(record, now)
            elif isinstance(record, SysinfoRecord):
                self._take_sysinfo(record, now)
            elif isinstance(record, JobsRecord):
                self._take_jobs(record, now)
            elif isinstance(record, ClusterRecord):
                self._take_cluster(record, now)
            self._bound()
            return complaint

    def nodes(self) -> dict[NodeName, NodeState]:
        """Return the nodes whose latest sample is recent enough.

        Nodes that have sent nothing for long are forgotten.
        """
        now = self._clock.now_secs()
        with self._lock:
            for name, node in list(self._nodes.items()):
                if now - max(node.state.seen_at_secs, node.touched_at_secs) > self._silence_secs:
                    del self._nodes[name]
            states = {name: node.state for name, node in self._nodes.items() if node.state.sample is not None}
        return {name: each for name, each in states.items() if now - each.seen_at_secs <= self._silence_secs}

    def clusters(self) -> dict[str, ClusterState]:
        """Return the clusters whose jobs or nodes have been reported."""
        now = self._clock.now_secs()
        with self._lock:
            for cluster in self._clusters.values():
                self._forget_ended(cluster, now)
            return {name: replace(each, jobs=dict(each.jobs)) for name, each in self._clusters.items()}

    # --- with the lock held ----------------------------------------------------------

    def _node(self, name: NodeName, now: float) -> _Node:
        node = self._nodes.pop(name, None) or _Node()
        node.touched_at_secs = now
        self._nodes[name] = node  # the one silent for longest comes first
        return node

    def _bound(self) -> None:
        for name in list(itertools.islice(self._nodes, max(0, len(self._nodes) - self._max_nodes))):
            del self._nodes[name]
            self.dropped_nodes += 1
        for cluster in list(itertools.islice(self._clusters, max(0, len(self._clusters) - MAX_CLUSTERS))):
            del self._clusters[cluster]

    def _take_sample(self, record: SampleRecord, now: float) -> str:
        name = (record.cluster, record.node)
        moment = _moment_of(record.time_secs, now)
        at = moment.at_secs
        if now - at > self._silence_secs:
            self._counts["stale"] += 1
            return f"sample of {shown(record.node)} is {now - at:.0f} s old: is its clock slow?"
        known = self._nodes.get(name)
        new, old = (at, 0.0) if known is None else moment.ordered(known.moment, now)
        if new <= old:
            self._counts["stale"] += 1
            return ""
        node = self._node(name, now)
        node.moment = moment
        processes = processes_by_key(record.jobs)
        reborn: set[WorkKey] = set()
        for key, found in processes.items():
            book = node.books.setdefault(key, ForeignJobCounters())
            if isinstance(key, GroupKey) and at - book.seen_at_secs > GROUP_GAP_SECS:
                book = node.books[key] = ForeignJobCounters()
                reborn.add(key)
            book.update(found, at)
        _forget_books(node.books, at)
        gpus, job_gpus = _integrate(node, record, at, reborn)
        totals = {key: node.books[key].total for key in processes if key in node.books}
        snapshot, sysinfo = compute_snapshot(record, totals, gpus, job_gpus, at), node.state.sysinfo
        node.state = NodeState(
            sample=record,
            sysinfo=sysinfo,
            seen_at_secs=at,
            totals=totals,
            snapshot=snapshot if sysinfo is None else add_hardware(snapshot, record, sysinfo),
        )
        return ""

    def _take_sysinfo(self, record: SysinfoRecord, now: float) -> None:
        node = self._node((record.cluster, record.node), now)
        state, moment = node.state, _moment_of(record.time_secs, now)
        new, old = moment.ordered(node.sysinfo_moment, now)
        if new < old:
            self._counts["stale"] += 1
            return
        node.sysinfo_moment = moment
        snapshot = state.snapshot
        if state.sample is not None and snapshot is not None:
            snapshot = add_hardware(snapshot, state.sample, record)
        node.state = replace(state, sysinfo=record, snapshot=snapshot)

    def _cluster(self, name: str) -> ClusterState:
        cluster = self._clusters.pop(name, None) or ClusterState()
        self._clusters[name] = cluster
        return cluster

    def _take_jobs(self, record: JobsRecord, now: float) -> None:
        cluster = self._cluster(record.cluster)
        moment = _moment_of(record.time_secs, now)
        cluster.jobs_at_secs = max(cluster.jobs_at_secs, moment.at_secs)
        for each in record.jobs:
            key = each.job.key
            new, old = moment.ordered(cluster.times.get(key, NEVER), now)
            if each.step or new < old:
                continue
            known = cluster.jobs.pop(key, None)
            cluster.jobs[key] = _with_share(each.job if known is None else fill_unknown(each.job, known))
            cluster.times[key] = moment
        for key in list(itertools.islice(cluster.jobs, max(0, len(cluster.jobs) - MAX_JOBS))):
            del cluster.jobs[key], cluster.times[key]

    def _take_cluster(self, record: ClusterRecord, now: float) -> None:
        cluster, moment = self._cluster(record.cluster), _moment_of(record.state.taken_at_secs or None, now)
        new, old = moment.ordered(cluster.moment, now)
        if new < old:
            self._counts["stale"] += 1
            return
        cluster.state, cluster.moment = record.state, moment

    def _forget_ended(self, cluster: ClusterState, now: float) -> None:
        for key, job in list(cluster.jobs.items()):
            if job.state.is_finished and now - cluster.times[key].at_secs > self._silence_secs:
                del cluster.jobs[key], cluster.times[key]


def _moment_of(sender_secs: float | None, now: float) -> Moment:
    return Moment(now, now) if sender_secs is None else Moment(min(now, sender_secs), sender_secs)


def _with_share(job: Job) -> Job:
    """Return a job with its allocation on its node; with several nodes, each one's share is unknown."""
    if len(job.nodes) == 1:
        return replace(job, allocated_cpus=job.total_cpus, allocated_gpus=job.total_gpus)
    return replace(job, allocated_cpus=None, allocated_gpus=None)


def _forget_books(books: dict[WorkKey, ForeignJobCounters], now: float) -> None:
    for key, book in list(books.items()):
        if now - book.seen_at_secs > KEEP_BOOKS_SECS:
            del books[key]
    for key in sorted(books, key=lambda each: books[each].seen_at_secs)[: max(0, len(books) - MAX_BOOKS)]:
        del books[key]


def _integrate(
    node: _Node, record: SampleRecord, at: float, reborn: Collection[WorkKey]
) -> tuple[tuple[GpuSample, ...], tuple[JobGpu, ...]]:
    """Return the cards and the jobs' use of them, with counters increased since the previous sample.

    A card's figures are assumed to have held all that time; jobs in `reborn` start from zero.
    """
    gap = min(at - node.state.seen_at_secs, MAX_GAP_SECS) if node.state.sample is not None else 0.0
    cards = {each.card.uuid: count_gpu(each, node.cards.get(each.card.uuid), at, gap) for each in record.gpus}
    kept = {
        place: use
        for place, use in node.job_cards.items()
        if place[0] in node.books and place[0] not in reborn
    }
    job_cards: dict[tuple[WorkKey, str], JobGpu] = {}
    for key, processes in processes_by_key(record.jobs).items():
        for uuid, (util, memory) in compute_job_gpus(processes).items():
            before = kept.get((key, uuid))
            busy = (0.0 if before is None else before.busy_secs or 0.0) + (util or 0.0) / 100 * gap
            job_cards[key, uuid] = JobGpu(
                key=key, uuid=uuid, busy_secs=busy, memory_bytes=memory, ce_util_percent=util
            )
    node.cards = dict([*{**node.cards, **cards}.items()][-MAX_CARDS:])
    node.job_cards = {**kept, **job_cards}
    return tuple(cards.values()), tuple(job_cards.values())
