"""Makes the metrics of foreign nodes, by the same collectors as for our own node.

They have the labels cluster and node. A collector's output for a node is cached until the node or its cluster
reports something newer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from jobfeatures.records.metrics import Metric, counter, gauge
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, fill_unknown
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.cluster.sums import compute_cluster_sums, compute_queue_sums
from jobfeatures_exporter.families.exposition import (
    Block,
    Family,
    LabelTexts,
    Sample,
    Values,
    block_of,
    render_blocks,
)
from jobfeatures_exporter.ingest.nodes import ClusterState, NodeName, NodeState, SonarNodes
from jobfeatures_exporter.model.context import Context, job_labels
from jobfeatures_exporter.model.snapshot import Kind, kind_of
from jobfeatures_exporter.privacy.hiding import NO_PRIVACY, Privacy
from jobfeatures_exporter.scrape.budget import SeriesBudget, weigh_jobs
from jobfeatures_exporter.scrape.collectors import COLLECTORS, jobs

log = logging.getLogger(__name__)

NODE: Final = ("cluster", "node")

AGE = gauge("batch_sonar_node_age_seconds", "Age of the latest sample of a foreign node.", NODE)
CORES = counter(
    "batch_node_core_busy_seconds",
    "Busy CPU time of a core since boot, of nodes that do not report modes.",
    ("core",),
)
USED = gauge("batch_node_memory_used_bytes", "Memory of the node in use.")
ERRORS = gauge("batch_sonar_node_errors", "Errors in the latest sample of a foreign node.")
DOCUMENTS = counter("batch_sonar_documents", "Documents received, by type or reason of rejection.", ("kind",))
DROPPED = counter("batch_sonar_dropped_nodes", "Foreign nodes dropped because there were too many.")

METRICS = (
    AGE,
    *(replace(each, label_names=(*NODE, *each.label_names)) for each in (CORES, USED, ERRORS)),
    DOCUMENTS,
    DROPPED,
)

_STORAGE: Final = {
    jobs.STORAGE_READ: "read_bytes",
    jobs.STORAGE_WRITTEN: "written_bytes",
    jobs.STORAGE_CANCELLED: "cancelled_bytes",
}
OF_NODE: Final = ("node", "sysinfo", "jobs", "allocation", "gpus")
OF_CLUSTER: Final = ("queue", "cluster")
# What a foreign snapshot does not contain, and ages: `AGE` covers them all.
LEFT_OUT: Final = frozenset(
    {
        "batch_node_processes",
        "batch_node_unreadable_readings",
        "batch_gpu_age_seconds",
        "batch_gpu_driver_up",
        "batch_gpu_processes",
        # Job records do not say why a job waits: it may be held.
        "batch_queue_pending_jobs",
        "batch_queue_oldest_wait_seconds",
        "batch_queue_wait_job_seconds",
        "batch_queue_waiting_jobs",
    }
)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The cached lines of a node, and what they were made from."""

    state: NodeState
    jobs: Mapping[JobKey, Job]
    budget: SeriesBudget
    blocks: list[Block]


class SonarPage:
    """Makes the text of /sonar/metrics: the metrics of foreign nodes."""

    def __init__(
        self,
        nodes: SonarNodes,
        clock: Clock,
        kinds: frozenset[Kind],
        max_series: int = 0,
        privacy: Privacy = NO_PRIVACY,
    ) -> None:
        """Make pages of work of these `kinds`, with at most `max_series` series per node (0: unlimited)."""
        self._privacy = privacy
        self._nodes = nodes
        self._clock = clock
        self._kinds = kinds
        self._max_series = max_series
        self._kept: dict[NodeName, _Kept] = {}

    def exposition(self, *, openmetrics: bool) -> bytes:
        """Return the metrics page: each family once, with the samples of all nodes.

        It is in the OpenMetrics format if `openmetrics`, else in Prometheus' text format.
        """
        return render_blocks(self._blocks(), openmetrics=openmetrics)

    def _blocks(self) -> Iterator[Block]:
        """Yield the blocks of all nodes and clusters, then the counts of received documents."""
        now = self._clock.now_secs()
        clusters = self._nodes.clusters()
        states = self._nodes.nodes()
        by_node = {name: _jobs_by_node(each) for name, each in clusters.items()}
        kept: dict[NodeName, _Kept] = {}
        for name, state in states.items():
            known = by_node.get(name[0], {}).get(_short(name[1]), {})
            old = self._kept.get(name)
            if old is not None and old.state is state and old.jobs == known:
                kept[name] = old
            else:
                kept[name] = self._keep(name, state, known, old.budget if old is not None else None)
        self._kept = kept
        ages = [(name, max(0.0, now - each.seen_at_secs)) for name, each in states.items()]
        yield from _blocks_of([Family(AGE, ages)])
        for each in kept.values():
            yield from each.blocks
        for cluster, those in clusters.items():
            yield from _blocks_of(_families_of_cluster(cluster, those, now))
        counts = dict(sorted(self._nodes.counts().items()))
        dropped = Family.single(DROPPED, self._nodes.dropped_nodes)
        yield from _blocks_of([Family.by_label(DOCUMENTS, counts), dropped])

    def _keep(
        self, name: NodeName, state: NodeState, known: Mapping[JobKey, Job], budget: SeriesBudget | None
    ) -> _Kept:
        """Return a node's families; a fault of a collector affects this node only."""
        budget = budget or SeriesBudget(self._max_series)
        try:
            context = self._privacy.context(_context_of(state, known, self._kinds))
            page = budget.apply(
                _merged(_families_of_node(state, context)),
                sampled_secs=context.now_secs,
                now_secs=context.now_secs,
                weigh=lambda: weigh_jobs(context),
            )
            found = _blocks_of(_prefixed(family, name, NODE) for family in page.families)
        except Exception:  # supervised
            log.exception(
                "the metrics of a node that another agent monitors cannot be shown",
                extra={"cluster": name[0], "node": name[1]},
            )
            self._nodes.count("not_shown")
            found = []
        return _Kept(state, known, budget, found)


