"""Collector in the controller role: the queue of each batch system, by partition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from jobfeatures.records.metrics import Metric, gauge
from jobfeatures_exporter.cluster.sums import Waiting, samples_of
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

_BY_STATE = ("batch_system", "partition", "state")
_BY_PARTITION = ("batch_system", "partition")

JOBS = gauge(
    "batch_queue_jobs",
    "Jobs that have not ended; each task of an array counts, and a job of two partitions in both.",
    _BY_STATE,
)
CPUS = gauge("batch_queue_cpus", "CPUs that these jobs request or have.", _BY_STATE)
NODES = gauge("batch_queue_nodes", "Nodes that these jobs request or have.", _BY_STATE)
GPUS = gauge("batch_queue_gpus", "GPUs that these jobs request or have, if accounted for.", _BY_STATE)
REASONS = gauge(
    "batch_queue_pending_jobs",
    "Pending jobs by the batch system's reason; sentences count as other.",
    (*_BY_PARTITION, "reason"),
)
NOT_ELIGIBLE = gauge(
    "batch_queue_not_eligible_jobs",
    "Pending jobs that may not start yet: held, dependent (on other jobs), date (a begin time).",
    (*_BY_PARTITION, "cause"),
)
OLDEST = gauge("batch_queue_oldest_wait_seconds", "Longest wait of batch_queue_waiting_jobs.", _BY_PARTITION)
WAIT = gauge("batch_queue_wait_job_seconds", "Sum of the waits of batch_queue_waiting_jobs.", _BY_PARTITION)
WAITING = gauge(
    "batch_queue_waiting_jobs",
    "Pending jobs that are eligible to start (neither held nor dependent).",
    _BY_PARTITION,
)

ALWAYS = ("PENDING", "RUNNING")  # shown as 0 where there are none
CAUSES = ("held", "dependent", "date")
_SUMS: dict[Metric, tuple[str, tuple[str, ...]]] = {
    JOBS: ("jobs", ALWAYS),
    CPUS: ("cpus", ALWAYS),
    NODES: ("nodes", ALWAYS),
    GPUS: ("gpus", ()),
    REASONS: ("reasons", ()),
    NOT_ELIGIBLE: ("not_eligible", CAUSES),
}
METRICS = (*_SUMS, OLDEST, WAIT, WAITING)
NOBODY = Waiting(0, 0, 0)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about queues; known partitions with an empty queue are included."""
    partitions = {cluster.source: tuple(cluster.partitions) for cluster in context.clusters}
    queues = [(queue, partitions.get(queue.source, ())) for queue in context.queues]
    for metric, (name, always) in _SUMS.items():
        found = (samples_of(queue, name, known, always) for queue, known in queues)
        yield Family(metric, list(chain.from_iterable(found)))
    waits = [
        ((queue.source, partition), waiting)
        for queue, known in queues
        for partition, waiting in {**dict.fromkeys(known, NOBODY), **queue.waiting}.items()
    ]
    now = context.now_secs
    yield Family(
        OLDEST,
        [(values, max(0.0, now - each.first_since_secs) if each.jobs else 0) for values, each in waits],
    )
    yield Family(WAIT, [(values, max(0.0, now * each.jobs - each.sum_since_secs)) for values, each in waits])
    yield Family(WAITING, [(values, each.jobs) for values, each in waits])
