"""The queue of each batch system, by partition. Only the controller role knows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobfeatures.metrics import gauge
from jobfeatures_exporter.cluster.sums import QueueSums, Sums, Waiting
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family, Sample

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
WAIT = gauge(
    "batch_queue_wait_job_seconds",
    "Sum of the waits of batch_queue_waiting_jobs.",
    _BY_PARTITION,
    was="batch_queue_wait_seconds",
)
WAITING = gauge(
    "batch_queue_waiting_jobs",
    "Pending jobs that are eligible to start (neither held nor dependent).",
    _BY_PARTITION,
)

METRICS = (JOBS, CPUS, NODES, GPUS, REASONS, NOT_ELIGIBLE, OLDEST, WAIT, WAITING)

ALWAYS = ("PENDING", "RUNNING")  # shown as 0 where there are none
CAUSES = ("held", "dependent", "date")
NOBODY = Waiting(0, 0, 0)


def families(context: Context) -> Iterator[Family]:
    """Yield the queues' families; partitions whose queue is empty are there where they are known."""
    partitions = {cluster.source: tuple(cluster.partitions) for cluster in context.clusters}
    queues = [(queue, partitions.get(queue.source, ())) for queue in context.queues]
    for metric, name in ((JOBS, "jobs"), (CPUS, "cpus"), (NODES, "nodes")):
        samples = [
            each
            for queue, known in queues
            for each in _samples(queue, {**_zeros(known), **getattr(queue, name)})
        ]
        yield Family(metric, samples)
    yield Family(GPUS, [each for queue, _ in queues for each in _samples(queue, queue.gpus)])
    yield Family(REASONS, [each for queue, _ in queues for each in _samples(queue, queue.reasons)])
    yield Family(
        NOT_ELIGIBLE,
        [
            each
            for queue, known in queues
            for each in _samples(queue, {**_zeros(known, CAUSES), **queue.not_eligible})
        ],
    )
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


def _zeros(partitions: Iterable[str], words: Iterable[str] = ALWAYS) -> dict[tuple[str, str], int]:
    return dict.fromkeys(((partition, word) for partition in partitions for word in words), 0)


def _samples(queue: QueueSums, sums: Sums) -> Iterator[Sample]:
    for (partition, value), number in sums.items():
        yield (queue.source, partition, value), number