def _context_of(state: NodeState, known: Mapping[JobKey, Job], kinds: frozenset[Kind]) -> Context:
    """Return a node's context for collectors; jobs that only the sample shows are assumed to run."""
    sample, snapshot = state.sample, state.snapshot
    here = {key: job for key, job in known.items() if job.state.is_on_node}
    users = {str(each.job): each.user for each in sample.jobs if each.epoch == 0} if sample else {}
    for key in snapshot.jobs if snapshot is not None else ():
        if isinstance(key, JobKey):
            seen = Job(key=key, state=JobState.RUNNING, user=users.get(key.job_id))
            here[key] = fill_unknown(known[key], seen) if key in known else seen
    made = None if state.sysinfo is None else state.sysinfo.sample
    return Context(now_secs=state.seen_at_secs, snapshot=snapshot, jobs=here, sysinfo=made, kinds=kinds)


def _families_of_node(state: NodeState, context: Context) -> Iterator[Family]:
    sample = state.sample
    if sample is None:
        return
    has_threads = all(each.threads is not None for job in sample.jobs for each in job.processes)
    for collector in OF_NODE:
        for family in COLLECTORS[collector].families(context):
            if family.metric.name not in LEFT_OUT and (has_threads or family.metric is not jobs.THREADS):
                yield family
    yield Family(CORES, [((str(core),), secs) for core, secs in enumerate(sample.core_secs)])
    yield Family.single(USED, sample.used_memory_bytes)
    yield Family.single(ERRORS, len(sample.errors))
    yield from _counters(state, context.kinds)


def _counters(state: NodeState, kinds: frozenset[Kind]) -> Iterator[Family]:
    """Yield the jobs' counters; those of storage only if the agent reports them."""
    totals = [(key, counts) for key, counts in state.totals.items() if kind_of(key) in kinds]
    yield Family(jobs.CPU, [((*job_labels(key), "total"), counts.cpu_secs) for key, counts in totals])
    if state.sample is not None and any(
        process.data_read_bytes is not None for job in state.sample.jobs for process in job.processes
    ):
        for metric, name in _STORAGE.items():
            yield Family(metric, [(job_labels(key), getattr(counts, name)) for key, counts in totals])


def _families_of_cluster(name: str, cluster: ClusterState, now: float) -> Iterator[Family]:
    table = JobTable(source="slurm", jobs=cluster.jobs, taken_at_secs=cluster.jobs_at_secs, complete=False)
    context = Context(
        now_secs=now,
        queues=(compute_queue_sums(table),) if cluster.jobs_at_secs else (),
        clusters=(compute_cluster_sums(cluster.state),) if cluster.state is not None else (),
    )
    for collector in OF_CLUSTER:
        for family in COLLECTORS[collector].families(context):
            if family.metric.name not in LEFT_OUT:
                yield _prefixed(family, (name,), ("cluster",))


def _jobs_by_node(cluster: ClusterState) -> dict[str, dict[JobKey, Job]]:
    found: dict[str, dict[JobKey, Job]] = {}
    for key, job in cluster.jobs.items():
        for node in job.nodes:
            found.setdefault(_short(node), {})[key] = job
    return found


def _short(name: str) -> str:
    return name.split(".", 1)[0]


def _prefixed(family: Family, prefix: Values, names: tuple[str, ...]) -> Family:
    samples = [((*prefix, *values), value) for values, value in family.samples]
    return Family(_with_labels(family.metric, names), samples)


@cache
def _with_labels(metric: Metric, names: tuple[str, ...]) -> Metric:
    return replace(metric, label_names=(*names, *metric.label_names))


def _blocks_of(families: Iterable[Family]) -> list[Block]:
    texts = LabelTexts()
    return [block_of(family, texts) for family in families if family.samples]


def _merged(families: Iterable[Family]) -> list[Family]:
    found: dict[str, tuple[Metric, list[Sample]]] = {}
    for family in families:
        if family.samples:
            found.setdefault(family.metric.name, (family.metric, []))[1].extend(family.samples)
    return [Family(metric, samples) for metric, samples in found.values()]
